"""Submissions of a class: the solution, the untouched exercise, and known mistakes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tcplab.grading.release import released_files
from tcplab.grading.trial import Mutant, Trial


@dataclass(frozen=True)
class HandIn:
    """One way to do an assignment, with the points that the grader must give."""

    name: str
    score: float
    cells: Mapping[str, str]
    files: Mapping[str, str]


def hand_in(source: Path, name: str) -> HandIn:
    """Return the reference solution of a set, or one of its known mistakes."""
    trial = Trial(source)
    mutant = trial.mutants.get(name, Mutant())
    notebook = nbformat.read(source / f"{source.name}.ipynb", as_version=4)
    cells = {
        own["grade_id"]: cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and (own := cell.metadata.get("nbgrader", {})).get("solution")
    }
    cells |= mutant.answers
    cells |= {cell: f"{cells[cell]}\n{more}" for cell, more in mutant.then.items()}
    files = {file: (source / "hidden" / file).read_text() for file in released_files(source)}
    for file, replacements in mutant.files.items():
        for old, new in replacements:
            files[file] = files[file].replace(old, new)
    kept = {one: 1 - mutant.loses.get(one, 0) for one in trial.points}
    points = round(sum(round(kept[one] * most, 2) for one, most in trial.points.items()), 2)
    return HandIn(name, points, cells, files)


def hand_ins(source: Path, count: int) -> list[HandIn]:
    """Return a class's work. Of every four submissions, one is right, one untouched, two wrong."""
    right = hand_in(source, "reference")
    mistakes = [hand_in(source, name) for name in Trial(source).mutants]
    # Mutants of cells come first and mutants of files last. Mix them, so that a class has both.
    mistakes = mistakes[::2] + mistakes[1::2]
    submissions = []
    for number in range(count):
        turn, kind = divmod(number, 4)
        mistake = mistakes[(2 * turn + kind // 2) % len(mistakes)]
        submissions.append([right, mistake, HandIn("untouched", 0.0, {}, {}), mistake][kind])
    return submissions


def write(folder: Path, work: HandIn, text: str) -> None:
    """Write the answers and programs into a copy of the exercise, and a text for each task."""
    path = folder / f"{folder.name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = work.cells.get(name, cell.source)
        if cell.id.endswith("-answer") and cell.cell_type == "markdown" and work.cells:
            cell.source = text
    nbformat.write(notebook, path)
    for file, program in work.files.items():
        (folder / file).write_text(program)
