"""Submissions of a class: the solution, the untouched exercise, and known mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from tests.load.person import Person, TroubleError

from tcplab.grading.release import released_files
from tcplab.grading.trial import Trial

COURSE_ID = "tcplab"


@dataclass(frozen=True)
class HandIn:
    """One way to do an assignment, with the points that the grader must give."""

    name: str
    score: float
    cells: Mapping[str, str]
    files: Mapping[str, str]


def hand_ins(source: Path, count: int) -> list[HandIn]:
    """Return a class's work. Of every four submissions, one is right, one untouched, two wrong."""
    trial = Trial(source)
    notebook = nbformat.read(source / f"{source.name}.ipynb", as_version=4)
    cells = {
        own["grade_id"]: cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and (own := cell.metadata.get("nbgrader", {})).get("solution")
    }
    files = {name: (source / "hidden" / name).read_text() for name in released_files(source)}
    right = HandIn("reference", trial.full, cells, files)
    mistakes = []
    for name, mutant in trial.mutants.items():
        changed = dict(files)
        for file, replacements in mutant.files.items():
            for old, new in replacements:
                changed[file] = changed[file].replace(old, new)
        wrong = {**cells, **mutant.answers}
        wrong |= {cell: f"{wrong[cell]}\n{more}" for cell, more in mutant.then.items()}
        mistakes.append(HandIn(name, mutant.score, wrong, changed))
    # Mutants of cells come first and mutants of files last. Mix them, so that a class has both.
    mistakes = mistakes[::2] + mistakes[1::2]
    submissions = []
    for number in range(count):
        turn, kind = divmod(number, 4)
        mistake = mistakes[(2 * turn + kind // 2) % len(mistakes)]
        submissions.append([right, mistake, HandIn("untouched", 0.0, {}, {}), mistake][kind])
    return submissions


async def do_homework(person: Person, assignment: str, hand_in: HandIn) -> None:
    """Fetch the assignment, solve it as `hand_in` says, run its public checks, and submit it."""
    chosen = {"course_id": COURSE_ID, "assignment_id": assignment}
    listed = await person.ask("POST", "assignments/fetch", **chosen)
    _must_be_listed(listed, assignment, "fetched")

    path = f"{assignment}/{assignment}.ipynb"
    notebook = await person.read(path)
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = hand_in.cells.get(name, cell["source"])
    await person.write(path, notebook)
    for name, text in hand_in.files.items():
        await person.write(f"{assignment}/{name}", text)

    async with await person.open_kernel(path) as kernel:
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            run = await kernel.run(cell["source"])
            if run.complaints:
                raise TroubleError(f"{assignment}: {run.complaints[0]}")
            checked = "assignment.check(" in cell["source"]
            if checked and hand_in.name == "reference" and "not yet" in run.text:
                raise TroubleError(f"{assignment}: of a right answer it was said: {run.text}")

    listed = await person.ask("POST", "assignments/submit", **chosen)
    _must_be_listed(listed, assignment, "submitted")


async def fetch_feedback(person: Person, assignment: str) -> None:
    """Fetch the page with the marks, and check that it has a score."""
    chosen = {"course_id": COURSE_ID, "assignment_id": assignment}
    listed = await person.ask("POST", "assignments/fetch_feedback", **chosen)
    (submitted,) = _must_be_listed(listed, assignment, "submitted")
    folder = submitted["submissions"][-1]["local_feedback_path"]
    if not folder:
        raise TroubleError("no feedback came")
    page = await person.read(f"{folder}/{assignment}.html")
    if "Score:" not in page:
        raise TroubleError(f"{folder}/{assignment}.html says nothing of a score")


def _must_be_listed(listed: Any, assignment: str, status: str) -> list[Any]:
    matching = [
        entry
        for entry in listed["value"]
        if listed["success"] and (entry["assignment_id"], entry["status"]) == (assignment, status)
    ]
    if not matching:
        raise TroubleError(f"nbgrader lists no {status} {assignment}: {str(listed)[-300:]}")
    return matching
