"""Show C source in a lesson, read from the source file so that it is never outdated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tcplab.programs.sources import source_folder, source_path

if TYPE_CHECKING:
    from IPython.display import Code


def listing(file: str, *functions: str) -> Code:
    """Return a C source, or some functions in the file's order, for a notebook to highlight."""
    from IPython.display import Code

    path = source_path(file)
    lines = path.read_text().splitlines()
    spans = sorted(_span(lines, name, file) for name in functions) or [(0, len(lines))]
    parts = [f"/* src/{path.relative_to(source_folder())} */"]
    parts += ["\n".join(lines[start:end]) for start, end in spans]
    return Code("\n\n".join(parts), language="c")  # type: ignore[no-untyped-call]


def _span(lines: list[str], function: str, file: str) -> tuple[int, int]:
    """Return a function's range, with the comment above. It must end with a brace in column 0."""
    head = re.compile(rf"^[A-Za-z_][\w \t*]*\b{re.escape(function)}\([^;]*$")
    for start, line in enumerate(lines):
        if head.match(line):
            end = lines.index("}", start) + 1
            if start and lines[start - 1].rstrip().endswith("*/"):
                start = next(i for i in range(start - 1, -1, -1) if "/*" in lines[i])
            return start, end
    raise ValueError(f"no function {function!r} in {file}")
