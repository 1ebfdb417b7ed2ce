"""Judge a submission by running its cells in the sandbox and checking its answers outside.

`hidden/judge.py` in the assignment's source folder has one function per question, named after the
cell that carries the points::

    def q1(submission: Submission) -> Verdict: ...

The judge runs in the grader's process and sees only plain data. The learner's process never sees
the judge.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.grading import sandbox
from tcplab.grading.assignment import Task, load_module, normal_id
from tcplab.grading.channel import MAX_OUTPUT, receive
from tcplab.grading.checks import Verdict
from tcplab.grading.flags import suspicious_answers, suspicious_source
from tcplab.grading.processes import reason
from tcplab.grading.release import released_files
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.grading.sandbox_runner import read_files
from tcplab.grading.submission import Submission

MAX_MESSAGE: Final = 2000
#: Wall-clock limits on running the cells of a submission, repeated runs included, and on its cells
#: and questions together. An honest submission takes a few seconds.
CELLS_S: Final = 35.0
JUDGING_S: Final = 50.0
_CELLS_LIMITS: Final = Limits(wall_s=int(CELLS_S))


@dataclass(slots=True)
class JudgingReport:
    """The report on a graded submission, as stored in a file."""

    student: str
    assignment: str
    scores: dict[str, float | None] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)  #: "q7: reason" for each failure of ours
    untouched_tasks: list[str] = field(default_factory=list)
    seconds: float = 0.0


def parts_of(notebook: Any) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """Return the graded test cells by id, and the index and source of each other code cell."""
    tests: dict[str, Any] = {}
    cells: list[tuple[int, str]] = []
    for index, cell in enumerate(notebook.cells):
        metadata = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and metadata.get("grade") and not metadata.get("solution"):
            tests[metadata["grade_id"]] = cell
        elif cell.cell_type == "code":
            cells.append((index, cell.source))
    return tests, cells


class Judge:
    """The judge in the source folder of one assignment, such as solutions/small-writes.

    `own` work is judged with the numbers of the id that the notebook names.
    """

    def __init__(
        self,
        source: Path,
        *,
        unsafe: bool = False,
        own: bool = False,
        limits: Limits = _CELLS_LIMITS,
    ) -> None:
        self.name = source.name
        self.task = Task(source / "task.py", self.name)
        self._source = source
        self.module = load_module(source / "hidden" / "judge.py", f"tcplab_judge_{self.name}")
        self._unsafe, self._own, self._limits = unsafe, own, limits

    def judge(
        self, student: str, cells: Cells, questions: Sequence[str], folder: Path
    ) -> tuple[CellsRun, dict[str, Verdict]]:
        """Run a submission's cells, and judge each question; return the results and the verdicts.

        `folder` holds the submission and the released files.
        """
        names = [*self.task.names, "student"]
        deadline_s = time.monotonic() + JUDGING_S
        ran = run_cells(
            cells,
            folder,
            names,
            self.task.files,
            limits=self._limits,
            student=student,
            unsafe=self._unsafe,
        )
        if self._own:
            student = ran.claimed or student
        answers = {name: ran.answers.get(name) for name in names}
        files = {**read_files(folder, self.task.files), **ran.files}
        files = {name: files[name] for name in self.task.files if name in files}
        untouched = released_files(self._source)
        ran.notes += [
            f"{name} is as it was handed out."
            for name, data in files.items()
            if data == untouched.get(name)
        ]
        if any(flag.startswith("cell-timeout") for flag in ran.flags):
            ran.notes.append(
                f"A cell was stopped. All cells together have {CELLS_S:g} s, and a single one at"
                f" most {_SHARE * CELLS_S / 2:.0f} s."
            )
        submission = Submission(
            student,
            self.task.numbers(student),
            answers,
            files,
            unsafe=self._unsafe,
            folder=self._source,
            deadline_s=deadline_s,
        )
        _look(submission, cells, ran)
        with submission:
            verdicts = {
                question: self._ask(question, submission, ran.failure) for question in questions
            }
            ran.flags += submission.flags
            if submission.is_late:
                ran.flags.append(f"time-used-up: more than {JUDGING_S:g} s")
        return ran, verdicts

    def _ask(self, question: str, submission: Submission, failure: str) -> Verdict:
        """Return the verdict on a question. A failure of ours never costs points.

        `failure` is why the notebook's variables are unknown, or empty.
        """
        if submission.is_late:
            return Verdict(None, f"not judged within {JUDGING_S:g} s; a person decides.")
        try:
            ask: Callable[[Submission], Verdict] = getattr(self.module, question)
            if failure and self.task.answers.get(question):
                raise LabError(failure)
            try:
                verdict = ask(submission)
            except LabError:  # ask again, because a busy machine may have lost packets
                if submission.is_late:
                    raise
                time.sleep(0.5)
                verdict = ask(submission)
        except Exception as error:
            why = reason(error)
            submission.flags.append(f"not-judged: {question}: {why}")
            return Verdict(None, f"could not be judged here ({why}); a person decides.")
        return Verdict(verdict.share, verdict.message[:MAX_MESSAGE])


def _look(submission: Submission, cells: Cells, ran: CellsRun) -> None:
    """Flag suspicious code in a submission, and the use of another student's numbers."""
    claimed, student = ran.claimed, submission.student
    if claimed is not None and normal_id(claimed) != normal_id(student):
        ran.flags.append(f"other-student: the notebook says {claimed[:40]!r}")
        ran.notes.append(
            f"Your notebook uses the numbers of {claimed[:40]!r}, but it was handed in by"
            f" {student!r}; it is judged with the numbers of {student!r}."
        )
    for number, (_, source) in enumerate(cells, start=1):
        ran.flags += suspicious_source(f"code cell {number}", source)
    for name, data in submission.files.items():
        ran.flags += suspicious_source(name, data.decode(errors="replace"))


# ---- running the cells ---------------------------------------------------------------------------


#: The cells to run, each as (index in the notebook, source).
Cells = Sequence[tuple[int, str]]

#: Maximum number of times that cells are run again without a cell that ended the process.
MAX_RESTARTS: Final = 3
_RUNNER: Final = str(Path(__file__).with_name("sandbox_runner.py"))
#: The share of the remaining time that a run may take if its cells can be interrupted.
_SHARE: Final = 0.75


@dataclass(slots=True)
class CellsRun:
    """The results of running a notebook's cells."""

    #: outputs of each completed cell, by the cell's index
    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)  #: plain data, None for a missing answer
    files: dict[str, bytes] = field(default_factory=dict)  #: contents at the end, by name
    notes: list[str] = field(default_factory=list)  #: messages to the learner
    flags: list[str] = field(default_factory=list)  #: notes for a person to check
    #: why the answers are unknown although the cells stayed within all limits, or empty
    failure: str = ""

    @property
    def claimed(self) -> str | None:
        """The id that the notebook's variable `student` names, or None."""
        student = self.answers.get("student")
        return student if isinstance(student, str) and student.strip() else None


def run_cells(
    cells: Cells,
    folder: Path,
    names: Sequence[str],
    files: Sequence[str],
    *,
    limits: Limits = _CELLS_LIMITS,
    student: str = "learner",
    unsafe: bool = False,
) -> CellsRun:
    """Run cells in a sandbox with a copy of `folder`; return the variables `names`, and `files`.

    If a cell ends its process (by os._exit, too much memory, or an endless loop that cannot be
    interrupted), the other cells are run again without it in the remaining time. No cell is run
    again if SIGKILL ended the process within its limits.
    """
    ran, left = CellsRun(), list(cells)
    deadline_s = time.monotonic() + limits.wall_s
    for _ in range(MAX_RESTARTS + 1):
        request = {
            "cells": left,
            "names": list(names),
            "files": list(files),
            "cell_output_bytes": MAX_OUTPUT,
            "time_s": _SHARE * limits.wall_s,
        }
        with tempfile.TemporaryFile(prefix="tcplab-") as stdin:
            stdin.write(json.dumps(request).encode())
            stdin.seek(0)
            outcome = sandbox.run(
                [sys.executable, "-P", _RUNNER, "{result}"],
                given=folder,
                limits=limits,
                lab_allowed=True,
                # Unless the notebook names a student, open_assignment() uses these numbers.
                env={"JUPYTERHUB_USER": student},
                with_result=True,
                stdin=stdin,
                unsafe=unsafe,
            )
        killer = _take_over(ran, left, names, files, outcome)
        if killer is None:
            break
        left = [cell for cell in left if cell[0] != killer]
        if (wall_s := int(deadline_s - time.monotonic())) < 1:
            break
        limits = replace(limits, wall_s=wall_s)
    ran.flags = list(dict.fromkeys([*ran.flags, *suspicious_answers(ran.answers)]))
    return ran


def _take_over(
    ran: CellsRun, cells: Cells, names: Sequence[str], files: Sequence[str], outcome: Outcome
) -> int | None:
    """Add the outcome to `ran`; return the index of the cell that ended the process, or None."""
    received = receive(outcome.result, [index for index, _ in cells], names, files)
    ran.outputs.update(received.outputs)
    ran.flags += [f"damaged-results: {damage}" for damage in received.damage]
    for index, outputs in received.outputs.items():
        if any(output.get("ename") == "CellTimeoutError" for output in outputs):
            ran.flags.append(f"cell-timeout: cell {index + 1} of the notebook")
    if outcome.left_behind and not outcome.stopped_by:
        ran.flags.append(f"left-processes: {outcome.left_behind} were alive at the end")
    if received.finished:
        ran.answers, ran.files = received.answers, received.files
        return None
    started, where = received.started, "before the first cell"
    if started is not None:
        where = f"in code cell {[index for index, _ in cells].index(started) + 1}"
    ended = f"notebook's process {outcome.how_it_ended()} {where}"
    ran.notes.append(f"The {ended}.")
    if outcome.was_killed:
        ran.failure = f"the {ended}; is there enough memory?"
        return None
    ran.flags.append(f"process-ended: {outcome.stopped_by or outcome.signal or 'exit'} {where}")
    return started
