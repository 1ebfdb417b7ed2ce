"""Runs a notebook's cells in the sandbox, and makes plain data of what comes back.

The learner's process gets the cells and the names of the variables, and nothing else. Whatever it
sends is checked field by field and made anew; the rest is dropped, and reported as a flag.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tcplab.grading import sandbox
from tcplab.grading.flags import suspicious_answers
from tcplab.grading.sandbox import Limits, Outcome
from tcplab.grading.sandbox_runner import KEPT_TYPES

#: Cells to be run: the index in the notebook and the source of each.
Cells = Sequence[tuple[int, str]]

#: After a cell that ended its process the rest is run without it, this often.
MAX_RESTARTS: Final = 3


@dataclass(slots=True)
class Ran:
    """The results of a notebook's cells."""

    #: of each cell that ended, by its index
    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)  #: plain data, None for what is missing
    files: dict[str, bytes] = field(default_factory=dict)  #: bytes by name, as they were at the end
    #: what a learner should know (a cell that was stopped)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  #: for a person to look at


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


def _take_over(ran: Ran, cells: Cells, outcome: Outcome) -> int | None:
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


def _nth(cells: Cells, index: int) -> int:
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
