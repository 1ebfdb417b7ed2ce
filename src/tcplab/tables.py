"""Tables of plain data that a notebook, a terminal and a document show alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Column", "Table"]


@dataclass(frozen=True, slots=True)
class Column:
    """How one column is shown.

    Attributes:
        key: the row's key.
        heading: with the unit.
        format: a format specification for numbers (".1f"); empty for text. Numbers are aligned
            right, and a value that is absent or None is shown as a dash.
    """

    key: str
    heading: str
    format: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a notebook shows it as HTML, print() as text.

    Attributes:
        columns: in order of appearance.
        rows: flat mappings of plain data; keys that no column names are not shown.
        caption: one sentence above the table.
    """

    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
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

        return tabulate(
            [[_cell(row.get(each.key), each.format) for each in self.columns] for row in self.rows],
            headers=[each.heading for each in self.columns],
            tablefmt=style,
            disable_numparse=True,
            colalign=["right" if each.format else "left" for each in self.columns],
        )

    def __str__(self) -> str:
        return f"{self.caption}\n\n{self.text()}" if self.caption else self.text()

    def _repr_html_(self) -> str:
        from html import escape

        html = self.text("html")
        caption = (
            f"<table>\n<caption>{escape(self.caption)}</caption>" if self.caption else "<table>"
        )
        return html.replace("<table>", caption, 1)

    def _repr_markdown_(self) -> str:
        return self.text("github")


def _cell(value: Any, spec: str) -> str:
    if value is None:
        return "–"
    return format(value, spec) if spec and not isinstance(value, str) else str(value)
