"""Makes an exercise from a solution: the files of an assignment that learners get.

`hidden/` never leaves the source folder. A C file in it that names a stub is the reference solution
of a file of the same name that learners get, with each region

    /* BEGIN SOLUTION */ … /* END SOLUTION */

replaced by what stands in the comment that follows it, `/* STUB … */`, or by nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError

#: In a cell of a solution: the lines that learners do not get.
SOLUTION: Final = re.compile(r"^### BEGIN SOLUTION\n(.*?)^### END SOLUTION(?:\n|\Z)", re.M | re.S)
_REGION: Final = re.compile(
    r"^[ \t]*/\* BEGIN SOLUTION \*/\n(?P<solution>.*?)^[ \t]*/\* END SOLUTION \*/\n"
    r"(?:^[ \t]*/\* STUB\n(?P<stub>.*?)^[ \t]*\*/\n)?",
    re.MULTILINE | re.DOTALL,
)


def strip_solution(source: str, name: str) -> str:
    """The C file as learners get it.

    Raises:
        ParameterError: a marker without its partner is left, so that something might leak.
    """
    released = _REGION.sub(lambda region: region["stub"] or "", source)
    for number, line in enumerate(released.splitlines(), 1):
        if "SOLUTION" in line or "/* STUB" in line:
            raise ParameterError(
                f"{name} line {number}: BEGIN SOLUTION, END SOLUTION and STUB must stand on lines"
                " of their own, in this order"
            )
    return released


def without_marks(source: str) -> str:
    """The reference solution as one would write it: no marks, and no stub."""
    return _REGION.sub(lambda region: region["solution"], source)


def released_files(source: Path) -> dict[str, bytes]:
    """Of the C files in hidden/ those that learners get, by name."""
    found = {}
    for path in sorted((source / "hidden").glob("*.c")):
        text = path.read_text()
        if "/* BEGIN SOLUTION */" in text:
            found[path.name] = strip_solution(text, path.name).encode()
    return found
