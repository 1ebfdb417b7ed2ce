"""A panel's chart as a picture, for pages without a browser's drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcplab.figures import Picture
    from tcplab.tables import Table

__all__ = ["picture"]


def picture(
    curve: Mapping[str, Any], points: Sequence[tuple[float, float]], title: str, table: Table
) -> Picture:
    """The model's lines and a run's points, as panel.js draws them.

    Args:
        curve: axes {"x", "y"} with label, scale, low and high; "lines" with label and points;
            "marks" with x and label; "alt".
        points: measured, on the same axes.
        title: the finding.
        table: the numbers.
    """
    from tcplab.figures import Picture, style

    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.085, 0.12, 0.9, 0.74))
    for line in curve["lines"]:
        axes.plot(*zip(*line["points"], strict=True), "k--", lw=2.4, label=line["label"])
    axes.plot(*zip(*points, strict=True), "o-", ms=9, lw=2, color=style.BLUE, label="measured")
    x, y = curve["x"], curve["y"]
    axes.set_xscale(x["scale"])
    axes.set_xlim(x["low"], x["high"])
    axes.set_ylim(y["low"], y["high"])
    axes.set_xlabel(x["label"], fontsize=style.TEXT)
    axes.set_ylabel(y["label"], fontsize=style.TEXT)
    for number, mark in enumerate(curve["marks"]):
        axes.axvline(mark["x"], color=style.GREY, ls=":", lw=2)
        place = (mark["x"], y["low"] + (0.03 + 0.06 * number) * (y["high"] - y["low"]))
        axes.annotate(mark["label"], place, fontsize=style.SMALL)
    axes.tick_params(labelsize=style.SMALL)
    axes.grid(color="#D8D8D8", lw=0.8)
    axes.legend(loc="upper left", fontsize=style.SMALL)
    measured = ", ".join(f"({a:g}, {b:.3g})" for a, b in points)
    return Picture(figure, title, f"{curve['alt']} Measured: {measured}.", table)
