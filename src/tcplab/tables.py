"""Show tables of plain data in a notebook, a terminal or a document."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Characters per line that fit into a notebook on a laptop.
_WIDE: Final = 110
_NUMBER: Final = re.compile(r"–|-?\d[\d,]*(\.\d+)?( ?%)?")


def digits(value: float, significant: int = 3) -> str:
    """Format a number with `significant` digits: 12,300 for 12345, 0.0123 for 0.012345."""
    rounded = float(f"{value:.{significant}g}")
    is_whole = abs(rounded) >= 10 ** (significant - 1)
    return grouped(f"{rounded:,.0f}") if is_whole else f"{rounded:g}"


def ms(value: float) -> str:
    """Format a time given in ms with about three significant digits, in µs, ms or s."""
    if abs(value) < 0.0995:
        return f"{value * 1000:.0f} µs"
    if abs(value) >= 10_000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if abs(value) >= 9.95 else f"{value:.2f} ms"


def count(number: float, noun: str) -> str:
    """Format a number with its noun, singular or plural."""
    return f"{plain(number)} {noun}" if number == 1 else f"{plain(number)} {noun}s"


def plain(number: float) -> str:
    """Format a number. An integer keeps all its digits, and a float gets at most six."""
    return grouped(f"{number:,}") if isinstance(number, int) else f"{number:g}"


def rate(bits_per_ms: float) -> str:
    """Format a rate in bits per ms as kbit/s, Mbit/s or Gbit/s, with three significant digits."""
    if bits_per_ms >= 1e6:
        return f"{bits_per_ms / 1e6:.3g} Gbit/s"
    return f"{bits_per_ms / 1e3:.3g} Mbit/s" if bits_per_ms >= 1e3 else f"{bits_per_ms:.3g} kbit/s"


def run_lengths(sizes: Sequence[int], most: int | None = None) -> str:
    """Format 2, 2, 2, 4 as "3 × 2 + 4"; with more parts than `most`, omit the middle."""
    runs = [(size, len(list(same))) for size, same in itertools.groupby(sizes)]
    parts = [f"{repeats} × {size}" if repeats > 1 else str(size) for size, repeats in runs]
    if most is not None and len(parts) > most:
        parts = [*parts[: most - 1], "…", parts[-1]]
    return " + ".join(parts)


def grouped(text: str) -> str:
    """Remove the comma from numbers of four digits, such as 1448. Longer numbers keep theirs."""
    return re.sub(r"(?<![\d,.])(\d),(\d{3})(?!\d|,\d)", r"\1\2", text)


@dataclass(frozen=True, slots=True)
class Column:
    """The key, heading and format of one column of a table."""

    key: str
    #: Heading with the unit.
    heading: str
    #: A format specification for numbers (".1f"), or empty for text. Numbers are right-aligned, and
    #: an absent value or None is shown as a dash. Numbers above 9999 get thousands separators. If
    #: ".3g" would give a positive exponent, all digits are shown (41,320 instead of 4.13e+04).
    format: str = ""
    #: True if the value was chosen, not measured. If there are several rows and all have the same
    #: value, it moves to the caption.
    is_setting: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. A notebook shows them as HTML, print() as text."""

    #: Columns in order. A column whose values are all "" is not shown.
    columns: Sequence[Column]
    #: Flat mappings of plain data. Keys without a column are not shown.
    rows: Sequence[Mapping[str, Any]]
    #: Text above the table.
    caption: str = ""
    #: Commands, one per line, which a notebook folds under the table.
    commands: str = ""

    @classmethod
    def of(
        cls, headings: Sequence[str], rows: Iterable[Sequence[Any]], numbers: str = ".3g"
    ) -> Table:
        """Return a table. A column gets the format `numbers` if its first cell is a number."""
        cells = [tuple(row) for row in rows]
        first = cells[0] if cells else ("",) * len(headings)
        columns = [
            Column(heading, heading, numbers if isinstance(cell, int | float) else "")
            for heading, cell in zip(headings, first, strict=True)
        ]
        return cls(columns, [dict(zip(headings, row, strict=True)) for row in cells])

    def text(self, style: str = "simple", *, broken: bool = False) -> str:
        """Render the table in a tabulate format ("simple", "github", "html", ...).

        With `broken`, long headings and cells are broken into lines.
        """
        from tabulate import tabulate

        shown = self._shown()
        cells = self._cells(shown)
        fold = _broken if broken else lambda text, _width: text
        return tabulate(
            [[fold(cell, 24) for cell in row] for row in cells],
            headers=[fold(column.heading, 12) for column in shown],
            tablefmt=style,
            disable_numparse=True,
            colalign=_aligned(shown, cells),
        )

    def narrow(self, width: int = 80) -> str:
        """Render the table in at most `width` characters per line, if possible.

        If the table is too wide, its headings and cells are broken into lines. If it is still too
        wide, each column becomes a line, and as many rows as fit are placed next to each other.
        """
        from tabulate import tabulate

        shown = self._shown()
        cells = self._cells(shown)
        for text in (self.text(), self.text(broken=True)):
            if _width(text) <= width or not cells:
                return text
        lines = [
            [column.heading, *(row[number] for row in cells)] for number, column in enumerate(shown)
        ]
        for per_block in range(len(cells), 0, -1):
            parts = [
                tabulate(
                    [
                        [_broken(line[0], 36), *(_broken(cell, 40) for cell in line[part])]
                        for line in lines
                    ],
                    tablefmt="plain",
                    disable_numparse=True,
                )
                for part in (slice(i, i + per_block) for i in range(1, len(cells) + 1, per_block))
            ]
            if max(map(_width, parts)) <= width:
                break
        return "\n\n".join(parts)

    def for_terminal(self) -> str:
        """Render caption and table within the terminal's width, or at full width in a pipe."""
        width = shutil.get_terminal_size((sys.maxsize, 24)).columns
        text, caption = self.narrow(width), self._caption()
        return f"{textwrap.fill(caption, min(width, 100))}\n\n{text}" if caption else text

    def _shown(self) -> list[Column]:
        same = self._same()
        return [
            column
            for column in self.columns
            if column not in same
            and (not self.rows or any(row.get(column.key) != "" for row in self.rows))
        ]

    def _same(self) -> list[Column]:
        """Return the settings that have the same value in every row, if there are several rows."""
        return [
            column
            for column in self.columns
            if column.is_setting
            and len(self.rows) > 1
            and len({cell(row.get(column.key), column.format) for row in self.rows}) == 1
        ]

    def _caption(self) -> str:
        same = [
            f"{column.heading}: {cell(self.rows[0].get(column.key), column.format)}"
            for column in self._same()
        ]
        return " ".join(
            filter(None, (self.caption, f"In all rows {', '.join(same)}." * bool(same)))
        )

    def _cells(self, shown: Sequence[Column]) -> list[list[str]]:
        return [[cell(row.get(column.key), column.format) for column in shown] for row in self.rows]

    def __str__(self) -> str:
        caption = self._caption()
        return f"{caption}\n\n{self.text()}" if caption else self.text()

    def _repr_html_(self) -> str:
        from html import escape

        # An empty heading becomes an empty data cell, because an empty heading cell is not
        # accessible.
        html = re.sub(r"<th>\s*</th>", "<td></td>", self.text("html"))
        # JupyterLab aligns cells right and the book left unless the cell specifies it.
        for tag in ("th", "td"):
            html = html.replace(f"<{tag}>", f'<{tag} style="text-align: left;">')
        # A wide table scrolls, so the keyboard must be able to reach it.
        table = '<table tabindex="0">' if _width(self.text()) > _WIDE else "<table>"
        if caption := self._caption():
            table += f"\n<caption>{escape(grouped(caption))}</caption>"
        if self.commands:
            html += "<details><summary>commands on the hosts</summary>"
            html += f'<pre tabindex="0">{escape(self.commands)}</pre></details>'
        return html.replace("<table>", table, 1)

    def _repr_markdown_(self) -> str:
        return self.text("github")


def _aligned(shown: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the alignment of each column. Numbers are right-aligned, even if they are strings."""
    if not cells:  # tabulate 0.9 fails if it is given an alignment and no rows
        return None
    texts = [[row[number] for row in cells] for number in range(len(shown))]
    return [
        "right" if column.format or (of and all(map(_NUMBER.fullmatch, of))) else "left"
        for column, of in zip(shown, texts, strict=True)
    ]


def _broken(text: str, width: int) -> str:
    """Break text between words into lines of at most `width` characters, or of one long word."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _width(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def cell(value: Any, spec: str) -> str:
    """Format a value as a table cell. None becomes a dash; `spec` is the format of a number."""
    if value is None:
        return "–"
    if not spec or isinstance(value, str):
        return grouped(str(value))
    # The comma belongs behind sign and width, and before precision and type.
    text = format(value, re.sub(r"^([^,.%a-zA-Z]*),?", r"\1,", spec))
    return grouped(format(value, ",.0f") if "e+" in text else text)
