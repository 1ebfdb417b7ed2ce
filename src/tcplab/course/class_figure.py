"""Draw the guesses of a class as a bar per question, divided by choice or by distance."""

from typing import Final

from tcplab.course.class_predictions import BINS, ClassPredictions
from tcplab.figures import canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import SMALL, Style, look_of

_COLOURS: Final = (style.BLUE, style.SKY, style.GREEN, style.YELLOW, style.ORANGE)
_HATCHES: Final = ("\\\\\\", "", "///", "", "...")
#: The looks of BINS, whose middle is close, and of the choices. A right choice is like "close".
_LOOKS: Final = {
    name: look_of(Style(colour, hatch, name)) | {"label": name}
    for name, colour, hatch in zip(BINS, _COLOURS, _HATCHES, strict=True)
}
_WRONG: Final = look_of(Style(style.GREY, "", ""))


@drawn
def histograms(predictions: ClassPredictions) -> Picture:
    """Draw the share of the guesses in each bin; raise ValueError if there are none."""
    missing = "no question has both a guess and a measurement; learners run the lesson to its end"
    # A ratio to a measured zero is meaningless.
    shown = some(
        [guess for guess in predictions.guesses if guess.values and guess.measured], missing
    )
    figure, axes = canvas.new_axes()
    for row, guess in enumerate(shown):
        left = 0.0
        for name, many in (guess.counts or {}).items():
            share = 100 * many / len(guess.values)
            is_right = name == f"{guess.measured:g}"
            look = _LOOKS.get(name) or (_LOOKS["close"] if is_right else _WRONG)
            axes.barh(row, share, 0.4, left=left, **look)
            if name not in BINS and many:
                style.write(axes, left + share / 2, row, f"{name}: {many}", bbox=style.ON_WHITE)
            left += share
        text = f"{guess.question} (n = {len(guess.values)})"
        axes.text(0, row - 0.26, text, fontsize=SMALL, va="bottom")
    axes.set(xlim=(0, 100), ylim=(len(shown) - 0.6, -0.9), yticks=[], xlabel="guesses (%)")
    canvas.legend(figure)
    hardest = min(shown, key=lambda guess: guess.right / len(guess.values))
    finding = (
        f"{predictions.learners} learners: {hardest.right} of {len(hardest.values)} guesses were"
        f" {'close' if 'close' in (hardest.counts or {}) else 'right'} for “{hardest.question}”"
    )
    return Picture(figure, finding, predictions.table)
