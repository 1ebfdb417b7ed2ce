"""Draw the guesses of a class, with one histogram per question around the measured value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcplab.course.class_predictions import BOUNDS, ClassPredictions, Guesses
from tcplab.figures import canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import SMALL, Style, look_of
from tcplab.tables import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bars of a histogram per factor of ten, and the factor beyond which all guesses share a bar.
_BARS: Final = 5
_MOST: Final = 1000.0
_EDGE: Final = math.log10(_MOST) + 0.75 / _BARS
#: Share of a row's height for the bars. The question is above them.
_HIGHEST: Final = 0.5
_GUESSES: Final = Style(style.BLUE, "", "guesses")
_CLOSE: Final = Style(style.GREEN, "///", "close")


@drawn
def histograms(predictions: ClassPredictions) -> Picture:
    """Draw the guesses as multiples of the measured value; raise ValueError if there are none."""
    missing = "no question has both a guess and a measurement; learners run the lesson to its end"
    # A ratio to a measured zero is meaningless.
    shown = some(
        [guesses for guesses in predictions.guesses if guesses.values and guesses.measured], missing
    )
    figure, axes = canvas.new_axes()
    for row, guesses in enumerate(shown):
        _histogram(axes, guesses, row)
    axes.set_xlim(-_EDGE, _EDGE)
    axes.set_ylim(len(shown) - 0.98, -0.8)
    ticks = ["≤ 1/1000", "1/100", "1/10", "1", "10", "100", "≥ 1000"]
    axes.set_xticks(range(-3, 4), ticks)
    axes.set_yticks([])
    axes.set_xlabel("guess / measured; green: close, within a quarter")
    axes.spines["left"].set_visible(False)
    return Picture(figure, _finding(predictions, shown), predictions.table)


def _histogram(axes: Axes, guesses: Guesses, row: int) -> None:
    """Draw bars upwards from the row's line, with the highest bar equally high in each row."""
    counts = Counter(map(_place, guesses.ratios))
    highest = max(counts.values())
    for place, count in counts.items():
        look = look_of(_CLOSE if place == 0 else _GUESSES)
        axes.bar(place / _BARS, -_HIGHEST * count / highest, 0.9 / _BARS, bottom=row, **look)
    axes.axhline(row, color="black", lw=0.8)
    axes.plot([0, 0], [row - _HIGHEST, row], color="black", lw=1.6)
    text = f"{guesses.question}: {digits(guesses.measured or 0)}"
    axes.text(-_EDGE, row - _HIGHEST - 0.06, text, fontsize=SMALL, va="bottom")
    axes.text(
        _EDGE, row - 0.04, f"n = {len(guesses.values)}", fontsize=SMALL, ha="right", va="bottom"
    )


def _place(ratio: float) -> int:
    """Return the number of the bar for a ratio of guess to measurement; bar 0 is for "close"."""
    _far, low, high, _far_too = BOUNDS
    if low <= ratio <= high:
        return 0
    exact = _BARS * math.log10(min(max(ratio, 1 / _MOST), _MOST))
    return round(exact) or (1 if exact > 0 else -1)


def _finding(predictions: ClassPredictions, shown: Sequence[Guesses]) -> str:
    """Return a sentence about the question with the smallest share of close guesses."""
    furthest = min(shown, key=lambda guesses: (guesses.counts or [0] * 5)[2] / len(guesses.values))
    close = (furthest.counts or [0] * 5)[2]
    return (
        f"{predictions.learners} learners: {close} of {len(furthest.values)} guesses were close for"
        f" “{furthest.question}”"
    )
