"""Draw the figures about small writes: their rates, and which of them wait for a timer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tcplab.experiments import table
from tcplab.figures import canvas, style
from tcplab.figures.generic import Dots, Panel, draw_rows
from tcplab.figures.picture import Picture, drawn
from tcplab.figures.style import SMALL, Style
from tcplab.tables import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.quotes import Quotes
    from tcplab.experiments.records import Records
    from tcplab.experiments.write_patterns import WriteMatrix

__all__ = ["quotes", "records", "write_matrix"]

#: The marker, colour and name of each receiver.
_RECEIVERS: Final = {
    "linux": ("o", style.BLUE, "receiver as Linux is"),
    "delaying": ("s", style.VERMILION, "receiver delays its ACKs"),
}


@drawn
def records(result: Records) -> Picture:
    """Draw records per second of each variant on a logarithmic axis, with the published rate."""
    return _draw_rates(result, "records", "receiver")


@drawn
def quotes(result: Quotes) -> Picture:
    """Draw quotes per second of each variant on a logarithmic axis, with the published rate."""
    return _draw_rates(result, "quotes", "server")


# ---- dots ----------------------------------------------------------------------------------------


class _Dot(NamedTuple):
    variant: str
    receiver: str
    per_s: float
    published_per_s: float | None


def _draw_rates(result: Records | Quotes, what: str, receiver: str) -> Picture:
    names = ("variant", receiver, f"{what}_per_s", f"published_{what}_per_s")
    dots = [_Dot(*(row[name] for name in names)) for row in result.rows()]
    variants = list(dict.fromkeys(dot.variant for dot in dots))
    receivers = list(dict.fromkeys(dot.receiver for dot in dots))
    marks = []
    for number, receiver in enumerate(receivers):
        mine = {dot.variant: dot for dot in dots if dot.receiver == receiver}
        shift = 0.36 * (number - (len(receivers) - 1) / 2)
        marker, colour, name = _RECEIVERS[receiver]
        rates = [mine[variant].per_s if variant in mine else None for variant in variants]
        words = [_words(mine[variant]) if variant in mine else "" for variant in variants]
        published = [
            mine[variant].published_per_s if variant in mine else None for variant in variants
        ]
        marks.append(Dots(rates, name, marker, colour, shift=shift, words=words))
        marks.append(Dots(published, "Microsoft's number", "D", is_filled=False, shift=shift))
    every = [rate for dot in dots for rate in (dot.per_s, dot.published_per_s) if rate]
    limits = (min(every) / 3, max(every) * 8)
    figure = draw_rows(variants, Panel(f"{what} per second", dots=marks, limits=limits))
    title, note = _rates_finding(dots, what)
    return Picture(figure, title, table(result), note)


def _words(dot: _Dot) -> str:
    microsoft = f" · Microsoft: {dot.published_per_s:g}" if dot.published_per_s else ""
    return digits(dot.per_s) + microsoft


def _rates_finding(dots: Sequence[_Dot], what: str) -> tuple[str, str]:
    """Return the title and the note of the rates' figure."""
    slow, fast = min(dots, key=lambda dot: dot.per_s), max(dots, key=lambda dot: dot.per_s)
    receiver = "that delays its ACKs" if slow.receiver == "delaying" else "as Linux is"
    title = f"Slowest is '{slow.variant}' with a receiver {receiver}"
    return title, f"{digits(slow.per_s)} to {digits(fast.per_s)} {what} per second"


# ---- the matrix ----------------------------------------------------------------------------------

_STALLED, _QUICK = Style(style.VERMILION, "///", ""), Style(style.GREY, "", "")
_CORNER: Final = "writes (bytes)"


@drawn
def write_matrix(result: WriteMatrix) -> Picture:
    """Draw which combinations of write pattern, option and receiver wait for a timer."""
    cells = {
        (variant.writes, variant.option, variant.receiver): variant for variant in result.variants
    }
    stalled = [variant for variant in result.variants if variant.stalled]
    title = "No combination waits for a timer"
    if stalled:
        title = "Several small writes, with Nagle on and a late ACK, wait for a timer"
    patterns = list(dict.fromkeys(variant.writes for variant in result.variants))
    columns = list(dict.fromkeys((variant.receiver, variant.option) for variant in result.variants))
    labels = [cells[(writes, columns[0][1], columns[0][0])].label for writes in patterns]
    figure = canvas.new_figure()
    low, high = canvas.body(figure)
    _matrix(figure.add_axes((0, low, 1, high - low)), cells, patterns, labels, columns)
    waiting = f"{len(stalled)} of {len(cells)} combinations wait"
    note = f"{waiting} · ms until the last byte arrived, and segments"
    return Picture(figure, title, table(result), note)


def _matrix(
    axes: Axes,
    cells: Mapping[Any, Any],
    patterns: Sequence[Any],
    labels: Sequence[str],
    columns: Sequence[tuple[str, str]],
) -> None:
    """Draw the cells of a table under their headings. Each row and each column has size 1."""
    widest = max(style.text_width_px(label, SMALL) for label in (*labels, _CORNER)) + 12
    cell = (canvas.WIDTH - widest - 4) / len(columns)
    axes.set(xlim=(-widest / cell, len(columns) + 4 / cell), ylim=(len(patterns) + 0.1, -1.7))
    axes.axis("off")
    axes.text(-6 / cell, -0.05, _CORNER, ha="right", va="bottom", color=style.ink(style.GREY))
    for row, (writes, name) in enumerate(zip(patterns, labels, strict=True)):
        axes.text(-6 / cell, row + 0.5, name, ha="right", va="center")
        for column, (receiver, option) in enumerate(columns):
            variant = cells[(writes, option, receiver)]
            look = _STALLED if variant.stalled else _QUICK
            style.fill(axes, look, column + 0.03, row + 0.06, 0.94, 0.88)
            text = f"{variant.arrival_ms:.0f}" if variant.stalled else f"{variant.arrival_ms:.2f}"
            weight: dict[str, Any] = {"fontweight": "bold" if variant.stalled else "normal"}
            style.write(axes, column + 0.5, row + 0.32, text, bbox=style.ON_WHITE, **weight)
            many = f"{len(variant.segments)} seg."
            style.write(axes, column + 0.5, row + 0.7, many, bbox=style.ON_WHITE)
    _headings(axes, columns)


_ACKS: Final[Mapping[str, str]] = {
    "linux": "receiver as Linux is",
    "late": "receiver ACKs late",
    "at once": "receiver ACKs at once",
}


def _headings(axes: Axes, columns: Sequence[tuple[str, str]]) -> None:
    for column, (_receiver, option) in enumerate(columns):
        axes.text(column + 0.5, -0.15, option, ha="center", va="baseline", linespacing=0.95)
    for receiver in dict.fromkeys(name for name, _option in columns):
        places = [i for i, column in enumerate(columns) if column[0] == receiver]
        left, right = places[0], places[-1] + 1
        axes.plot([left + 0.05, right - 0.05], [-0.95, -0.95], color="black", lw=1.2)
        middle = (left + right) / 2
        axes.text(middle, -1.3, _ACKS[receiver], ha="center", va="center", fontweight="bold")
