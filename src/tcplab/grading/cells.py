"""Run the cells of a notebook in the sandbox, and convert the results to plain data.

The learner's process gets the cells, a copy of the submission's folder, and the names of variables
and files. tcplab.grading.channel copies the valid results, and drops and reports everything else.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tcplab.grading import sandbox
from tcplab.grading.channel import receive
from tcplab.grading.flags import suspicious_answers
from tcplab.grading.sandbox import Limits, Outcome

#: The cells to run, each as (index in the notebook, source).
Cells = Sequence[tuple[int, str]]

#: Maximum number of times that cells are run again without a cell that ended the process.
MAX_RESTARTS: Final = 3
#: The share of the remaining time that a run may take if its cells can be interrupted.
_SHARE: Final = 0.75


@dataclass(slots=True)
class CellsRun:
    """The results of running a notebook's cells."""

    #: outputs of each completed cell, by the cell's index
    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)  #: plain data, None for a missing answer
    files: dict[str, bytes] = field(default_factory=dict)  #: contents at the end, by name
    #: messages to the learner, such as one about a cell that was stopped
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  #: notes for a person to check
    #: why the answers are unknown although the cells stayed within all limits, or empty
    failure: str = ""


def run_cells(
    cells: Cells,
    folder: Path,
    names: Sequence[str],
    files: Sequence[str],
    *,
    limits: Limits | None = None,
    cell_timeout_s: float = 30.0,
    student: str = "learner",
    unsafe: bool = False,
) -> CellsRun:
    """Run cells in a sandbox with a copy of `folder`; return the variables `names`, and `files`.

    If a cell ends its process (by os._exit, too much memory, or an endless loop that cannot be
    interrupted), the other cells are run again without it in the remaining time. No cell is run
    again if SIGKILL ended the process within its limits.
    """
    ran, left, limits = CellsRun(), list(cells), limits or Limits()
    deadline_s = time.monotonic() + limits.wall_s
    for _ in range(MAX_RESTARTS + 1):
        request = {
            "cells": [{"index": index, "source": source} for index, source in left],
            "names": list(names),
            "files": list(files),
            "cell_timeout_s": cell_timeout_s,
            "cell_output_bytes": 20_000,
            "time_s": _SHARE * limits.wall_s,
        }
        outcome = _run_inside(request, folder, student, limits, unsafe)
        killer = _take_over(ran, left, names, files, outcome)
        if killer is None:
            break
        left = [cell for cell in left if cell[0] != killer]
        if (wall_s := int(deadline_s - time.monotonic())) < 1:
            break
        limits = replace(limits, wall_s=wall_s)
    ran.flags += list(suspicious_answers(ran.answers))
    ran.flags = list(dict.fromkeys(ran.flags))
    return ran


def _run_inside(
    request: Mapping[str, Any], folder: Path, student: str, limits: Limits, unsafe: bool
) -> Outcome:
    with tempfile.TemporaryFile(prefix="tcplab-") as stdin:
        stdin.write(json.dumps(request).encode())
        stdin.seek(0)
        return sandbox.run(
            [sys.executable, "-P", str(Path(__file__).with_name("sandbox_runner.py")), "{result}"],
            given=folder,
            limits=limits,
            lab_allowed=True,
            # Unless the notebook names a student, open_assignment() uses this student's numbers.
            env={"JUPYTERHUB_USER": student},
            with_result=True,
            stdin=stdin,
            unsafe=unsafe,
        )


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
    started = received.started
    where = (
        "before the first cell"
        if started is None
        else f"in code cell {[index for index, _ in cells].index(started) + 1}"
    )
    ended = f"notebook's process {outcome.how_it_ended()} {where}"
    ran.notes.append(f"The {ended}.")
    if outcome.was_killed:
        ran.failure = f"the {ended}; is there enough memory?"
        return None
    ran.flags.append(f"process-ended: {outcome.stopped_by or outcome.signal or 'exit'} {where}")
    return started
