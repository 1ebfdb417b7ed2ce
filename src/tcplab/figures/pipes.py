"""Lesson 01: the rates of pipes, the CPU time of their programs, and each copy of a byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tcplab.experiments import table
from tcplab.experiments.pipes import Chain, Pipeline, Pipes
from tcplab.figures import style
from tcplab.figures.bars import beside, named_once
from tcplab.figures.picture import Picture, old, some
from tcplab.figures.style import SMALL, TEXT, Line, Style, count, look_of
from tcplab.models.copies import STAGES
from tcplab.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["copy_path", "pipe_cpus", "pipe_rates"]

_HERE: Final = Style(style.BLUE, "", "one machine")
_WIRE: Final = Style(style.GREEN, "//", "wire of 1 Gbit/s")
_OTHER: Final = Style(style.GREY, "//", "to compare with")
_PROGRAMS: Final = (
    Style(style.BLUE, "", "first"),
    Style(style.ORANGE, "//", "second"),
    Style(style.GREEN, "..", "third"),
    Style(style.PURPLE, "xx", "fourth"),
)
_COPY: Final = Line("-", style.VERMILION, 3.0)
_HANDED_ON: Final = Line("--", style.GREEN, 2.6)
_DROPPED: Final = Line(":", style.GREY, 2.2)

_PROGRAMS_Y, _KERNEL_Y = 0.80, 0.30
_BOX_HEIGHT: Final = 0.24


# ---- the rates -----------------------------------------------------------------------------------


@old
def pipe_rates(result: Pipes) -> Picture:
    """One bar per variant: the median rate, slowest to fastest run, and the published rate."""
    measured = some(_measured(result), "no variant was measured; see the notes in the table")
    figure, axes = style.new_axes((0.24, 0.105, 0.74, 0.76))
    for y, chain in enumerate(measured):
        look = _WIRE if chain.pipeline.wire else _HERE
        _rate_bar(axes, chain, y, look, named_once(axes, look.name))
        if chain.pipeline.published_mb_per_s:
            name = named_once(axes, "published, on its machines")
            axes.plot(
                chain.pipeline.published_mb_per_s, y, "D", ms=9, color=style.VERMILION, label=name
            )
        words = f"{chain.median_mb_per_s:,.0f} MB/s · copies: {chain.pipeline.cost.copies}"
        beside(axes, words, _end(chain), y)
    _name_bars(axes, measured, 11)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.4 * max(_end(chain) for chain in measured))
    axes.set_xlabel("MB/s (10⁶ bytes per second); black line: slowest to fastest run")
    axes.legend(loc="upper right")
    each = "; ".join(
        f"{chain.pipeline.name} {chain.median_mb_per_s:.0f} MB/s,"
        f" {chain.pipeline.cost.copies} copies"
        for chain in measured
    )
    alt = f"Bars of the rate of each variant. {each}."
    return Picture(figure, _rates_finding(measured), alt, table(result))


def _measured(result: Pipes) -> list[Chain]:
    return [chain for chain in result.variants if chain.runs]


def _rate_bar(axes: Axes, chain: Chain, y: int, look: Style, label: str | None = None) -> None:
    rates = chain.mb_per_s
    axes.barh(y, chain.median_mb_per_s or 0.0, 0.6, **look_of(look), label=label)
    axes.plot((min(rates), max(rates)), (y, y), color="black", lw=2.2)


def _end(chain: Chain) -> float:
    """Where the words begin: behind the fastest run and, on a slow machine, the published rate."""
    return max(*chain.mb_per_s, chain.pipeline.published_mb_per_s or 0.0)


def _name_bars(axes: Axes, chains: Sequence[Chain], size: int) -> None:
    """The names beside the bars, long ones on two lines."""
    names = [chain.pipeline.name for chain in chains]
    folded = [name.replace(" → ", "\n→ ") if len(name) > 28 else name for name in names]
    axes.set_yticks(range(len(chains)), folded, fontsize=size)


def _rates_finding(measured: Sequence[Chain]) -> str:
    found = {chain.pipeline.key: chain for chain in measured}
    for slow, fast in (("dd-nc", "warm"), ("dd-netcat", "netcat-warm")):
        if slow in found and fast in found:
            return "; ".join(
                f"{chain.pipeline.shown}: {chain.median_mb_per_s:,.0f} MB/s with"
                f" {chain.pipeline.cost.copies} copies of each byte"
                for chain in (found[slow], found[fast])
            )
    best = max(measured, key=lambda chain: chain.median_mb_per_s or 0)
    return f"{best.pipeline.shown} is the fastest: {best.median_mb_per_s:,.0f} MB/s"


# ---- the CPUs ------------------------------------------------------------------------------------


@old
def pipe_cpus(result: Pipes) -> Picture:
    """One bar per variant within one machine: the share of a CPU that each of its programs had."""
    measured = some(
        [chain for chain in _measured(result) if not chain.pipeline.wire],
        "no variant within one machine was measured; see the notes in the table",
    )
    cores = int(result.provenance["cores"])
    figure, axes = style.new_axes((0.24, 0.105, 0.73, 0.76))
    for y, chain in enumerate(measured):
        left = 0.0
        for name, share, look in zip(_programs(chain), chain.cpu_shares, _PROGRAMS, strict=False):
            axes.barh(y, share, 0.6, left=left, **look_of(look))
            if share > 0.015 * len(name) * cores:
                at = left + share / 2
                axes.text(at, y, name, ha="center", va="center", bbox=style.ON_WHITE)
            left += share
    axes.axvline(cores, color="black", ls="--", lw=2)
    axes.text(cores, -0.62, f" all {cores} CPUs", va="center", ha="right")
    _name_bars(axes, measured, 11)
    axes.set_ylim(len(measured) - 0.4, -1)
    axes.set_xlim(0, max(cores * 1.06, *(sum(chain.cpu_shares) for chain in measured)))
    axes.set_xlabel("CPUs busy with each program, on average")
    most = max(measured, key=lambda chain: len(chain.cpu_shares))
    title = (
        f"{len(most.cpu_shares)} processes share {cores} CPUs in {most.pipeline.shown}:"
        f" together they had {sum(most.cpu_shares):.1f}"
    )
    rows = [
        (
            chain.pipeline.name,
            " + ".join(
                f"{name} {share * 100:.0f} %"
                for name, share in zip(_programs(chain), chain.cpu_shares, strict=True)
            ),
            f"{sum(chain.cpu_shares):.2f}",
            " · ".join("–" if size is None else f"{size:,.0f}" for size in chain.bytes_per_read),
        )
        for chain in measured
    ]
    headings = ["variant", "share of a CPU, each", "CPUs in all", "bytes per read, each"]
    each = "; ".join(f"{row[0]}: {row[1]}" for row in rows)
    alt = f"Stacked bars of the CPUs that each program had; the machine has {cores}. {each}."
    return Picture(figure, title, alt, Table.of(headings, rows))


def _programs(chain: Chain) -> list[str]:
    return [command.lower() for command in chain.pipeline.commands]


# ---- the copies ----------------------------------------------------------------------------------


@old
def copy_path(result: Pipes, key: str) -> Picture:
    """The path of a byte with each of its copies, and the rates of all variants as bars.

    Args:
        result: of the variant, and of others to compare it with.
        key: of the variant that is drawn.

    Raises:
        ValueError: the variant was not measured: the message says why.
    """
    chain = result[key]
    if not chain.runs:
        raise ValueError(f"{chain.pipeline.name} was not measured: {chain.missing}")
    measured = _measured(result)
    figure = style.new_figure()
    axes = figure.add_axes((0.0, 0.36, 1.0, 0.52))
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    copies = _draw_path(axes, chain.pipeline)
    _draw_rates(figure.add_axes((0.25, 0.10, 0.72, 0.22)), chain, measured)
    each = "; ".join(
        f"{one.pipeline.name} {one.median_mb_per_s:,.0f} MB/s, {count_copies(one.pipeline)}"
        for one in measured
    )
    alt = (
        f"The path of a byte: {', '.join(copies) or 'no copy at all'}; below it bars of the rates:"
        f" {each}."
    )
    return Picture(figure, _path_finding(chain, measured), alt, table(result))


def count_copies(pipeline: Pipeline) -> str:
    """The copies of a byte in a variant, in words."""
    copies = pipeline.cost.copies
    return "1 copy" if copies == 1 else f"{copies} copies"


def _path_finding(chain: Chain, measured: Sequence[Chain]) -> str:
    rate = chain.median_mb_per_s or 0.0
    words = f"{chain.pipeline.name}: {count_copies(chain.pipeline)} of each byte, {rate:,.0f} MB/s"
    others = [each for each in measured if each is not chain]
    if not others:
        return words
    ratio = rate / (others[0].median_mb_per_s or rate)
    other = others[0].pipeline
    return f"{words}; {ratio:.2g} times {other.shown} with {count_copies(other)}"


def _draw_rates(axes: Axes, drawn: Chain, measured: Sequence[Chain]) -> None:
    for y, chain in enumerate(measured):
        _rate_bar(axes, chain, y, _HERE if chain is drawn else _OTHER)
        words = (
            f"{chain.median_mb_per_s or 0:,.0f} MB/s, {count_copies(chain.pipeline)},"
            f" {chain.cpu_s_per_gb:.2f} CPU s/GB"
        )
        beside(axes, words, max(chain.mb_per_s), y)
    _name_bars(axes, measured, 12)
    axes.set_ylim(len(measured) - 0.5, -0.5)
    axes.set_xlim(0, 1.55 * max(max(chain.mb_per_s) for chain in measured))
    runs = count(len(drawn.runs), "run")
    axes.set_xlabel(f"MB/s, median of {runs}; black line: slowest to fastest", fontsize=SMALL)


def _stops(pipeline: Pipeline) -> Iterator[tuple[str, bool, bool]]:
    """Each program's name, and whether the CPU copies each byte to it, and from it."""
    last = len(pipeline.stages) - 1
    commands = (*pipeline.sending, *pipeline.receiving)
    for number, (stage, words) in enumerate(zip(pipeline.stages, commands, strict=True)):
        copies = STAGES[stage]
        # With one copy the first program only gives, and the last only takes.
        takes = copies == 2 or (copies == 1 and number == last)
        gives = copies == 2 or (copies == 1 and number == 0 and last > 0)
        yield _program(words), takes, gives


def _program(words: Sequence[str]) -> str:
    """The command's name, and of its arguments those that matter to a byte."""
    wanted = [word for word in words[1:] if word.startswith(("bs=", "--splice", "--discard", "-C"))]
    return "\n".join([words[0].lower(), *wanted])


def _kernel_parts(pipeline: Pipeline) -> list[str]:
    """The kernel's part before, between and behind the programs; empty for a program's memory."""
    begin = {"made": "/dev/zero", "cold": "disk and\npage cache", "warm": "page cache"}[
        pipeline.cache
    ]
    if pipeline.stages[0] == "tcpsource":
        begin = ""
    end = {"tcpsink": "", "discard": "nowhere"}.get(pipeline.stages[-1], "/dev/null")
    tcp = "wire of\n1 Gbit/s" if pipeline.wire else "sockets\nand TCP"
    pipes = ["pipe"] * (len(pipeline.sending) - 1), ["pipe"] * (len(pipeline.receiving) - 1)
    return [begin, *pipes[0], tcp, *pipes[1], end]


def _draw_path(axes: Axes, pipeline: Pipeline) -> list[str]:
    """Draws it; the copies in words."""
    stops, parts = list(_stops(pipeline)), _kernel_parts(pipeline)
    left, width = 0.13, 0.86
    step = width / (len(stops) + len(parts))
    axes.axhline(0.555, color=style.GREY, ls=":", lw=1.5)
    for y, words in ((_PROGRAMS_Y, "programs,\neach with\nits memory"), (_KERNEL_Y, "the kernel")):
        axes.text(0.012, y, words, fontsize=TEXT, va="center")
    for number, name in enumerate(parts):
        if name:
            _box(axes, left + (2 * number + 0.5) * step, _KERNEL_Y, step, name, style.SKY)
    copies: list[str] = []
    for number, (program, takes, gives) in enumerate(stops):
        x = left + (2 * number + 1.5) * step
        idle = not (takes or gives)
        _box(axes, x, _PROGRAMS_Y, step, program, style.PALE if idle else style.YELLOW)
        before, behind = parts[number].replace("\n", " "), parts[number + 1].replace("\n", " ")
        name = program.replace("\n", " ")
        if idle:
            start, end = (x - 0.54 * step, _KERNEL_Y), (x + 0.54 * step, _KERNEL_Y)
            style.arrow(axes, start, end, _HANDED_ON)
            axes.text(x, _KERNEL_Y + 0.05, "no copy", ha="center")
            continue
        if takes:
            copies.append(f"{before} to {name}")
            ends = _slope(x - 0.72 * step, x - 0.30 * step, up=True)
            _step(axes, *ends, _COPY, str(len(copies)))
        ends = _slope(x + 0.30 * step, x + 0.72 * step, up=False)
        if gives:
            copies.append(f"{name} to {behind}")
            _step(axes, *ends, _COPY, str(len(copies)))
        elif behind:
            _step(axes, *ends, _DROPPED, "no copy")
    return copies


def _box(axes: Axes, x: float, y: float, step: float, words: str, colour: str) -> None:
    corner = x - 0.46 * step, y - _BOX_HEIGHT / 2
    style.fill(axes, Style(colour, "", ""), *corner, 0.92 * step, _BOX_HEIGHT)
    widest = max(words.split("\n"), key=len)
    room = 0.88 * step * style.WIDTH_INCHES * style.DPI
    size = next((s for s in (TEXT, SMALL, 11) if style.text_width_px(widest, s) <= room), 10)
    style.write(axes, x, y, words, size, fontweight="normal")


_Point = tuple[float, float]


def _slope(left: float, right: float, *, up: bool) -> tuple[_Point, _Point]:
    low, high = _KERNEL_Y + _BOX_HEIGHT / 2 + 0.01, _PROGRAMS_Y - _BOX_HEIGHT / 2 - 0.01
    return ((left, low), (right, high)) if up else ((left, high), (right, low))


def _step(axes: Axes, start: _Point, end: _Point, look: Line, words: str) -> None:
    """An arrow with words on it; a copy's number has a frame."""
    style.arrow(axes, start, end, look)
    copy = look is _COPY
    edge = look.colour if copy else "none"
    frame = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": edge, "lw": 2}
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    style.write(axes, *middle, words, TEXT if copy else SMALL, zorder=5, bbox=frame)
