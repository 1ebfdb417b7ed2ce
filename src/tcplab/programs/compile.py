"""Compile a learner's C file with the shared part of the course's programs, here or sandboxed."""

from __future__ import annotations

import os
import re
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
#: What a compiler driver prints when one of its programs dies (gcc, clang). A line of the source
#: cannot look like it: a message about a source begins with the source's name.
_KILLED: Final = re.compile(
    r"^\S*(?:cc|gcc\S*|clang\S*|collect2): (?:fatal |internal compiler )?error: .*"
    r"(?:signal terminated program|terminated with signal|due to signal|execute command)",
    re.MULTILINE,
)
#: Limits on the compiler's messages that a learner sees.
MAX_LINES: Final = 20
MAX_LINE: Final = 200

#: Runs cc with these arguments in a folder with these files. Returns the output file "compiled"
#: (empty if cc failed) and the messages.
Compiler = Callable[[Sequence[str], Mapping[str, bytes]], tuple[bytes, str]]


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled program, or the reason it did not compile."""

    name: str  #: name of the source
    binary: bytes | None  #: the executable, or None if the source did not compile
    messages: str  #: messages of the compiler, at most 20 lines

    @property
    def first_error(self) -> str:
        """The line with the reason it did not compile."""
        lines = self.messages.splitlines()
        errors = [line for line in lines if "error" in line or "undefined reference" in line]
        return (errors or lines)[0]


def was_killed(messages: str) -> bool:
    """Return whether a signal ended the compiler, which is no fault of the source."""
    return _KILLED.search(messages) is not None


def compile_here(arguments: Sequence[str], given: Mapping[str, bytes]) -> tuple[bytes, str]:
    """Compile with this machine's compiler ($CC or cc), without a sandbox, for trusted programs."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
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
    """Compile a C file; link it with the course's library if it includes one of its headers."""
    given, inputs = {"program.c": source.replace(b"\r\n", b"\n")}, ["program.c"]
    headers = _shared_headers()
    if any(f'"{header}"'.encode() in source for header in headers):
        given |= headers | {"shared.o": _shared_object(compiler)}
        inputs.append("shared.o")
    binary, messages = compiler([*FLAGS, *flags, *inputs, "-lm", "-pthread"], given)
    lines = messages.replace("program.c", name).strip().splitlines()
    shown = "\n".join(line[:MAX_LINE] for line in lines[:MAX_LINES])
    if not binary.startswith(b"\x7fELF"):
        return Built(name, None, shown or "the compiler printed nothing")
    return Built(name, binary, shown)


def _shared_headers() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shared_sources()[0].parent.glob("*.h")}


@cache
def _shared_object(compiler: Compiler) -> bytes:
    """Compile the code that the course's programs share, once per process."""
    given = _shared_headers() | {path.name: path.read_bytes() for path in shared_sources()}
    names = [path.name for path in shared_sources()]
    binary, messages = compiler([*FLAGS, "-r", "-nostdlib", *names], given)
    if not binary.startswith(b"\x7fELF"):
        first = (messages.strip().splitlines() or ["no message"])[0]
        raise LabError(f"the course's C library does not compile here: {first}")
    return binary
