"""Rows of bars or dots: their names, and the words at their ends."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.figures import canvas
from tcplab.figures.style import ON_WHITE, SMALL, Style, look_of, text_width_px

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A row's height in a narrow drawing, where its name stands above its bar.
NARROW_ROW: Final = 44


def thickness() -> float:
    """The height of a bar, in rows."""
    return 0.36 if canvas.is_narrow() else 0.6


def narrow_height(rows: int, more: float = 70, row: float = NARROW_ROW) -> float:
    """The height of a narrow drawing of so many rows, with axis, labels and legend."""
    return rows * row + more


def wide_height(rows: int, row: float = 24) -> float:
    """The height of a wide drawing of so many rows: a projector's unless they are very many."""
    return max(canvas.WIDE.height, 140 + row * rows)


def name_rows(
    axes: Axes, names: Sequence[str], *, characters: int = 26, lift: float | None = None
) -> None:
    """Names the rows 0, 1, ... from top to bottom: left of them, or above where that is narrow.

    Args:
        axes: whose y axis runs downwards then.
        names: long ones are folded; a line break in them stays where it is left of a row.
        characters: in a line, left of a row.
        lift: the name's height above the middle of its row in a narrow drawing, in rows.
    """
    axes.set_ylim(len(names) - 0.5, -0.72 if canvas.is_narrow() else -0.5)
    if not canvas.is_narrow():
        lines = [
            "\n".join(textwrap.fill(part, characters) for part in n.split("\n")) for n in names
        ]
        axes.set_yticks(range(len(names)), lines)
        axes.tick_params(axis="y", length=0)
        return
    axes.set_yticks([])
    above: dict[str, Any] = {
        "textcoords": "offset points",
        "va": "bottom",
        "annotation_clip": False,
    }
    for row, name in enumerate(names):
        at = 0.0, row - (thickness() / 2 if lift is None else lift)
        words = textwrap.fill(name.replace("\n", " "), 46)
        axes.annotate(words, at, (2, 3), xycoords=axes.get_yaxis_transform(), **above)


def bar(
    axes: Axes,
    row: float,
    *parts: tuple[Style, float],
    left: float = 0.0,
    thick: float | None = None,
) -> float:
    """A bar whose parts, of a look and a length each, follow each other; where it ends."""
    for look, length in parts:
        label = named_once(axes, look.name)
        axes.barh(row, length, thick or thickness(), left=left, label=label, **look_of(look))
        left += length
    return left


def named_once(axes: Axes, name: str) -> str | None:
    """The name for the legend, unless it stands there already."""
    return None if name in axes.get_legend_handles_labels()[1] else name


def beside(
    axes: Axes, words: str, x: float, y: float, *, above: bool = False, mark: bool = False
) -> None:
    """Words at the end of a bar: to the right of (x, y), or above it; clear of a mark there."""
    where: dict[str, Any] = {"xytext": (9 if mark else 6, 0), "va": "center"}
    if above:
        where = {"xytext": (0, 4), "ha": "center"}
    # Over the lines of the grid, below all that is data.
    where |= {"textcoords": "offset points", "bbox": ON_WHITE, "zorder": 0.9}
    axes.annotate(words, (x, y), **where)


def within(axes: Axes, words: str, x: float, y: float, width_px: float) -> None:
    """Words in the middle of a bar, if it is wide enough."""
    if text_width_px(words, SMALL) + 6 < width_px:
        axes.text(x, y, words, ha="center", va="center", bbox=ON_WHITE)


def tick_decades(axes: Axes, which: str = "x") -> None:
    """Ticks of a logarithmic axis at powers of ten, in a narrow drawing at every other one; and
    between them where these are few.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    powers = [power for power in range(-6, 12) if low <= 10.0**power <= high]
    step = 2 if canvas.is_narrow() and len(powers) > 4 else 1
    ticks = [10.0**power for power in powers[::step]]
    if len(powers) < (2 if canvas.is_narrow() else 3):
        many = (times * 10.0**power for power in range(-6, 12) for times in (1, 2, 5))
        ticks = [each for each in many if low <= each <= high]
    axis.set_ticks(ticks, [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)
