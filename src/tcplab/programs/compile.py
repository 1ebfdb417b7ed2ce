"""Compile a learner's C file with the C library of the course, here or in a sandbox."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tcplab import machine
from tcplab.errors import LabError
from tcplab.programs.sources import shared_sources

FLAGS: Final = ("-std=gnu17", "-O2", "-Wall", "-Wextra")
#: Limits on the compiler messages that a learner sees.
MAX_LINES: Final = 20
MAX_LINE: Final = 200

#: A function that runs cc in a folder with the given files. It returns the executable, which is
#: empty if cc failed, and the messages.
Compiler = Callable[[Sequence[str], Mapping[str, bytes]], tuple[bytes, str]]


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled program, or the reason why it did not compile."""

    name: str  #: file name of the source
    binary: bytes | None  #: the executable, or None if the source does not compile
    messages: str  #: messages of the compiler, at most 20 lines

    @property
    def first_error(self) -> str:
        lines = self.messages.splitlines()
        errors = [line for line in lines if "error" in line or "undefined reference" in line]
        return (errors or lines)[0]


def compile_here(arguments: Sequence[str], given: Mapping[str, bytes]) -> tuple[bytes, str]:
    """Compile trusted programs with this machine's compiler ($CC or cc), without a sandbox."""
    compiler = shlex.split(os.environ.get("CC") or machine.find("cc") or "cc")
    machine.require("cc")
    with tempfile.TemporaryDirectory(prefix="tcplab-compile-") as name:
        folder = Path(name)
        for file, data in given.items():
            (folder / file).write_bytes(data)
        ran = subprocess.run(
            [*compiler, *arguments, "-o", "compiled"],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
        made = folder / "compiled"
        return (b"" if ran.returncode else made.read_bytes()), ran.stderr


def compile_program(
    name: str, source: bytes, *, flags: Sequence[str] = (), compiler: Compiler = compile_here
) -> Built:
    """Compile a C file; link the course's library if the file includes one of its headers."""
    if source[:2] in (b"\xff\xfe", b"\xfe\xff"):  # Editors on Windows save UTF-16.
        source = source.decode("utf-16", errors="replace").encode()
    given, inputs = {"program.c": source.replace(b"\r\n", b"\n")}, ["program.c"]
    headers = _shared_headers()
    if any(f'"{header}"'.encode() in source for header in headers):
        given |= headers | {"shared.o": _shared_object(compiler)}
        inputs.append("shared.o")
    binary, messages = compiler([*FLAGS, *flags, *inputs, "-lm", "-pthread"], given)
    lines = [
        line
        for line in messages.replace("program.c", name).strip().splitlines()
        if not line.startswith(("In file included from", "                 from"))
    ]
    shown = "\n".join(line[:MAX_LINE] for line in lines[:MAX_LINES])
    if not binary.startswith(b"\x7fELF"):
        return Built(name, None, shown or "the compiler printed nothing")
    return Built(name, binary, shown)


def _shared_headers() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shared_sources()[0].parent.glob("*.h")}


@cache
def _shared_object(compiler: Compiler) -> bytes:
    """Return the object code that the course's programs share; compile it once per process."""
    given = _shared_headers() | {path.name: path.read_bytes() for path in shared_sources()}
    names = [path.name for path in shared_sources()]
    binary, messages = compiler([*FLAGS, "-D_GNU_SOURCE=", "-r", "-nostdlib", *names], given)
    if not binary.startswith(b"\x7fELF"):
        first = (messages.strip().splitlines() or ["no message"])[0]
        raise LabError(f"the course's C library does not compile here: {first}")
    return binary
