"""The report on a graded class: a page, a table for spreadsheets, and tables that LMSs import."""

from __future__ import annotations

import csv
import html
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Line", "lines", "write_report"]

_STYLE: Final = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem }
th, td { border-bottom: 1px solid #bbb }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.flag { color: #8a2b00 } .repair { color: #1f4e79 } .failed { background: #fff0e8 }
ul { margin: 0; padding-left: 1.1rem }
"""


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
    repairs: Sequence[str]
    flags: Sequence[str]
    error: str = ""
    name: str = ""
    lms_id: str = ""


def lines(config: Any, assignment: str, root: Path, failed: Mapping[str, str]) -> list[Line]:
    """All that is known of a class, from the gradebook and the records; by student."""
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
    """Writes index.html, grades.csv, moodle.csv and canvas.csv; the page's path."""
    listed = lines(config, assignment, root, failed)
    folder = root / "reports" / assignment
    folder.mkdir(parents=True, exist_ok=True)
    questions = sorted({name for line in listed for name in line.by_question})
    (folder / "index.html").write_text(_page(assignment, listed, questions), encoding="utf-8")
    _write_csv(
        folder / "grades.csv",
        [
            "student",
            "score",
            "max_score",
            *questions,
            "to_mark",
            "seconds",
            "repairs",
            "flags",
            "error",
        ],
        (
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
        ),
    )
    top = next((line.max_score for line in listed), 0.0)
    scored = [(line, f"{line.score:g}") for line in listed if line.score is not None]
    _write_csv(folder / "moodle.csv", *_for_moodle(assignment, scored))
    _write_csv(folder / "canvas.csv", *_for_canvas(assignment, scored, top))
    return folder / "index.html"


_Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def _for_moodle(assignment: str, scored: Sequence[tuple[Line, str]]) -> _Table:
    """What Moodle's "Import > CSV file" reads: one column that tells who it is, one a grade item.

    Its page then asks which column is which; UTF-8 and the comma are its defaults. A single line
    with an unknown user makes it refuse the whole file (gradeimport_csv_load_data), so that whoever
    has no grade is not in it.
    """
    return ["username", assignment], [[line.student, score] for line, score in scored]


def _for_canvas(assignment: str, scored: Sequence[tuple[Line, str]], top: float) -> _Table:
    """What Canvas's gradebook exports and imports: these five columns, in this order, and a second
    row with the points (gradebook_importer.rb).

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


def _page(assignment: str, listed: Sequence[Line], questions: Sequence[str]) -> str:
    scores = [line.score for line in listed if line.score is not None]
    median = statistics.median(scores) if scores else 0.0
    top = next((line.max_score for line in listed), 0.0)
    flagged = sum(bool(line.flags) for line in listed)
    repaired = sum(bool(line.repairs) for line in listed)
    failed = sum(bool(line.error) for line in listed)
    heads = "".join(f'<th class="number">{html.escape(name)}</th>' for name in questions)
    rows = "\n".join(_row(line, questions) for line in listed)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{html.escape(assignment)}: grades</title>
<style>{_STYLE}</style>
<h1>{html.escape(assignment)}: {len(listed)} submissions</h1>
<p>Median {median:g} of {top:g} points · {repaired} repaired · {flagged} flagged ·
{failed} without a grade · {sum(line.to_mark for line in listed)} to be marked by a person
(<code>jupyter lab</code>, <em>Nbgrader → Formgrader</em>).</p>
<p>A flag takes no points: it says where a person should look. A repair changed nothing of what the
learner wrote.</p>
<table><thead><tr><th>student</th><th class="number">score</th>{heads}<th>to mark</th>
<th class="number">s</th><th>repairs</th><th>flags</th></tr></thead><tbody>
{rows}
</tbody></table></html>
"""


def _row(line: Line, questions: Sequence[str]) -> str:
    score = "none" if line.score is None else f"{line.score:g}"
    cells = "".join(
        f'<td class="number">{line.by_question[name]:g}</td>'
        if name in line.by_question
        else "<td></td>"
        for name in questions
    )
    notes = [*line.flags, *([line.error] if line.error else [])]
    return (
        f"<tr{' class=failed' if line.error else ''}><td>{html.escape(line.student)}</td>"
        f'<td class="number">{score}</td>{cells}<td>{"yes" if line.to_mark else ""}</td>'
        f'<td class="number">{line.seconds:.1f}</td>'
        f"<td>{_list(line.repairs, 'repair')}</td><td>{_list(notes, 'flag')}</td></tr>"
    )


def _list(notes: Sequence[str], kind: str) -> str:
    if not notes:
        return ""
    return (
        f'<ul class="{kind}">'
        + "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        + "</ul>"
    )
