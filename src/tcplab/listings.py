"""The C source that a lesson shows, read from the real file, so that the two cannot drift apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Listing", "listing", "shared_sources", "source_path"]

_PACKAGE: Final = Path(__file__).parent
# In a checkout the sources stand beside the package; a wheel carries a copy inside it.
_DIRECTORIES: Final = (_PACKAGE.parent / "helpers", _PACKAGE / "helpers")


@dataclass(frozen=True, slots=True)
class Listing:
    """Some lines of a source file; a notebook shows them coloured, print() as they are.

    Attributes:
        file: the file's name.
        first_line: number of the first line shown.
        code: the lines.
    """

    file: str
    first_line: int
    code: str

    def __str__(self) -> str:
        return self.code

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import CLexer

        # Bare classes would need a style sheet that a notebook does not have.
        formatter = HtmlFormatter(
            noclasses=True, linenos="inline", linenostart=self.first_line, style="friendly"
        )
        return f"<p><code>src/helpers/{self.file}</code></p>" + highlight(
            self.code, CLexer(), formatter
        )


def source_path(file: str) -> Path:
    """The path of one of the course's C sources.

    Raises:
        FileNotFoundError: no such source; the message names those that exist.
    """
    for directory in _DIRECTORIES:
        if (path := directory / file).is_file():
            return path
    known = sorted({path.name for each in _DIRECTORIES for path in each.glob("*.c")})
    raise FileNotFoundError(f"no C source {file!r}; there are {', '.join(known) or 'none'}")


def shared_sources() -> list[Path]:
    """What a program that includes "net.h" is linked with: net.c, and the .c of each .h in net.h.

    Beside each of them is its header. CMakeLists.txt reads the same list.

    Raises:
        FileNotFoundError: the course's sources are not installed.
    """
    names = re.findall(r'^#include "(\w+)\.h"$', source_path("net.h").read_text(), re.MULTILINE)
    return [source_path(f"{name}.c") for name in (*names, "net")]


def listing(file: str, *functions: str) -> Listing:
    """The named functions of a C source with the comments above them; the whole file if none.

    Raises:
        FileNotFoundError: no such source.
        ValueError: no such function in it.
    """
    lines = source_path(file).read_text().splitlines()
    if not functions:
        return Listing(file, 1, "\n".join(lines))
    spans = sorted(_span(lines, name, file) for name in functions)
    code = "\n\n".join("\n".join(lines[first:last]) for first, last in spans)
    return Listing(file, spans[0][0] + 1, code)


def _span(lines: list[str], function: str, file: str) -> tuple[int, int]:
    """First line (with the comment above) and end of a function, whose braces start in column 0."""
    head = re.compile(rf"^[A-Za-z_][\w \t*]*\b{re.escape(function)}\([^;]*$")
    for start, line in enumerate(lines):
        if head.match(line):
            end = lines.index("}", start) + 1
            if start and lines[start - 1].rstrip().endswith("*/"):
                start = next(i for i in range(start - 1, -1, -1) if "/*" in lines[i])
            return start, end
    raise ValueError(f"no function {function!r} in {file}")
