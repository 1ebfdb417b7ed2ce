"""Make the learners' files of an assignment from the solution.

`hidden/` never leaves the source folder. A C file in it with solution markers is the reference
solution of a file that learners get under the same name, with each region

    /* BEGIN SOLUTION */ … /* END SOLUTION */

replaced by the text of the comment that follows it, `/* STUB … */`, or by nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError

#: The lines of a notebook's cell that learners do not get, with their markers.
SOLUTION: Final = re.compile(r"^### BEGIN SOLUTION\n(.*?)^### END SOLUTION(?:\n|\Z)", re.M | re.S)
_REGION: Final = re.compile(
    r"^[ \t]*/\* BEGIN SOLUTION \*/\n(?P<solution>.*?)^[ \t]*/\* END SOLUTION \*/\n"
    r"(?:^[ \t]*/\* STUB\n(?P<stub>.*?)^[ \t]*\*/\n)?",
    re.MULTILINE | re.DOTALL,
)


def strip_solution(source: str, name: str) -> str:
    """Return a C file as learners get it, or raise ParameterError if its markers are wrong."""
    released = _REGION.sub(lambda region: region["stub"] or "", source)
    for number, line in enumerate(released.splitlines(), 1):
        if "SOLUTION" in line or "/* STUB" in line:
            raise ParameterError(
                f"{name} line {number}: BEGIN SOLUTION, END SOLUTION and STUB must be on separate"
                " lines, in this order"
            )
    return released


def without_marks(source: str) -> str:
    """Return the reference solution without markers and stubs."""
    return _REGION.sub(lambda region: region["solution"], source)


def released_files(source: Path) -> dict[str, bytes]:
    """Map each C file in hidden/ that contains a solution to the version for learners."""
    files = {}
    for path in sorted((source / "hidden").glob("*.c")):
        text = path.read_text()
        if "/* BEGIN SOLUTION */" in text:
            files[path.name] = strip_solution(text, path.name).encode()
    return files
