"""Draw rows of bars or dots, with names on their left and labels at their ends."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.figures import canvas
from tcplab.figures.style import ON_WHITE, SMALL, Style, look_of, text_width_px
from tcplab.tables import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The height of a bar as a share of its row.
THICK: Final = 0.6


def height_of(rows: int, row: float = 24) -> float:
    """Return the height of a figure with this many rows, which is at least canvas.HEIGHT."""
    return max(canvas.HEIGHT, 140 + row * rows)


def name_rows(axes: Axes, names: Sequence[str], *, characters: int = 26) -> None:
    """Write the names of the rows 0, 1, ... to the left of the axes, from top to bottom.

    The y axis then points downwards. Long names are wrapped, and line breaks are kept.
    """
    axes.set_ylim(len(names) - 0.5, -0.5)
    lines = ["\n".join(textwrap.fill(part, characters) for part in n.split("\n")) for n in names]
    axes.set_yticks(range(len(names)), lines)
    axes.tick_params(axis="y", length=0)


def bar(
    axes: Axes,
    row: float,
    *parts: tuple[Style, float],
    left: float = 0.0,
    thick: float | None = None,
) -> float:
    """Draw a bar of several parts, each with a style and a length; return the bar's right end."""
    for look, length in parts:
        label = named_once(axes, look.name)
        axes.barh(row, length, thick or THICK, left=left, label=label, **look_of(look))
        left += length
    return left


def named_once(axes: Axes, name: str) -> str | None:
    """Return the name, or None if the axes' legend already has it."""
    return None if name in axes.get_legend_handles_labels()[1] else name


def beside(
    axes: Axes, words: str, x: float, y: float, *, above: bool = False, mark: bool = False
) -> None:
    """Write a label to the right of (x, y), or `above` it. `mark` leaves room for a mark there."""
    where: dict[str, Any] = {"xytext": (9 if mark else 6, 0), "va": "center"}
    if above:
        where = {"xytext": (0, 4), "ha": "center"}
    # The label is drawn over the grid but below the data.
    where |= {"textcoords": "offset points", "bbox": ON_WHITE, "zorder": 0.9}
    axes.annotate(words, (x, y), **where)


def within(axes: Axes, words: str, x: float, y: float, width_px: float) -> None:
    """Write a label in the middle of a bar if the bar, `width_px` wide, has room for it."""
    if text_width_px(words, SMALL) + 6 < width_px:
        axes.text(x, y, words, ha="center", va="center", bbox=ON_WHITE)


def tick_decades(axes: Axes, which: str = "x") -> None:
    """Put ticks of a logarithmic axis at powers of ten, or at 1, 2, 5, 10, … on a short axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    ticks = [10.0**power for power in range(-6, 12) if low <= 10.0**power <= high]
    if len(ticks) < 3:
        many = (times * 10.0**power for power in range(-6, 12) for times in (1, 2, 5))
        ticks = [value for value in many if low <= value <= high]
    elif len(ticks) > 4:  # in a narrow panel, long numbers would overlap
        ticks = ticks[::2]
    axis.set_ticks(ticks, [digits(tick) for tick in ticks])
    axis.set_ticks([], minor=True)
