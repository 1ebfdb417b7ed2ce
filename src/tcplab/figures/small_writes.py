"""Lesson 05: rates that differ by factors of thousands, and writes that wait for a timer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tcplab.experiments import table
from tcplab.figures import style
from tcplab.figures.bars import named_once
from tcplab.figures.picture import Picture, old
from tcplab.figures.style import TEXT, Style, look_of
from tcplab.tables import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.quotes import Quotes
    from tcplab.experiments.records import Records
    from tcplab.experiments.write_patterns import WriteMatrix

__all__ = ["quotes", "records", "write_matrix"]

_RECEIVERS: Final = {
    "linux": Style(style.BLUE, "", "receiver as Linux is"),
    "delaying": Style(style.ORANGE, "///", "receiver delays its ACKs"),
}


@old
def records(result: Records) -> Picture:
    """Records per second of each variant, on a logarithmic scale, with the published rate."""
    return _draw_rates(result, "records", "receiver")


@old
def quotes(result: Quotes) -> Picture:
    """Quotes per second of each variant, on a logarithmic scale, with the published rate."""
    return _draw_rates(result, "quotes", "server")


# ---- bars ----------------------------------------------------------------------------------------


class _Bar(NamedTuple):
    variant: str
    receiver: str
    per_s: float
    published_per_s: float | None


def _draw_rates(result: Records | Quotes, what: str, receiver: str) -> Picture:
    names = ("variant", receiver, f"{what}_per_s", f"published_{what}_per_s")
    bars = [_Bar(*(row[name] for name in names)) for row in result.rows()]
    figure, axes = style.new_axes((0.2, 0.12, 0.75, 0.72), grid="x")
    variants = list(dict.fromkeys(bar.variant for bar in bars))
    receivers = list(dict.fromkeys(bar.receiver for bar in bars))
    height = 0.8 / len(receivers)
    low = 1.0
    for bar in bars:
        look = _RECEIVERS[bar.receiver]
        middle = height * (receivers.index(bar.receiver) - (len(receivers) - 1) / 2)
        y = variants.index(bar.variant) + middle
        label = named_once(axes, look.name)
        axes.barh(y, bar.per_s - low, height * 0.92, left=low, label=label, **look_of(look))
        axes.text(bar.per_s * 1.12, y, digits(bar.per_s), va="center", fontsize=TEXT)
        if bar.published_per_s:
            _mark_published(axes, bar.published_per_s, y, height)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlim=(low, max(bar.per_s for bar in bars) * 12), ylim=(len(variants) - 0.4, -0.6))
    axes.set_yticks(range(len(variants)), variants, fontsize=TEXT)
    axes.set_xlabel(f"{what} per second (logarithmic)")
    figure.legend(loc="upper right", bbox_to_anchor=(0.95, 0.91), ncols=2, frameon=False)
    listed = "; ".join(
        f"{bar.variant}, {_RECEIVERS[bar.receiver].name}: {digits(bar.per_s)}" for bar in bars
    )
    published = next((bar.published_per_s for bar in bars if bar.published_per_s), None)
    mark = f" The published rate, {published:g}, is marked." if published else ""
    alt = f"Bar chart on a logarithmic scale, {what} per second. {listed}.{mark}"
    return Picture(figure, _rates_finding(bars, what), alt, table(result))


def _rates_finding(bars: Sequence[_Bar], what: str) -> str:
    slow, fast = min(bars, key=lambda bar: bar.per_s), max(bars, key=lambda bar: bar.per_s)
    receiver = "that delays its ACKs" if slow.receiver == "delaying" else "as Linux is"
    return (
        f"From {digits(slow.per_s)} to {digits(fast.per_s)} {what} per second; slowest is"
        f" '{slow.variant}' with a receiver {receiver}"
    )


def _mark_published(axes: Axes, per_s: float, y: float, height: float) -> None:
    axes.plot([per_s, per_s], [y - height / 2, y + height / 2], color="black", lw=5, zorder=4)
    words = f"published: {per_s:g}"
    axes.text(per_s * 1.12, y, words, va="center", zorder=5, bbox=style.ON_WHITE)


# ---- the matrix ----------------------------------------------------------------------------------

_STALLED, _QUICK = Style(style.VERMILION, "///", ""), Style(style.GREY, "", "")


@old
def write_matrix(result: WriteMatrix) -> Picture:
    """Write pattern by option and receiver: which combinations wait for a timer."""
    figure, axes = style.new_axes((0.16, 0.03, 0.83, 0.75))
    cells = {(each.writes, each.option, each.receiver): each for each in result.variants}
    stalled = [each for each in result.variants if each.stalled]
    quick = [each.arrival_ms for each in result.variants if not each.stalled]
    title = (
        f"{len(stalled)} of {len(cells)} combinations wait for a timer: several small writes, Nagle"
        " on, and an ACK that is late"
    )
    patterns = list(dict.fromkeys(each.writes for each in result.variants))
    columns = list(dict.fromkeys((each.receiver, each.option) for each in result.variants))
    axes.set(xlim=(0, len(columns)), ylim=(len(patterns), 0))
    axes.axis("off")
    for row, writes in enumerate(patterns):
        name = cells[(writes, columns[0][1], columns[0][0])].label
        axes.text(-0.1, row + 0.5, name, ha="right", va="center", fontsize=TEXT)
        for column, (receiver, option) in enumerate(columns):
            cell = cells[(writes, option, receiver)]
            _cell(axes, column, row, cell.arrival_ms, len(cell.segments), stalled=cell.stalled)
    _headings(axes, columns)
    listed = "; ".join(
        f"{each.label} with {each.option}, receiver {each.receiver}: {each.arrival_ms:.0f} ms"
        for each in stalled
    )
    alt = (
        f"Table of {len(patterns)} write patterns by {len(columns)} combinations of option and"
        f" receiver. Stalled: {listed or 'none'}. All others take less than"
        f" {max(quick, default=0):.3g} ms."
    )
    return Picture(figure, title, alt, table(result))


def _cell(axes: Axes, x: int, y: int, arrival_ms: float, segments: int, *, stalled: bool) -> None:
    style.fill(axes, _STALLED if stalled else _QUICK, x + 0.04, y + 0.06, 0.92, 0.88)
    when = f"{arrival_ms:.0f} ms" if stalled else style.ms(arrival_ms)
    weight = "bold" if stalled else "normal"
    look: dict[str, Any] = {"bbox": style.ON_WHITE}
    style.write(axes, x + 0.5, y + 0.38, when, TEXT, fontweight=weight, **look)
    style.write(axes, x + 0.5, y + 0.72, f"{segments} seg{'s' * (segments > 1)}", 12, **look)


_ACKS: Final[Mapping[str, str]] = {
    "linux": "receiver as Linux is",
    "late": "receiver ACKs late",
    "at once": "receiver ACKs at once",
}


def _headings(axes: Axes, columns: Sequence[tuple[str, str]]) -> None:
    for column, (_receiver, option) in enumerate(columns):
        axes.text(column + 0.5, -0.08, option, ha="center")
    for receiver in dict.fromkeys(each for each, _option in columns):
        places = [i for i, each in enumerate(columns) if each[0] == receiver]
        left, right = places[0], places[-1] + 1
        axes.plot([left + 0.05, right - 0.05], [-0.34, -0.34], color="black", lw=1.5, clip_on=False)
        middle = (left + right) / 2
        axes.text(middle, -0.42, _ACKS[receiver], ha="center", fontsize=TEXT, fontweight="bold")
