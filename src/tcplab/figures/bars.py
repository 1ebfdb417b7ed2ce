"""Bars distinguished by hatch as well as colour, and the words at their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tcplab.figures.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["beside", "look_of", "named_once"]


def look_of(style: Style) -> dict[str, Any]:
    """A style as arguments for Axes.bar and Axes.barh: pale, with a coloured edge and a hatch."""
    from matplotlib.colors import to_rgba

    return {
        "facecolor": to_rgba(style.colour, 0.3),
        "edgecolor": style.colour,
        "hatch": style.hatch,
        "linewidth": 1.8,
    }


def named_once(axes: Axes, name: str) -> str | None:
    """The name for the legend, unless it stands there already."""
    return None if name in axes.get_legend_handles_labels()[1] else name


def beside(axes: Axes, words: str, x: float, y: float, *, above: bool = False) -> None:
    """Words at the end of a bar: to the right of (x, y), or above it."""
    where: dict[str, Any] = {"xytext": (8, 0), "va": "center"}
    if above:
        where = {"xytext": (0, 6), "ha": "center"}
    axes.annotate(words, (x, y), textcoords="offset points", **where)
