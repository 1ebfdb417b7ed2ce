"""Write the report on a graded class, as a page and as tables for spreadsheets and LMSs.

It says how hard each question was. Learners without any points are left out there, since an
untouched exercise says nothing about the questions.
"""

import csv
import io
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tcplab.grading.archive import write_whole
from tcplab.grading.course import folder_of
from tcplab.grading.flags import like_others
from tcplab.grading.ledger import read_class
from tcplab.grading.neutral import one_line, table_cell

_TEMPLATE: Final = Path(__file__).with_name("report.html.j2")


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One student in the report."""

    student: str
    score: float | None = None  #: points so far, or None if there is no grade
    by_question: Mapping[str, float] = field(default_factory=dict)  #: points of each question
    unmarked: frozenset[str] = frozenset()  #: questions that a person has yet to mark
    messages: Mapping[str, str] = field(default_factory=dict)  #: judge's message on each question
    to_mark: bool = True  #: True if a person has to mark something
    seconds: float = 0.0  #: how long grading took
    repairs: list[str] = field(default_factory=list)  #: see tcplab.grading.repair
    flags: list[str] = field(default_factory=list)  #: see tcplab.grading.flags
    error: str = ""  #: why there is no grade, page or verdict, or empty
    name: str = ""  #: "Last, First", or empty if the gradebook does not have it
    lms_id: str = ""  #: the student's number in the LMS, or empty if the gradebook does not have it

    @property
    def marks(self) -> dict[str, float]:
        """Points of each question that has been marked."""
        return {name: at for name, at in self.by_question.items() if name not in self.unmarked}


def lines(
    config: Any, assignment: str, root: Path, failed: Mapping[str, str], lacking: Mapping[str, str]
) -> tuple[list[ReportLine], dict[str, float]]:
    """Return the report's line for each student, and the full points of each question."""
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

    from tcplab.grading.nbgrader_plugins import report_path

    by_student = {student: ReportLine(student, error=error) for student, error in failed.items()}
    folders = CourseDirectory(config=config)
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        full = {
            cell.name: float(cell.max_score)
            for notebook in gradebook.find_assignment(assignment).notebooks
            for cell in (*notebook.grade_cells, *notebook.task_cells)
        }
        for submission in gradebook.assignment_submissions(assignment):
            person = submission.student
            student = person.id
            path = report_path(root, assignment, student)
            report = json.loads(path.read_text()) if path.is_file() else {}
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            handed_in = folder_of(folders, "submitted", student, assignment)
            withdrawn = "" if handed_in.is_dir() else "withdrawn: its folder is gone"
            error = failed.get(student) or withdrawn
            by_student[student] = ReportLine(
                student,
                None if error else float(submission.score),
                {grade.name: float(grade.score) for grade in grades},
                frozenset(grade.name for grade in grades if grade.needs_manual_grade),
                report.get("messages", {}),
                bool(submission.needs_manual_grade),
                float(report.get("seconds", 0)),
                report.get("repairs", []),
                report.get("flags", []),
                error or lacking.get(student, ""),
                ", ".join(filter(None, (person.last_name, person.first_name))),
                person.lms_user_id or "",
            )
    for student in read_class(root):
        waits = folder_of(folders, "submitted", student, assignment).is_dir()
        why = "not graded yet" if waits else "nothing was handed in"
        by_student.setdefault(student, ReportLine(student, error=why, to_mark=False))
    graded = {
        student: folder_of(folders, "autograded", student, assignment)
        for student, line in by_student.items()
        if line.score is not None
    }
    source = folder_of(folders, "source", assignment=assignment)
    for student, flags in like_others(source, graded).items():
        by_student[student].flags.extend(flags)
    return [by_student[student] for student in sorted(by_student)], full


def write_report(
    config: Any, assignment: str, root: Path, failed: Mapping[str, str], lacking: Mapping[str, str]
) -> Path:
    """Write index.html, grades.csv, moodle.csv and canvas.csv; return the path of the page."""
    from jinja2 import Template

    listed, full = lines(config, assignment, root, failed, lacking)
    max_score = sum(full.values())
    folder = root / "reports" / assignment
    questions = sorted({name for line in listed for name in line.by_question})
    scored = [line for line in listed if line.score is not None]
    template = Template(_TEMPLATE.read_text(), autoescape=True, keep_trailing_newline=True)
    page = template.render(
        shown=one_line,
        assignment=assignment,
        lines=listed,
        questions=questions,
        items=items(full, scored),
        median=statistics.median([line.score or 0.0 for line in scored] or [0.0]),
        max_score=max_score,
    )
    write_whole(folder / "index.html", page)
    _write_csv(folder / "grades.csv", _for_spreadsheets(listed, questions, max_score))
    # Students without a grade are left out, because their ids may be wrong. A single unknown user
    # makes Moodle refuse the whole file.
    points = [(line.student, line.score) for line in scored]
    _write_csv(folder / "moodle.csv", [("username", assignment), *points])
    _write_csv(folder / "canvas.csv", _for_canvas(assignment, scored, max_score))
    return folder / "index.html"


_Rows = Iterable[Sequence[object]]


def _for_spreadsheets(
    listed: Sequence[ReportLine], questions: Sequence[str], max_score: float
) -> _Rows:
    header = ["student", "score", "max_score", *questions, "to_mark", "seconds"]
    yield [*header, "repairs", "flags", "error"]
    for line in listed:
        points = [line.score, max_score, *(line.by_question.get(name, 0.0) for name in questions)]
        notes = ["; ".join(line.repairs), "; ".join(line.flags), line.error]
        to_mark = "yes" if line.to_mark else "no"
        yield [line.student, *points, to_mark, f"{line.seconds:.1f}", *notes]


def _for_canvas(assignment: str, scored: Sequence[ReportLine], max_score: float) -> _Rows:
    yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]
    yield ["    Points Possible", "", "", "", "", max_score]
    for line in scored:
        yield [line.name or line.student, line.lms_id, "", line.student, "", line.score]


def _write_csv(path: Path, rows: _Rows) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(
        [f"{value:g}" if isinstance(value, float) else table_cell(value or "") for value in row]
        for row in rows
    )
    write_whole(path, text.getvalue())


# ---- how hard the questions were -----------------------------------------------------------------


#: Minimum number of learners for a mean share of points.
ENOUGH_FOR_A_MEAN: Final = 5
#: A learner's number in a message. Numbers in names (q1_ms) are no such numbers.
_OWN_NUMBER: Final = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


@dataclass(frozen=True, slots=True)
class Item:
    """The statistics of one question."""

    question: str
    count: int  #: number of learners with a mark for the question
    difficulty: float | None  #: mean share of the points, 0 to 1; None for too few learners
    mistake: str = ""  #: the most frequent message of the judge to learners who lack points
    mistaken: int = 0  #: number of learners who got this message


def items(full: Mapping[str, float], listed: Iterable[ReportLine]) -> list[Item]:
    """Return the statistics of each question that has points, by its name."""
    known = {question: points for question, points in sorted(full.items()) if points > 0}
    scored = [line for line in listed if any(line.marks.get(name, 0) > 0 for name in known)]
    made = []
    for name, most in known.items():
        marked = [line for line in scored if name in line.marks]
        shares = [line.marks[name] / most for line in marked]
        difficulty = statistics.fmean(shares) if len(shares) >= ENOUGH_FOR_A_MEAN else None
        mistakes = Counter(
            _OWN_NUMBER.sub("…", line.messages[name])
            for line in marked
            if line.marks[name] < most and line.messages.get(name)
        )
        mistake = max(mistakes.items(), key=lambda entry: (entry[1], entry[0]), default=("", 0))
        made.append(Item(name, len(marked), difficulty, *mistake))
    return made
