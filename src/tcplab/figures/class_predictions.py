"""The guesses of a class: one histogram per question, all beside what was measured."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcplab.class_predictions import BOUNDS, ClassPredictions, Guesses
from tcplab.figures import style
from tcplab.figures.style import SMALL, Picture, Style, count, drawing, look_of, some, write
from tcplab.tables import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["class_predictions"]

#: Bars of the histogram per factor of ten, and the factor from which on all are in the last one.
_BARS: Final = 5
_MOST: Final = 1000.0
_GUESSES: Final = Style(style.BLUE, "", "guesses")
_CLOSE: Final = Style(style.GREEN, "//", "close")


@drawing()
def class_predictions(found: ClassPredictions) -> Picture:
    """Per question a histogram of the guesses as multiples of the measured value.

    Raises:
        ValueError: no question has both a guess and a measurement.
    """
    missing = "no question has both a guess and a measurement; learners run the lesson to its end"
    # A ratio to zero says nothing.
    shown = some([each for each in found.guesses if each.values and each.measured], missing)
    figure, axes = style.new_axes((0.325, 0.105, 0.53, 0.745))
    for row, each in enumerate(shown):
        _histogram(axes, each, row)
    edge = math.log10(_MOST)
    axes.axvline(0, color="black", lw=2.2)
    axes.set_xlim(-edge - 1.5 / _BARS, edge + 1.5 / _BARS)
    axes.set_ylim(len(shown) - 0.05, -0.95)
    powers = range(-3, 4)
    names = ["≤ 1/1000", "1/100", "1/10", "measured", "10 ×", "100 ×", "≥ 1000 ×"]
    axes.set_xticks(list(powers), names)
    size = SMALL if len(shown) < 8 else 10
    labels = [_folded(each, size) for each in shown]
    _at_the_end(axes, -1.0, "guesses", "measured")
    axes.set_yticks([row - 0.3 for row in range(len(shown))], labels, fontsize=size)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(
        "guess, as a multiple of what was measured; green and hatched: close, within a quarter"
    )
    lessons = ", ".join(dict.fromkeys(each.lesson for each in shown))
    alt = f"Histograms of guesses, lesson {lessons}. " + " ".join(map(_in_words, shown))
    return Picture(figure, _finding(found, shown), alt, found.table)


def _histogram(axes: Axes, guesses: Guesses, row: int) -> None:
    """Bars upwards from the row's line; the highest bar of each row is as high as the row."""
    found = Counter(map(_place, guesses.ratios))
    highest = max(found.values())
    for place, many in found.items():
        look = look_of(_CLOSE if place == 0 else _GUESSES, 0.5)
        axes.bar(place / _BARS, -0.8 * many / highest, 0.9 / _BARS, bottom=row, **look)
    axes.axhline(row, color="black", lw=0.8)
    _at_the_end(axes, row - 0.35, str(len(guesses.values)), digits(guesses.measured or 0))


def _at_the_end(axes: Axes, y: float, many: str, measured: str) -> None:
    """Two columns to the right of the bars."""
    end = math.log10(_MOST)
    write(axes, end + 0.75, y, many, ha="right", clip_on=False)
    write(axes, end + 1.75, y, measured, ha="right", clip_on=False)


def _place(ratio: float) -> int:
    """The number of a guess's bar; that in the middle, 0, holds what is close and nothing else."""
    _far, low, high, _far_too = BOUNDS
    if low <= ratio <= high:
        return 0
    exact = _BARS * math.log10(min(max(ratio, 1 / _MOST), _MOST))
    return round(exact) or (1 if exact > 0 else -1)


def _folded(guesses: Guesses, size: float) -> str:
    return "\n".join(textwrap.wrap(guesses.question, 34 if size == SMALL else 56))


def _in_words(guesses: Guesses) -> str:
    low, under, close, over, high = guesses.counts or [0] * 5
    return (
        f"{guesses.question}: {count(len(guesses.values), 'guess')}, {low + under} too low,"
        f" {close} close, {over + high} too high."
    ).replace("guesss", "guesses")


def _finding(found: ClassPredictions, shown: Sequence[Guesses]) -> str:
    """The question in which the class was furthest off."""
    furthest = min(shown, key=lambda each: (each.counts or [0] * 5)[2] / len(each.values))
    close = (furthest.counts or [0] * 5)[2]
    return (
        f"{count(found.learners, 'learner')}: {close} of {len(furthest.values)} guesses were close"
        f" for “{furthest.question}”"
    )
