"""Draw the guesses of a class as one bar per question, divided by how far off they were."""

from __future__ import annotations

from typing import Final

from tcplab.course.class_predictions import BINS, ClassPredictions
from tcplab.figures import canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import SMALL, Style, look_of

#: The looks of BINS. The guesses that are close are in the middle.
_COLOURS: Final = (style.BLUE, style.SKY, style.GREEN, style.YELLOW, style.ORANGE)
_HATCHES: Final = ("\\\\\\", "", "///", "", "...")


@drawn
def histograms(predictions: ClassPredictions) -> Picture:
    """Draw the share of the guesses in each bin; raise ValueError if there are none."""
    missing = "no question has both a guess and a measurement; learners run the lesson to its end"
    # A ratio to a measured zero is meaningless.
    shown = some(
        [guess for guess in predictions.guesses if guess.values and guess.measured], missing
    )
    figure, axes = canvas.new_axes()
    left = [0.0] * len(shown)
    for number, name in enumerate(BINS):
        shares = [100 * (guess.counts or [0])[number] / len(guess.values) for guess in shown]
        look = look_of(Style(_COLOURS[number], _HATCHES[number], name))
        axes.barh(range(len(shown)), shares, 0.4, left=left, label=name, **look)
        left = [before + share for before, share in zip(left, shares, strict=True)]
    for row, guess in enumerate(shown):
        text = f"{guess.question} (n = {len(guess.values)})"
        axes.text(0, row - 0.26, text, fontsize=SMALL, va="bottom")
    axes.set(xlim=(0, 100), ylim=(len(shown) - 0.6, -0.9), yticks=[], xlabel="guesses (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(BINS), fontsize=SMALL)
    close = {(guess.counts or [0] * 3)[2] / len(guess.values): guess for guess in shown}
    hardest = close[min(close)]
    finding = (
        f"{predictions.learners} learners: {(hardest.counts or [0] * 3)[2]} of"
        f" {len(hardest.values)} guesses were close for “{hardest.question}”"
    )
    return Picture(figure, finding, predictions.table)
