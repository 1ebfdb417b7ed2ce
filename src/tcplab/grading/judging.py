"""Runs a submission's cells in the sandbox, and judges their results outside of it.

The hidden judge of an assignment is `hidden/judge.py` in its source folder, with one
function per question, named like the cell that carries its points::

    def q1(work: Submission) -> Verdict: ...

It runs in the grader's process and sees plain data only. The learner's process gets the cells and
the names of the variables, and nothing of this module.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tcplab.errors import LabError, ParameterError
from tcplab.grading import sandbox
from tcplab.grading.assignment import MAX_FILE_BYTES, Task, load_module, read_files
from tcplab.grading.checks import Verdict
from tcplab.grading.flags import suspicious_answers, suspicious_source
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.grading.sandbox_runner import KEPT_TYPES
from tcplab.grading.submission import Submission

__all__ = ["Judge", "Ran", "Report", "parts_of", "run_cells"]

#: After a cell that ended its process the rest is run without it, this often.
MAX_RESTARTS: Final = 3
MAX_MESSAGE: Final = 2000


@dataclass(slots=True)
class Ran:
    """The results of a notebook's cells.

    Attributes:
        outputs: of each cell that ended, by its index.
        answers: plain data, None for what is missing.
        files: bytes by name, as they were at the end.
        notes: what a learner should know (a cell that was stopped).
        flags: for a person to look at.
    """

    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """The report on one graded submission, as it is stored."""

    student: str
    assignment: str
    scores: dict[str, float | None] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    untouched_tasks: list[str] = field(default_factory=list)
    sandboxed: bool = True
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


# ---- running the cells ---------------------------------------------------------------------------


def run_cells(
    cells: Sequence[tuple[int, str]],
    folder: Path,
    names: Sequence[str],
    files: Sequence[str],
    *,
    limits: Limits | None = None,
    cell_timeout_s: float = 30.0,
    student: str = "learner",
    unsafe: bool = False,
) -> Ran:
    """Runs cells (index, source) in a sandbox whose folder begins as a copy of `folder`.

    A cell that ends its process (os._exit, too much memory, an endless loop that cannot be
    interrupted) is left out, and the others are run again.

    Raises:
        SandboxError: no sandbox can be made here.
    """
    ran, left = Ran(), list(cells)
    for _ in range(MAX_RESTARTS + 1):
        request = {
            "cells": [{"index": index, "source": source} for index, source in left],
            "names": list(names),
            "files": list(files),
            "cell_timeout_s": cell_timeout_s,
            "cell_output_bytes": 20_000,
            "file_bytes": MAX_FILE_BYTES,
        }
        outcome = _run_inside(request, folder, student, limits, unsafe)
        killer = _take_over(ran, left, outcome)
        if killer is None:
            break
        left = [each for each in left if each[0] != killer]
    ran.flags += list(suspicious_answers(ran.answers))
    ran.flags = list(dict.fromkeys(ran.flags))
    return ran


def _run_inside(
    request: Mapping[str, Any], folder: Path, student: str, limits: Limits | None, unsafe: bool
) -> Outcome:
    with tempfile.TemporaryFile(prefix="tcplab-") as stdin:
        stdin.write(json.dumps(request).encode())
        stdin.seek(0)
        return sandbox.run(
            [sys.executable, "-P", str(Path(__file__).with_name("sandbox_runner.py")), "{result}"],
            given=folder,
            limits=limits,
            lab_allowed=True,
            # Whose numbers open_assignment() finds, where the notebook does not say.
            env={"JUPYTERHUB_USER": student},
            with_result=True,
            stdin=stdin,
            unsafe=unsafe,
        )


def _take_over(ran: Ran, cells: Sequence[tuple[int, str]], outcome: Outcome) -> int | None:
    """The index of the cell that ended the process too early, None when all went through."""
    started, finished = _take(ran, outcome.result)
    if outcome.left_behind and not outcome.stopped_by:
        ran.flags.append(f"left-processes: {outcome.left_behind} were alive at the end")
    if finished:
        return None
    where = "before the first cell" if started is None else f"in code cell {_nth(cells, started)}"
    ran.notes.append(f"The notebook's process {outcome.how_it_ended()} {where}.")
    ran.flags.append(f"process-ended: {outcome.stopped_by or outcome.signal or 'exit'} {where}")
    return started


def _nth(cells: Sequence[tuple[int, str]], index: int) -> int:
    known = [each[0] for each in cells]
    return known.index(index) + 1 if index in known else -1


def _take(ran: Ran, result: bytes) -> tuple[int | None, bool]:
    """Takes over what is well-formed; the cell begun last, and whether the end was reached."""
    started, finished = None, False
    for line in result.split(b"\n"):
        if not line:
            continue
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            ran.flags.append("damaged-results: a line that is not of the runner")
        elif type(message.get("start")) is int:
            started = message["start"]
        elif type(message.get("cell")) is int:
            outputs = _valid_outputs(message.get("outputs"))
            ran.outputs[message["cell"]] = outputs
            if any(output.get("ename") == "CellTimeoutError" for output in outputs):
                ran.flags.append(f"cell-timeout: cell {message['cell'] + 1} of the notebook")
        elif isinstance(message.get("answers"), dict) and isinstance(message.get("files"), dict):
            if finished:
                ran.flags.append("damaged-results: more than one set of answers")
            ran.answers = message["answers"]
            ran.files = _valid_files(message["files"])
            finished = True
        else:
            ran.flags.append("damaged-results: a line that is not of the runner")
    return started, finished


def _valid_outputs(outputs: Any) -> list[dict[str, Any]]:
    """The outputs, made anew of what the runner may send: whatever else is in them is dropped."""
    found = [_valid_output(each) for each in outputs] if isinstance(outputs, list) else []
    return [each for each in found if each is not None]


def _valid_output(output: Any) -> dict[str, Any] | None:
    match output:
        case {"output_type": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
            return {"output_type": "stream", "name": name, "text": text}
        case {"output_type": "display_data", "data": dict(data)}:
            kept = {kind: data[kind] for kind in KEPT_TYPES if isinstance(data.get(kind), str)}
            return {"output_type": "display_data", "data": kept, "metadata": {}} if kept else None
        case {"output_type": "error", "ename": str(name), "evalue": str(value), **rest}:
            lines = rest.get("traceback")
            shown = [str(line) for line in lines] if isinstance(lines, list) else []
            return {"output_type": "error", "ename": name, "evalue": value, "traceback": shown}
    return None


def _valid_files(files: Mapping[str, Any]) -> dict[str, bytes]:
    found = {}
    for name, text in files.items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except (ValueError, TypeError, binascii.Error):
            continue
    return found


# ---- judging -------------------------------------------------------------------------------------


def parts_of(notebook: Any) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """Of a notebook the cells that carry points by their id, and index and source of the other
    code cells."""
    tests: dict[str, Any] = {}
    cells: list[tuple[int, str]] = []
    for index, cell in enumerate(notebook.cells):
        own = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and own.get("grade") and not own.get("solution"):
            tests[own["grade_id"]] = cell
        elif cell.cell_type == "code":
            cells.append((index, cell.source))
    return tests, cells


class Judge:
    """The judge of one assignment.

    Args:
        source: the assignment's source folder, such as solutions/ps5.

    Raises:
        ParameterError: it lacks task.py or hidden/judge.py.
    """

    def __init__(self, source: Path, *, unsafe: bool = False, limits: Limits | None = None) -> None:
        self.name = source.name
        self.task = Task(source / "task.py", self.name)
        self._source = source
        self._module = load_module(source / "hidden" / "judge.py", f"tcplab_judge_{self.name}")
        self._unsafe = unsafe
        self._limits = limits

    def judge(
        self,
        student: str,
        cells: Sequence[tuple[int, str]],
        questions: Sequence[str],
        folder: Path,
        *,
        cell_timeout_s: float = 30.0,
    ) -> tuple[Ran, dict[str, Verdict]]:
        """Runs a submission's cells and judges each question.

        Args:
            student: the id under which it was handed in.
            cells: index and source of the code cells, without those that carry points.
            questions: ids of the cells that carry points.
            folder: the submission, with what was handed out.
            cell_timeout_s: for each cell.

        Raises:
            SandboxError: no sandbox can be made here.
        """
        names = [*self.task.names, "student"]
        ran = run_cells(
            cells,
            folder,
            names,
            self.task.files,
            limits=self._limits,
            cell_timeout_s=cell_timeout_s,
            student=student,
            unsafe=self._unsafe,
        )
        answers = {name: ran.answers.get(name) for name in names}
        files = {**read_files(folder, self.task.files), **ran.files}
        files = {name: files[name] for name in self.task.files if name in files}
        self._look(student, answers, cells, files, ran)
        work = Submission(
            student,
            self.task.numbers(student),
            answers,
            files,
            unsafe=self._unsafe,
            folder=self._source,
        )
        with work:
            verdicts = {question: self._ask(question, work) for question in questions}
        return ran, verdicts

    def _look(
        self,
        student: str,
        answers: Mapping[str, Any],
        cells: Sequence[tuple[int, str]],
        files: Mapping[str, bytes],
        ran: Ran,
    ) -> None:
        from tcplab.grading.assignment import normal_id

        said = answers.get("student")
        if isinstance(said, str) and normal_id(said) != normal_id(student):
            ran.flags.append(f"other-student: the notebook says {said[:40]!r}")
            ran.notes.append(
                f"Your notebook uses the numbers of {said[:40]!r}, but it was handed in by"
                f" {student!r}; it is judged with the numbers of {student!r}."
            )
        for number, (_, source) in enumerate(cells, start=1):
            ran.flags += suspicious_source(f"code cell {number}", source)
        for name, data in files.items():
            ran.flags += suspicious_source(name, data.decode(errors="replace"))

    def _ask(self, question: str, work: Submission) -> Verdict:
        """One question's verdict; a failure of ours is never the learner's."""
        ask: Callable[[Submission], Verdict] | None = getattr(self._module, question, None)
        if ask is None:
            return Verdict(None, f"hidden/judge.py has no function {question}; a person decides.")
        error: Exception | None = None
        for pause_s in (0.0, 0.5):
            time.sleep(pause_s)
            try:
                verdict = ask(work)
            except LabError as failure:  # lost packets, say: once more
                error = failure
            except Exception as failure:
                error = failure
                break
            else:
                return Verdict(verdict.share, verdict.message[:MAX_MESSAGE])
        if isinstance(error, ParameterError) or not isinstance(error, LabError):
            return Verdict(
                None, f"the judge failed ({type(error).__name__}: {error}); a person decides."
            )
        return Verdict(None, f"could not be judged here ({error}); a person decides.")
