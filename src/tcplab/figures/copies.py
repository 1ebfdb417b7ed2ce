"""Where each byte is copied on its way through pipes and a TCP connection: lesson 01."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tcplab.experiments import table
from tcplab.experiments.pipes import Chain, Pipes, Way
from tcplab.figures import style
from tcplab.figures.bars import beside, look_of, no_box
from tcplab.figures.style import SMALL, TEXT, Line, Picture, Style, count
from tcplab.models.copies import STAGES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["copy_path", "count_copies"]

_MINE: Final = Style(style.BLUE, "", "this way")
_OTHER: Final = Style(style.GREY, "//", "to compare with")
_COPY: Final = Line("-", style.VERMILION, 3.0)
_HANDED_ON: Final = Line("--", style.GREEN, 2.6)
_DROPPED: Final = Line(":", style.GREY, 2.2)

_PROGRAMS_Y, _KERNEL_Y = 0.80, 0.30
_BOX_HEIGHT: Final = 0.24


@dataclass(frozen=True, slots=True)
class _Stop:
    """A program, and what lies before and behind it in the kernel.

    Attributes:
        name: of the program.
        takes: whether the CPU copies each byte from the kernel to it.
        gives: the same for the other direction.
    """

    name: str
    takes: bool
    gives: bool


def copy_path(result: Pipes, key: str) -> Picture:
    """The way of a byte with each of its copies, and the rates of all ways as bars.

    Args:
        result: of the way, and of others to compare it with.
        key: of the way that is drawn.

    Raises:
        ValueError: the way was not measured: the message says why.
    """
    chain = result[key]
    if not chain.runs:
        raise ValueError(f"{chain.way.name} was not measured: {chain.missing}")
    measured = [each for each in result.chains if each.runs]
    figure = style.new_figure()
    title = _finding(chain, measured)
    style.title(figure, title)
    axes = figure.add_axes((0.0, 0.36, 1.0, 0.52))
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    copies = _draw_path(axes, chain.way)
    _draw_bars(figure.add_axes((0.25, 0.10, 0.72, 0.22)), chain, measured)
    each = "; ".join(
        f"{one.way.name} {one.median_mb_per_s:,.0f} MB/s, {count_copies(one.way)}"
        for one in measured
    )
    alt = (
        f"The way of a byte: {', '.join(copies) or 'no copy at all'}; below it bars of the rates:"
        f" {each}."
    )
    return Picture(figure, title, alt, table(result))


def count_copies(way: Way) -> str:
    """The copies of a way, in words."""
    copies = way.cost.copies
    return "1 copy" if copies == 1 else f"{copies} copies"


def _finding(chain: Chain, measured: Sequence[Chain]) -> str:
    rate = chain.median_mb_per_s or 0.0
    words = f"{chain.way.name}: {count_copies(chain.way)} of each byte, {rate:,.0f} MB/s"
    others = [each for each in measured if each is not chain]
    if not others:
        return words
    ratio = rate / (others[0].median_mb_per_s or rate)
    return f"{words}; {ratio:.2g} times {others[0].way.shown} with {count_copies(others[0].way)}"


# ---- the path ------------------------------------------------------------------------------------


def _stops(way: Way) -> list[_Stop]:
    stops = []
    last = len(way.stages) - 1
    commands = (*way.sending, *way.receiving)
    for number, (stage, words) in enumerate(zip(way.stages, commands, strict=True)):
        copies = STAGES[stage].copies
        # With one copy the first program only gives, and the last only takes.
        takes = copies == 2 or (copies == 1 and number == last)
        gives = copies == 2 or (copies == 1 and number == 0 and last > 0)
        stops.append(_Stop(_program(words), takes, gives))
    return stops


def _program(words: Sequence[str]) -> str:
    """The command's name, and of its arguments those that matter to a byte."""
    wanted = [word for word in words[1:] if word.startswith(("bs=", "--splice", "--discard", "-C"))]
    return "\n".join([words[0].lower(), *wanted])


def _places(way: Way) -> list[str]:
    """What lies before, between and behind the programs; empty for a program's own memory."""
    begin = {"made": "/dev/zero", "cold": "disk and\npage cache", "warm": "page cache"}[way.source]
    if way.stages[0] == "tcpsource":
        begin = ""
    end = {"tcpsink": "", "discard": "nowhere"}.get(way.stages[-1], "/dev/null")
    tcp = "wire of\n1 Gbit/s" if way.wire else "sockets\nand TCP"
    pipes = ["pipe"] * (len(way.sending) - 1), ["pipe"] * (len(way.receiving) - 1)
    return [begin, *pipes[0], tcp, *pipes[1], end]


def _draw_path(axes: Axes, way: Way) -> list[str]:
    """Draws it; the copies in words."""
    stops, places = _stops(way), _places(way)
    left, width = 0.13, 0.86
    step = width / (len(stops) + len(places))
    axes.axhline(0.555, color=style.GREY, ls=":", lw=1.5)
    for y, words in ((_PROGRAMS_Y, "programs,\neach with\nits memory"), (_KERNEL_Y, "the kernel")):
        axes.text(0.012, y, words, fontsize=TEXT, va="center")
    for number, name in enumerate(places):
        if name:
            _box(axes, left + (2 * number + 0.5) * step, _KERNEL_Y, step, name, style.SKY)
    copies: list[str] = []
    for number, stop in enumerate(stops):
        x = left + (2 * number + 1.5) * step
        idle = not (stop.takes or stop.gives)
        _box(axes, x, _PROGRAMS_Y, step, stop.name, style.PALE if idle else style.YELLOW)
        before, behind = places[number].replace("\n", " "), places[number + 1].replace("\n", " ")
        name = stop.name.replace("\n", " ")
        if idle:
            start, end = (x - 0.54 * step, _KERNEL_Y), (x + 0.54 * step, _KERNEL_Y)
            style.arrow(axes, start, end, _HANDED_ON)
            axes.text(x, _KERNEL_Y + 0.05, "no copy", fontsize=SMALL, ha="center")
            continue
        if stop.takes:
            copies.append(f"{before} to {name}")
            _copy(axes, x - 0.72 * step, x - 0.30 * step, len(copies), up=True)
        if stop.gives:
            copies.append(f"{name} to {behind}")
            _copy(axes, x + 0.30 * step, x + 0.72 * step, len(copies), up=False)
        elif behind:
            start, end = _slope(x + 0.30 * step, x + 0.72 * step, up=False)
            style.arrow(axes, start, end, _DROPPED)
            _on_line(axes, start, end, "no copy")
    return copies


def _box(axes: Axes, x: float, y: float, step: float, words: str, colour: str) -> None:
    style.fill(
        axes,
        Style(colour, "", ""),
        x - 0.46 * step,
        y - _BOX_HEIGHT / 2,
        0.92 * step,
        _BOX_HEIGHT,
    )
    widest = max(words.split("\n"), key=len)
    room = 0.88 * step * style.WIDTH_INCHES * style.DPI
    size = next((s for s in (TEXT, SMALL, 11) if style.text_width_px(widest, s) <= room), 10)
    axes.text(x, y, words, fontsize=size, ha="center", va="center", zorder=4)


def _slope(left: float, right: float, *, up: bool) -> tuple[tuple[float, float], ...]:
    low, high = _KERNEL_Y + _BOX_HEIGHT / 2 + 0.01, _PROGRAMS_Y - _BOX_HEIGHT / 2 - 0.01
    return ((left, low), (right, high)) if up else ((left, high), (right, low))


def _copy(axes: Axes, left: float, right: float, number: int, *, up: bool) -> None:
    start, end = _slope(left, right, up=up)
    style.arrow(axes, start, end, _COPY)
    _on_line(axes, start, end, str(number), bold=True)


def _on_line(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], words: str, bold: bool = False
) -> None:
    edge = style.VERMILION if bold else "none"
    axes.text(
        (start[0] + end[0]) / 2,
        (start[1] + end[1]) / 2,
        words,
        fontsize=TEXT if bold else SMALL,
        fontweight="bold" if bold else "normal",
        ha="center",
        va="center",
        zorder=5,
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": edge, "lw": 2},
    )


# ---- the rates -----------------------------------------------------------------------------------


def _draw_bars(axes: Axes, mine: Chain, measured: Sequence[Chain]) -> None:
    for y, chain in enumerate(measured):
        rate, rates = chain.median_mb_per_s or 0.0, chain.mb_per_s
        axes.barh(y, rate, 0.56, **look_of(_MINE if chain is mine else _OTHER))
        axes.plot((min(rates), max(rates)), (y, y), color="black", lw=2.2)
        words = f"{rate:,.0f} MB/s, {count_copies(chain.way)}, {chain.cpu_s_per_gb:.2f} CPU s/GB"
        beside(axes, words, max(rates), y)
    names = [chain.way.name for chain in measured]
    folded = [name.replace(" → ", "\n→ ") if len(name) > 30 else name for name in names]
    axes.set_yticks(range(len(measured)), folded)
    no_box(axes)
    axes.tick_params(axis="y", labelsize=12)
    axes.set_ylim(len(measured) - 0.5, -0.5)
    axes.set_xlim(0, 1.55 * max(max(chain.mb_per_s) for chain in measured))
    runs = count(len(mine.runs), "run")
    axes.set_xlabel(f"MB/s, median of {runs}; black line: slowest to fastest", fontsize=SMALL)
