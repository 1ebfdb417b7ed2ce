"""Rates that differ by factors of thousands, and writes that stall: lesson 05."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tcplab.experiments import table
from tcplab.figures import style
from tcplab.figures.style import SMALL, TEXT, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.quotes import Quotes
    from tcplab.experiments.records import Records
    from tcplab.experiments.write_patterns import WriteMatrix

__all__ = ["quotes", "records", "write_matrix"]

_HATCHES: Final = {"linux": "", "delaying": "///"}
_COLOURS: Final = {"linux": style.SKY, "delaying": style.ORANGE}
_NAMES: Final = {"linux": "receiver as Linux is", "delaying": "receiver delays its ACKs"}


def records(result: Records) -> Picture:
    """Records a second of each way, on a logarithmic scale, with the text's figure."""
    bars = [
        _Bar(each.name, each.receiver, each.result.records_per_s, each.row()["text_records_per_s"])
        for each in result.variants
    ]
    title, alt = _finding(bars, "records")
    return _draw(bars, title, alt, "records a second", result)


def quotes(result: Quotes) -> Picture:
    """Quotes a second of each way, on a logarithmic scale, with the text's figure."""
    bars = [
        _Bar(each.name, each.server, each.result.quotes_per_s, each.row()["text_quotes_per_s"])
        for each in result.variants
    ]
    title, alt = _finding(bars, "quotes")
    return _draw(bars, title, alt, "quotes a second", result)


# ---- bars ----------------------------------------------------------------------------------------


class _Bar(NamedTuple):
    name: str
    receiver: str
    per_s: float
    text_per_s: float | None


def _finding(bars: Sequence[_Bar], what: str) -> tuple[str, str]:
    slow, fast = min(bars, key=lambda bar: bar.per_s), max(bars, key=lambda bar: bar.per_s)
    before = "delays its ACKs" if slow.receiver == "delaying" else "is Linux as it is"
    title = (
        f"From {_digits(slow.per_s)} to {_digits(fast.per_s)} {what} a second; slowest is"
        f" '{slow.name}' before a receiver that {before}"
    )
    listed = "; ".join(f"{bar.name}, {_NAMES[bar.receiver]}: {_digits(bar.per_s)}" for bar in bars)
    told = next((bar for bar in bars if bar.text_per_s), None)
    mark = f" The text's own figure, {told.text_per_s:g}, is marked." if told else ""
    return title, f"Bar chart on a logarithmic scale, {what} a second. {listed}.{mark}"


def _digits(number: float) -> str:
    """Three digits that count: more were noise."""
    return f"{float(f'{number:.3g}'):,.0f}"


def _draw(
    bars: Sequence[_Bar], title: str, alt: str, axis: str, result: Records | Quotes
) -> Picture:
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter

    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.2, 0.12, 0.75, 0.72))
    names = list(dict.fromkeys(bar.name for bar in bars))
    receivers = list(dict.fromkeys(bar.receiver for bar in bars))
    height = 0.8 / len(receivers)
    low = 1.0
    for bar in bars:
        y = names.index(bar.name) + height * (
            receivers.index(bar.receiver) - (len(receivers) - 1) / 2
        )
        axes.barh(
            y,
            bar.per_s - low,
            height * 0.92,
            left=low,
            color=_COLOURS[bar.receiver],
            edgecolor="black",
            hatch=_HATCHES[bar.receiver],
        )
        axes.text(bar.per_s * 1.12, y, _digits(bar.per_s), va="center", fontsize=TEXT)
        if bar.text_per_s:
            _mark_text(axes, bar.text_per_s, y, height)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _at: f"{value:,.0f}"))
    axes.set_xlim(low, max(bar.per_s for bar in bars) * 12)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names, fontsize=TEXT)
    axes.set_xlabel(f"{axis} (logarithmic)", fontsize=TEXT)
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.grid(axis="x", color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    patches = [
        Patch(facecolor=_COLOURS[each], hatch=_HATCHES[each], edgecolor="black", label=_NAMES[each])
        for each in receivers
    ]
    figure.legend(
        handles=patches,
        loc="upper right",
        bbox_to_anchor=(0.95, 0.91),
        ncols=2,
        fontsize=SMALL,
        frameon=False,
    )
    return Picture(figure, title, alt, table(result))


def _mark_text(axes: Axes, per_s: float, y: float, height: float) -> None:
    axes.plot([per_s, per_s], [y - height / 2, y + height / 2], color="black", lw=5, zorder=4)
    axes.text(
        per_s * 1.12,
        y,
        f"the text: {per_s:g}",
        fontsize=SMALL,
        va="center",
        zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


# ---- the matrix ----------------------------------------------------------------------------------


def write_matrix(result: WriteMatrix) -> Picture:
    """Write pattern by option and receiver: which cells wait for a timer."""
    figure = style.new_figure()
    cells = {(each.writes, each.option, each.receiver): each for each in result.variants}
    stalled = [each for each in result.variants if each.stalled]
    quick = [each.arrival_ms for each in result.variants if not each.stalled]
    title = (
        f"{len(stalled)} of {len(cells)} combinations wait for a timer: several small writes, Nagle"
        " on, and an ACK that is late"
    )
    style.title(figure, title)
    axes = figure.add_axes((0.16, 0.03, 0.83, 0.75))
    patterns = list(dict.fromkeys(each.writes for each in result.variants))
    columns = list(dict.fromkeys((each.receiver, each.option) for each in result.variants))
    axes.set(xlim=(0, len(columns)), ylim=(len(patterns), 0))
    axes.axis("off")
    for row, writes in enumerate(patterns):
        name = cells[(writes, columns[0][1], columns[0][0])].name
        axes.text(-0.1, row + 0.5, name, ha="right", va="center", fontsize=TEXT, clip_on=False)
        for column, (receiver, option) in enumerate(columns):
            cell = cells[(writes, option, receiver)]
            _cell(axes, column, row, cell.arrival_ms, len(cell.segments), stalled=cell.stalled)
    _headings(axes, columns)
    listed = "; ".join(
        f"{each.name} with {each.option}, receiver {each.receiver}: {each.arrival_ms:.0f} ms"
        for each in stalled
    )
    alt = (
        f"Table of {len(patterns)} write patterns by {len(columns)} combinations of option and"
        f" receiver. Stalled: {listed or 'none'}. All others take less than"
        f" {max(quick, default=0):.3g} ms."
    )
    return Picture(figure, title, alt, table(result))


def _cell(axes: Axes, x: int, y: int, arrival_ms: float, segments: int, *, stalled: bool) -> None:
    look = style.Style(style.VERMILION, "///", "") if stalled else style.Style(style.GREY, "", "")
    style.fill(axes, look, x + 0.04, y + 0.06, 0.92, 0.88)
    words = f"{arrival_ms:.0f} ms" if stalled else style.ms(arrival_ms)
    axes.text(
        x + 0.5,
        y + 0.38,
        words,
        ha="center",
        va="center",
        fontsize=TEXT,
        fontweight="bold" if stalled else "normal",
        zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
    )
    axes.text(
        x + 0.5,
        y + 0.72,
        f"{segments} seg{'s' * (segments > 1)}",
        ha="center",
        va="center",
        fontsize=12,
        zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
    )


_RECEIVERS: Final[Mapping[str, str]] = {
    "linux": "receiver as Linux is",
    "late": "receiver ACKs late",
    "at once": "receiver ACKs at once",
}


def _headings(axes: Axes, columns: Sequence[tuple[str, str]]) -> None:
    for column, (_receiver, option) in enumerate(columns):
        axes.text(column + 0.5, -0.08, option, ha="center", va="bottom", fontsize=SMALL)
    for receiver in dict.fromkeys(each for each, _option in columns):
        places = [i for i, each in enumerate(columns) if each[0] == receiver]
        left, right = places[0], places[-1] + 1
        axes.plot([left + 0.05, right - 0.05], [-0.34, -0.34], color="black", lw=1.5, clip_on=False)
        axes.text(
            (left + right) / 2,
            -0.42,
            _RECEIVERS[receiver],
            ha="center",
            va="bottom",
            fontsize=TEXT,
            fontweight="bold",
        )
