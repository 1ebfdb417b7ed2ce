"""Write the report on a graded class, as a page and as tables for spreadsheets and LMSs.

It says how hard each question was, and how well it separates learners. Learners without any points
are left out there. An untouched exercise says nothing about the questions, and would make all of
them look correlated.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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
            handed_in = folders.format_path(folders.submitted_directory, student, assignment)
            withdrawn = "" if Path(handed_in).is_dir() else "withdrawn: its folder is gone"
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
        by_student.setdefault(
            student, ReportLine(student, error="nothing was handed in", to_mark=False)
        )
    _flag_likeness(folders, assignment, by_student)
    return [by_student[student] for student in sorted(by_student)], full


def _flag_likeness(folders: Any, assignment: str, by_student: Mapping[str, ReportLine]) -> None:
    source = Path(folders.format_path(folders.source_directory, ".", assignment))
    graded = {
        student: Path(folders.format_path(folders.autograded_directory, student, assignment))
        for student, line in by_student.items()
        if line.score is not None
    }
    for student, flags in like_others(source, graded).items():
        by_student[student].flags.extend(flags)


def write_report(
    config: Any,
    assignment: str,
    root: Path,
    failed: Mapping[str, str],
    lacking: Mapping[str, str] | None = None,
) -> Path:
    """Write index.html, grades.csv, moodle.csv and canvas.csv; return the path of the page."""
    from jinja2 import Template

    listed, full = lines(config, assignment, root, failed, lacking or {})
    max_score = sum(full.values())
    folder = root / "reports" / assignment
    folder.mkdir(parents=True, exist_ok=True)
    questions = sorted({name for line in listed for name in line.by_question})
    scored = [line for line in listed if line.score is not None]
    template = Template(_TEMPLATE.read_text(), autoescape=True, keep_trailing_newline=True)
    page = template.render(
        shown=one_line,
        assignment=assignment,
        lines=listed,
        questions=questions,
        items=_items(listed, full),
        median=statistics.median([line.score or 0.0 for line in scored] or [0.0]),
        max_score=max_score,
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    _write_csv(folder / "grades.csv", _for_spreadsheets(listed, questions, max_score))
    _write_csv(folder / "moodle.csv", _for_moodle(assignment, scored))
    _write_csv(folder / "canvas.csv", _for_canvas(assignment, scored, max_score))
    return folder / "index.html"


def _items(listed: Sequence[ReportLine], full: Mapping[str, float]) -> list[Item]:
    marked = [
        Marked({k: v for k, v in line.by_question.items() if k not in line.unmarked}, line.messages)
        for line in listed
        if line.score is not None
    ]
    return sorted(items(full, marked), key=lambda item: item.question)


_Rows = Iterator[Sequence[object]]


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


def _for_moodle(assignment: str, scored: Sequence[ReportLine]) -> _Rows:
    """Yield rows for Moodle's "Import > CSV file", with the user and the points.

    Students without a grade are left out, because their ids may be wrong. A single unknown user
    makes Moodle refuse the whole file.
    """
    yield ["username", assignment]
    yield from ([line.student, line.score] for line in scored)


def _for_canvas(assignment: str, scored: Sequence[ReportLine], max_score: float) -> _Rows:
    yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]
    yield ["    Points Possible", "", "", "", "", max_score]
    for line in scored:
        yield [line.name or line.student, line.lms_id, "", line.student, "", line.score]


def _write_csv(path: Path, rows: _Rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([_cell(value) for value in row] for row in rows)


def _cell(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else table_cell(value or "")


# ---- how hard the questions were -----------------------------------------------------------------


#: Minimum number of learners for a mean share of points, and for a correlation. The standard error
#: of a correlation near 0 is 1 / sqrt(n - 1), which is 0.23 with 20 learners.
ENOUGH_FOR_A_MEAN: Final = 5
ENOUGH_FOR_A_CORRELATION: Final = 20


@dataclass(frozen=True, slots=True)
class Marked:
    """The marks of one learner."""

    points: Mapping[str, float]  #: points of each question that has been marked
    messages: Mapping[str, str] = field(default_factory=dict)  #: judge's message on each question


@dataclass(frozen=True, slots=True)
class Item:
    """The statistics of one question."""

    question: str
    count: int  #: number of learners with a mark for the question
    difficulty: float | None  #: mean share of the points, 0 to 1; None for too few learners
    #: correlation of the points with the learners' totals in the other questions, or None if there
    #: are too few learners or if the points or the totals do not vary
    discrimination: float | None
    mistake: str = ""  #: the most frequent message of the judge to learners who lack points
    mistaken: int = 0  #: number of learners who got this message

    @property
    def why_no_difficulty(self) -> str:
        return "" if self.difficulty is not None else f"too few ({self.count})"

    @property
    def why_no_discrimination(self) -> str:
        if self.discrimination is not None:
            return ""
        few = self.count < ENOUGH_FOR_A_CORRELATION
        return f"too few ({self.count})" if few else "all alike"


def items(full: Mapping[str, float], class_: Iterable[Marked]) -> list[Item]:
    """Return the statistics of each question that has points."""
    known = {question: points for question, points in full.items() if points > 0}
    marked = [marks for marks in class_ if any(marks.points.get(name, 0) > 0 for name in known)]
    # To be comparable, sums of points only count questions for which all learners have marks.
    common = [name for name in known if all(name in marks.points for marks in marked)]
    return [_item(name, known[name], marked, common) for name in known]


def _item(name: str, full: float, class_: Sequence[Marked], common: Sequence[str]) -> Item:
    marked = [marks for marks in class_ if name in marks.points]
    points = [marks.points[name] for marks in marked]
    rest = [sum(marks.points[other] for other in common if other != name) for marks in marked]
    enough = len(points) >= ENOUGH_FOR_A_MEAN
    mistakes = Counter(
        _neutral(marks.messages[name])
        for marks in marked
        if marks.points[name] < full and marks.messages.get(name)
    )
    mistake, mistaken = max(
        mistakes.items(), key=lambda entry: (entry[1], entry[0]), default=("", 0)
    )
    return Item(
        name,
        len(points),
        statistics.fmean(points) / full if enough else None,
        _correlation(points, rest),
        mistake,
        mistaken,
    )


def _correlation(own: Sequence[float], rest: Sequence[float]) -> float | None:
    if len(own) < ENOUGH_FOR_A_CORRELATION or len(set(own)) < 2 or len(set(rest)) < 2:
        return None
    return statistics.correlation(own, rest)


def _neutral(message: str) -> str:
    """Return a message without the learner's numbers. Numbers in names (q1_ms) remain."""
    return re.sub(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)", "…", message)
