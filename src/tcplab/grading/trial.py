"""Test an assignment before learners do, by grading its solution, mutants and untouched exercise.

`hidden/mutants.py` of an assignment contains wrong solutions, and what they lose::

    from tcplab.grading.trial import Mutant
    MUTANTS = {
        "forgets-the-round-trip": Mutant(loses={"q1": 0.5}, answers={"q1-answer": "q1_ms = 40"}),
        "nodelay-only": Mutant(loses={"q2": 1}, files={"records.c": [("old text", "new text")]}),
    }
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcplab.errors import ParameterError
from tcplab.grading.assignment import load_module
from tcplab.grading.checks import score
from tcplab.grading.judging import Judge, parts_of
from tcplab.grading.release import SOLUTION, released_files
from tcplab.grading.staging import Expected, stage


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong solution, which is the reference with some cells and files changed."""

    #: share of the points that it must lose, by question; 1 is all of them
    loses: Mapping[str, float] = field(default_factory=dict)
    #: new sources of answer cells, by the cell's id
    answers: Mapping[str, str] = field(default_factory=dict)
    #: lines to add after those of the reference in an answer cell, by the cell's id
    then: Mapping[str, str] = field(default_factory=dict)
    #: replacements (old, new) in the reference's C files, by the file's name
    files: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    #: rule of TCP or of the kernel that its C program breaks, or empty for another mistake
    breaks: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of judging one solution."""

    name: str  #: "reference", "untouched" or the name of the mutant
    expected: Mapping[str, float]  #: expected score of each question
    scores: Mapping[str, float | None]  #: score of each question, or None if not judged
    messages: Mapping[str, str]  #: the judge's message on each question
    flags: Sequence[str]  #: notes for a person; an honest solution must have none

    @property
    def total(self) -> float:
        return round(sum(value or 0.0 for value in self.scores.values()), 2)

    @property
    def as_expected(self) -> bool:
        return self.scores == self.expected


class Trial:
    """The source folder of an assignment, with its judge; `options` are those of Judge."""

    def __init__(self, source: Path, **options: Any) -> None:
        import nbformat

        self.source = source
        self.name = source.name
        path = source / f"{self.name}.ipynb"
        if not path.is_file():
            raise ParameterError(
                f"{path}: no such file; the notebook must have the same name as its folder"
            )
        self.notebook = nbformat.read(path, as_version=4)
        self.judge = Judge(source, **options)
        self.task, self.judges = self.judge.task, self.judge.module
        tests, self._cells = parts_of(self.notebook)
        marked = [cell for cell in self.notebook.cells if "nbgrader" in cell.metadata]
        #: the cells of nbgrader by their ids
        self.marked = {cell.metadata.nbgrader.grade_id: cell for cell in marked}
        self.points = {name: self.all_points.get(name, 0.0) for name in tests}
        self.mutants: Mapping[str, Mutant] = {}
        if (path := source / "hidden" / "mutants.py").is_file():
            self.mutants = load_module(path, f"tcplab_mutants_{self.name}").MUTANTS

    @property
    def all_points(self) -> dict[str, float]:
        """The points of each question, also of those that a person marks."""
        points = {name: cell.metadata.nbgrader.get("points") for name, cell in self.marked.items()}
        return {name: float(value) for name, value in points.items() if value}

    @property
    def solution(self) -> list[tuple[str, str]]:
        """The ids and sources of the solution's cells, in order."""
        return [
            (name, cell.source)
            for name, cell in self.marked.items()
            if cell.cell_type == "code" and cell.metadata.nbgrader.get("solution")
        ]

    def names(self) -> list[str]:
        """Return the names of everything that can be tested."""
        return ["reference", "untouched", *self.mutants]

    def run(self, name: str, student: str = "ada", *, questions: Sequence[str] = ()) -> Tried:
        """Grade one of names() as this student's submission, by default for all questions."""
        if name not in self.names():
            raise ParameterError(f"{name!r} is not one of {', '.join(self.names())}")
        untouched = Mutant(dict.fromkeys(self.points, 1))
        mutant = self.mutants.get(name, untouched if name == "untouched" else Mutant())
        cells = self._changed_cells(name, mutant)
        with tempfile.TemporaryDirectory(prefix="tcplab-trial-") as directory:
            Path(directory).chmod(0o755)
            folder = Path(directory) / "given"
            self._lay_out(folder, name, mutant)
            wanted = questions or list(self.points)
            ran, verdicts = self.judge.judge(student, cells, wanted, folder)
        full = {question: self.points[question] for question in wanted}
        return Tried(
            name,
            {one: round(full[one] * (1 - mutant.loses.get(one, 0)), 2) for one in full},
            {one: score(verdicts[one], points) for one, points in full.items()},
            {one: verdicts[one].message for one in full},
            ran.flags,
        )

    def _changed_cells(self, name: str, mutant: Mutant) -> list[tuple[int, str]]:
        ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in self.notebook.cells]
        if lost := {*mutant.answers, *mutant.then} - set(ids):
            raise ParameterError(f"mutant {name}: no answer cell {', '.join(sorted(lost))}")
        changed = []
        for index, source in self._cells:
            given = SOLUTION.sub("", source) if name == "untouched" else source
            given = mutant.answers.get(ids[index], given)
            more = mutant.then.get(ids[index], "")
            changed.append((index, f"{given}\n{more}" if more else given))
        return changed

    def _lay_out(self, folder: Path, name: str, mutant: Mutant) -> None:
        stage(self.source, folder, Expected(f"{self.name}.ipynb"))
        shutil.rmtree(folder / "hidden", ignore_errors=True)
        released = released_files(self.source)
        for file, data in released.items():
            text = data.decode()
            if name != "untouched":
                text = (self.source / "hidden" / file).read_text()
            for old, new in mutant.files.get(file, ()):
                if old not in text:
                    raise ParameterError(f"mutant {name}: {file} does not contain {old[:60]!r}")
                text = text.replace(old, new)
            (folder / file).write_text(text)
            (folder / file).chmod(0o644)
