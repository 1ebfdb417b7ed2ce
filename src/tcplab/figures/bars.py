"""The words at the ends of bars, and their names in the legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def named_once(axes: Axes, name: str) -> str | None:
    """The name for the legend, unless it stands there already."""
    return None if name in axes.get_legend_handles_labels()[1] else name


def beside(axes: Axes, words: str, x: float, y: float, *, above: bool = False) -> None:
    """Words at the end of a bar: to the right of (x, y), or above it."""
    where: dict[str, Any] = {"xytext": (8, 0), "va": "center"}
    if above:
        where = {"xytext": (0, 6), "ha": "center"}
    axes.annotate(words, (x, y), textcoords="offset points", **where)
