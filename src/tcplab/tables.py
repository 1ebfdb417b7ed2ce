"""Tables of plain data that a notebook, a terminal and a document show alike."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Characters of a line for which a notebook on a laptop has room.
_WIDE: Final = 110


def digits(value: float, significant: int = 3) -> str:
    """A measured number with its leading digits only: 12,300 for 12345, 0.0123 for 0.012345."""
    rounded = float(f"{value:.{significant}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (significant - 1) else f"{rounded:g}"


def ms(value: float) -> str:
    """A time with about three significant digits, in µs, ms or s."""
    if abs(value) < 0.0995:
        return f"{value * 1000:.0f} µs"
    if abs(value) >= 10_000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if abs(value) >= 9.95 else f"{value:.2f} ms"


def count(number: float, noun: str) -> str:
    """A number with its noun; of one that is not whole at most six digits."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def rate(bits_per_ms: float) -> str:
    """A rate with three significant digits."""
    if bits_per_ms >= 1e6:
        return f"{bits_per_ms / 1e6:.3g} Gbit/s"
    return f"{bits_per_ms / 1e3:.3g} Mbit/s" if bits_per_ms >= 1e3 else f"{bits_per_ms:.3g} kbit/s"


def run_lengths(sizes: Sequence[int], most: int | None = None) -> str:
    """15 segments of 2 and one of 4 as "15 × 2 + 4"; of more parts than `most` the ends only."""
    runs = [(size, len(list(same))) for size, same in itertools.groupby(sizes)]
    words = [f"{many} × {size}" if many > 1 else str(size) for size, many in runs]
    if most is not None and len(words) > most:
        words = [*words[: most - 1], "…", words[-1]]
    return " + ".join(words)


def thin(text: str) -> str:
    """Commas between thousands as thin no-break spaces; a number of four digits needs none."""

    def spaced(number: re.Match[str]) -> str:
        separator = "\N{NARROW NO-BREAK SPACE}" if len(number[0]) > 5 else ""
        return number[0].replace(",", separator)

    return re.sub(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?!\d|,\d)", spaced, text)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key, heading and format."""

    #: The row's key.
    key: str
    #: With the unit.
    heading: str
    #: A format specification for numbers (".1f"); empty for text. Numbers are aligned right, and a
    #: value that is absent or None is shown as a dash. Where ".3g" would give an exponent,
    #: thousands have separators instead: 41,320 and not 4.13e+04.
    format: str = ""
    #: It was chosen, not measured: where it is the same in all rows, the caption says it.
    is_setting: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a notebook shows it as HTML, print() as text."""

    #: In order of appearance; one whose cells are all empty (a note on nothing) is not shown.
    columns: Sequence[Column]
    #: Flat mappings of plain data; keys that no column names are not shown.
    rows: Sequence[Mapping[str, Any]]
    #: One sentence above the table.
    caption: str = ""

    @classmethod
    def of(
        cls, headings: Sequence[str], rows: Iterable[Sequence[Any]], numbers: str = ".3g"
    ) -> Table:
        """A table from headings and tuples, for a lesson's own few lines.

        Args:
            headings: with units.
            rows: as many cells each as there are headings.
            numbers: format of the columns whose first cell is a number.
        """
        cells = [tuple(row) for row in rows]
        first = cells[0] if cells else ()
        formats = [numbers if isinstance(cell, int | float) else "" for cell in first]
        formats += [""] * (len(headings) - len(formats))
        columns = [
            Column(heading, heading, spec) for heading, spec in zip(headings, formats, strict=True)
        ]
        return cls(columns, [dict(zip(headings, row, strict=True)) for row in cells])

    def text(self, style: str = "simple") -> str:
        """The table in a format of the tabulate package ("simple", "github", "html", ...)."""
        from tabulate import tabulate

        shown = self._shown()
        return tabulate(
            self._cells(shown),
            headers=[each.heading for each in shown],
            tablefmt=style,
            disable_numparse=True,
            colalign=["right" if each.format else "left" for each in shown],
        )

    def narrow(self, width: int = 80) -> str:
        """The table in lines of at most so many characters, as far as its words allow it.

        Headings are broken first. If that is not enough the table is turned: a line for each
        column, and beside each other as many rows as there is room for.
        """
        from tabulate import tabulate

        shown = self._shown()
        cells = self._cells(shown)
        broken = tabulate(
            [[_broken(cell, 24) for cell in row] for row in cells],
            headers=[_broken(each.heading, 12) for each in shown],
            disable_numparse=True,
            colalign=["right" if each.format else "left" for each in shown],
        )
        for text in (self.text(), broken):
            if _width(text) <= width:
                return text
        if not cells:
            return broken
        lines = [
            [each.heading, *(row[number] for row in cells)] for number, each in enumerate(shown)
        ]
        for beside in range(len(cells), 0, -1):
            parts = [
                tabulate(
                    [[_broken(line[0], 36), *_part(line, first, beside)] for line in lines],
                    tablefmt="plain",
                    disable_numparse=True,
                )
                for first in range(1, len(cells) + 1, beside)
            ]
            if max(map(_width, parts)) <= width:
                break
        return "\n\n".join(parts)

    def for_terminal(self) -> str:
        """The caption and the table, no wider than the terminal; in a pipe as wide as it is."""
        width = shutil.get_terminal_size((sys.maxsize, 24)).columns
        text, caption = self.narrow(width), self._caption()
        return f"{textwrap.fill(caption, min(width, 100))}\n\n{text}" if caption else text

    def _shown(self) -> list[Column]:
        same = self._same()
        return [
            each
            for each in self.columns
            if each not in same
            and (not self.rows or any(row.get(each.key) != "" for row in self.rows))
        ]

    def _same(self) -> list[Column]:
        """The settings that are equal in all of some rows."""
        return [
            each
            for each in self.columns
            if each.is_setting
            and len(self.rows) > 1
            and len({cell(row.get(each.key), each.format) for row in self.rows}) == 1
        ]

    def _caption(self) -> str:
        same = [
            f"{each.heading}: {cell(self.rows[0].get(each.key), each.format)}"
            for each in self._same()
        ]
        return " ".join(
            filter(None, (self.caption, f"In all rows {', '.join(same)}." * bool(same)))
        )

    def _cells(self, shown: Sequence[Column]) -> list[list[str]]:
        return [[cell(row.get(each.key), each.format) for each in shown] for row in self.rows]

    def __str__(self) -> str:
        caption = self._caption()
        return f"{caption}\n\n{self.text()}" if caption else self.text()

    def _repr_html_(self) -> str:
        from html import escape

        # No heading is no heading cell.
        html = re.sub(r"<th>\s*</th>", "<td></td>", thin(self.text("html")))
        # JupyterLab aligns cells right, the book left, unless the cell says.
        for tag in ("th", "td"):
            html = html.replace(f"<{tag}>", f'<{tag} style="text-align: left;">')
        # A wide one scrolls: so the keyboard can reach it.
        table = '<table tabindex="0">' if _width(self.text()) > _WIDE else "<table>"
        if said := self._caption():
            table += f"\n<caption>{escape(thin(said))}</caption>"
        return html.replace("<table>", table, 1)

    def _repr_markdown_(self) -> str:
        return self.text("github")


def _broken(words: str, width: int) -> str:
    """In lines of at most so many characters, broken between words."""
    return textwrap.fill(words, width, break_long_words=False, break_on_hyphens=False)


def _part(line: Sequence[str], first: int, count: int) -> list[str]:
    return [_broken(cell, 40) for cell in line[first : first + count]]


def _width(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def cell(value: Any, spec: str) -> str:
    """A value as a table shows it, in the format of its column."""
    if value is None:
        return "–"
    if not spec or isinstance(value, str):
        return str(value)
    text = format(value, spec)
    return format(value, ",.0f") if "e+" in text else text
