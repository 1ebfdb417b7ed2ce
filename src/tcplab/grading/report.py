"""The report on a graded class: a page, a table for spreadsheets, and tables that LMSs import."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TEMPLATE: Final = Path(__file__).with_name("report.html.j2")


@dataclass(frozen=True, slots=True)
class Line:
    """One student in the report.

    Attributes:
        score: points so far, None when there is no grade at all.
        max_score: of the assignment.
        by_question: points of each.
        to_mark: whether something is left for a person.
        seconds: the grading took.
        repairs, flags: see tcplab.grading.repair and .flags.
        error: why there is no grade.
        name: "Last, First" where the gradebook knows it.
        lms_id: the LMS's number of the student, likewise.
    """

    student: str
    score: float | None
    max_score: float
    by_question: Mapping[str, float]
    to_mark: bool
    seconds: float
    repairs: list[str]
    flags: list[str]
    error: str = ""
    name: str = ""
    lms_id: str = ""


def lines(config: Any, assignment: str, root: Path, failed: Mapping[str, str]) -> list[Line]:
    """One line per student of a class, from the gradebook and the reports on each submission."""
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

    from tcplab.grading.nbgrader_plugins import report_path

    found = []
    folders = CourseDirectory(config=config)
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        max_score = float(gradebook.find_assignment(assignment).max_score)
        for submission in gradebook.assignment_submissions(assignment):
            person = submission.student
            student = person.id
            path = report_path(root, assignment, student)
            report = json.loads(path.read_text()) if path.is_file() else {}
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            found.append(
                Line(
                    student,
                    None if student in failed else float(submission.score),
                    max_score,
                    {grade.name: float(grade.score) for grade in grades},
                    bool(submission.needs_manual_grade),
                    float(report.get("seconds", 0)),
                    report.get("repairs", []),
                    report.get("flags", []),
                    failed.get(student, ""),
                    ", ".join(filter(None, (person.last_name, person.first_name))),
                    person.lms_user_id or "",
                )
            )
    known = {line.student for line in found}
    for student, error in failed.items():
        if student not in known:
            found.append(Line(student, None, max_score, {}, True, 0.0, [], [], error))
    return sorted(found, key=lambda line: line.student)


def write_report(config: Any, assignment: str, root: Path, failed: Mapping[str, str]) -> Path:
    """Writes index.html, grades.csv, moodle.csv and canvas.csv; returns the page's path."""
    listed = lines(config, assignment, root, failed)
    folder = root / "reports" / assignment
    folder.mkdir(parents=True, exist_ok=True)
    questions = sorted({name for line in listed for name in line.by_question})
    page = _page(assignment, listed, questions)
    (folder / "index.html").write_text(page, encoding="utf-8")
    scored = [(line, f"{line.score:g}") for line in listed if line.score is not None]
    top = listed[0].max_score if listed else 0.0
    _write_csv(folder / "grades.csv", *_for_spreadsheets(listed, questions))
    _write_csv(folder / "moodle.csv", *_for_moodle(assignment, scored))
    _write_csv(folder / "canvas.csv", *_for_canvas(assignment, scored, top))
    return folder / "index.html"


def _page(assignment: str, listed: Sequence[Line], questions: Sequence[str]) -> str:
    from jinja2 import Template

    scores = [line.score for line in listed if line.score is not None]
    template = Template(_TEMPLATE.read_text(), autoescape=True, keep_trailing_newline=True)
    page: str = template.render(
        assignment=assignment,
        lines=listed,
        questions=questions,
        median=statistics.median(scores) if scores else 0.0,
        max_score=listed[0].max_score if listed else 0.0,
    )
    return page


_Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def _for_spreadsheets(listed: Sequence[Line], questions: Sequence[str]) -> _Table:
    header = ["student", "score", "max_score", *questions, "to_mark", "seconds"]
    rows = [
        [
            line.student,
            "" if line.score is None else f"{line.score:g}",
            f"{line.max_score:g}",
            *(f"{line.by_question.get(name, 0):g}" for name in questions),
            "yes" if line.to_mark else "no",
            f"{line.seconds:.1f}",
            "; ".join(line.repairs),
            "; ".join(line.flags),
            line.error,
        ]
        for line in listed
    ]
    return [*header, "repairs", "flags", "error"], rows


def _for_moodle(assignment: str, scored: Sequence[tuple[Line, str]]) -> _Table:
    """One column with the user and one per grade item, for Moodle's "Import > CSV file".

    Its page then asks which column is which; UTF-8 and the comma are its defaults. A single line
    with an unknown user makes it refuse the whole file (gradeimport_csv_load_data), so that whoever
    has no grade is not in it.
    """
    return ["username", assignment], [[line.student, score] for line, score in scored]


def _for_canvas(assignment: str, scored: Sequence[tuple[Line, str]], top: float) -> _Table:
    """The five columns that Canvas's gradebook exports and imports, in this order, and a second row
    with the points (gradebook_importer.rb).

    A student is known by Canvas's own number where nbgrader's gradebook has it (lms_user_id), else
    by the login. The assignment is found by its title.
    """
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]
    points = ["    Points Possible", "", "", "", "", f"{top:g}"]
    people = [
        [line.name or line.student, line.lms_id, "", line.student, "", score]
        for line, score in scored
    ]
    return header, [points, *people]


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in rows:
            writer.writerow([_harmless(cell) for cell in row])


def _harmless(cell: str) -> str:
    """A spreadsheet would run what begins like a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t")) else cell
