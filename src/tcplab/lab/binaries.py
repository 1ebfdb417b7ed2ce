"""Find the course's C programs, and other commands."""

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tcplab import machine
from tcplab.errors import LabError


def program_path(name: str) -> Path:
    """Return the path of one of the course's C programs, or raise LabError if it is not built."""
    for directory in program_directories():
        if os.access(path := directory / name, os.X_OK):
            return path
    raise LabError(
        f"the program '{name}' is not built; install a C compiler (apt install gcc libc6-dev), then"
        " run 'make setup' in the course's directory, or reinstall the tcplab package"
    )


def program_directories() -> Iterator[Path]:
    """Yield the folders that may hold the course's programs, in the order of preference."""
    # TCPLAB_BIN is for sanitizer builds. An editable install puts CMake's output in the last
    # folder.
    if override := os.environ.get("TCPLAB_BIN"):
        yield Path(override)
    yield Path(__file__).parent.parent / "bin"
    yield Path(sysconfig.get_path("platlib")) / "tcplab" / "bin"


def environment() -> dict[str, str]:
    """Return the caller's environment, with the course's programs first on PATH."""
    path = os.pathsep.join([*map(str, program_directories()), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path}


def find_command(command: str, path: str) -> str:
    """Return the absolute path of a command that is on `path`, or raise LabError."""
    program = shutil.which(command, path=path)
    if program is None:
        machine.require(command)
        raise LabError(f"no command '{command}': neither a program of the course nor on PATH")
    return str(Path(program).absolute())


def is_program(path: str) -> bool:
    """Return whether a path leads to one of the course's programs."""
    return any(Path(path).parent == directory.absolute() for directory in program_directories())
