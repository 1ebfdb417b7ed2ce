"""Show C source in a lesson, read from the source file so that it is never outdated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tcplab.programs.sources import source_folder, source_path

#: Style of a listing in a page. The colours are mixed with the theme's text colour, light or dark.
_STYLE: Final = """
.tcplab-listing { --ink: var(--jp-content-font-color1, var(--color-foreground-primary, CanvasText));
  background: color-mix(in srgb, var(--ink) 5%, transparent); color: var(--ink); }
.tcplab-listing pre { margin: 0; padding: 8px; overflow-x: auto; white-space: pre; }
.tcplab-listing .linenos { opacity: 0.75; padding-right: 1em; user-select: none; }
.tcplab-listing [class^=c] { color: color-mix(in srgb, #00736c 50%, var(--ink)); }
.tcplab-listing [class^=k] { color: color-mix(in srgb, #0059b3 50%, var(--ink)); }
.tcplab-listing [class^=s] { color: color-mix(in srgb, #a03000 50%, var(--ink)); }
.tcplab-listing [class^=m] { color: color-mix(in srgb, #7a3e9d 50%, var(--ink)); }
.tcplab-listing [class^=c] { font-style: italic; }
.tcplab-listing :is([class^=k], .nf) { font-weight: bold; }
"""


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of a source file. A notebook highlights them, and print() shows plain text."""

    file: str  #: the file's name
    #: For each part of the file, the number of its first line and the lines.
    parts: tuple[tuple[int, str], ...]

    def __str__(self) -> str:
        return "\n\n".join(lines for _first, lines in self.parts)

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import CLexer

        shown = "".join(
            highlight(
                lines,
                CLexer(),
                HtmlFormatter(linenos="inline", linenostart=first, cssclass="tcplab-listing"),
            )
            for first, lines in self.parts
        )
        # Make the scrollable areas accessible by keyboard.
        shown = shown.replace("<pre>", '<pre tabindex="0">')
        path = f"src/{source_path(self.file).relative_to(source_folder())}"
        return f"<p><code>{path}</code></p><style>{_STYLE}</style>{shown}"


def listing(file: str, *functions: str) -> Listing:
    """Return a listing of a C source, or of some functions in it with their comments."""
    lines = source_path(file).read_text().splitlines()
    if not functions:
        return Listing(file, ((1, "\n".join(lines)),))
    spans = sorted(_span(lines, name, file) for name in functions)
    return Listing(file, tuple((start + 1, "\n".join(lines[start:end])) for start, end in spans))


def _span(lines: list[str], function: str, file: str) -> tuple[int, int]:
    """Return the start and end indices of a function's lines, with the comment above it.

    The function's last line must be a brace in column 0.
    """
    head = re.compile(rf"^[A-Za-z_][\w \t*]*\b{re.escape(function)}\([^;]*$")
    for start, line in enumerate(lines):
        if head.match(line):
            end = lines.index("}", start) + 1
            if start and lines[start - 1].rstrip().endswith("*/"):
                start = next(i for i in range(start - 1, -1, -1) if "/*" in lines[i])
            return start, end
    raise ValueError(f"no function {function!r} in {file}")
