"""Copy a slow program for the learner, and check the repair.

The check is based on segments, bytes and windows on the wire. It reads the program's own report
only for the size and checksum of the backup, and uses times only to detect requests that a cork
holds. Lessons and graders share it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.cases import PROGRAMS, Program
from tcplab.experiments.diagnosis.run import CASES, compile_source, record
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, why_no_lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.sources import source_path


@dataclass(frozen=True, slots=True)
class CodeVerdict:
    """The result of a check of a learner's program."""

    program: str
    passed: bool | None  #: None if the program could not be judged
    message: str  #: the counts and the goal, or the reason for the verdict
    counts: Mapping[str, Any]  #: the row of the run, or empty if there was no complete run

    def __str__(self) -> str:
        titles = {True: "PASSED", False: "NOT YET", None: "NOT JUDGED"}
        return f"{self.program}: {titles[self.passed]}. {self.message}"


def copy(program: Program, folder: str | os.PathLike[str] = ".") -> Path:
    """Copy a program's source into a folder unless it is already there; return its path."""
    choice("program", program, PROGRAMS)
    path = Path(folder) / f"faulty_{program}.c"
    if not path.exists():
        shutil.copyfile(source_path(path.name), path)
    return path


def check(source: str | os.PathLike[str]) -> CodeVerdict:
    """Compile a changed program, run it in a lab, and check its traffic.

    A file that does not compile, fails, hangs or changes the data has not passed, and the message
    gives the reason. In any mode but "live", `passed` is None. The name of the file must contain
    the program's name ("faulty_request.c").
    """
    path = Path(source)
    which = _program_of(path)
    if not path.is_file():
        raise ParameterError(
            f"{path}: no such file; diagnosis.copy({which!r}) makes one to start from"
        )
    if (now := mode()) != "live":
        why = why_no_lab() or f"TCPLAB_MODE={now}"
        return CodeVerdict(
            which, None, f"The check counts segments on a laboratory's wire: {why}.", {}
        )
    case = CASES[which]
    with temporary_folder() as directory:
        try:
            binary = compile_source(path, Path(directory))
        except ParameterError as error:
            return CodeVerdict(which, False, f"{error}.", {})
        with Lab(**dict(case.link)) as lab:  # type: ignore[arg-type]
            try:
                result, stream = record(case, path.name, binary, lab, case.link, snaplen=2048)
            except LabError as error:
                return CodeVerdict(which, False, f"It does not run to its end: {error}.", {})
    counts = result.rows()[0]
    complaint = result.changed_stream(stream) or result.complaint()
    return CodeVerdict(which, not complaint, complaint or case.success.format(**counts), counts)


def _program_of(path: Path) -> Program:
    for program in PROGRAMS:
        if program in path.stem:
            return program
    names = ", ".join(f"faulty_{program}.c" for program in PROGRAMS)
    raise ParameterError(
        f"{path.name}: no program is known by this name; call the file one of {names}"
    )
