"""Draw the path of a byte through a pipeline, with each of its copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tcplab.experiments import Result, table
from tcplab.experiments.pipes import Chain, Pipeline
from tcplab.figures import canvas, style
from tcplab.figures.labels import Point
from tcplab.figures.picture import Picture, drawn
from tcplab.figures.style import SMALL, TEXT, Line, Style
from tcplab.models.copies import STAGES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COPY: Final = Line("-", style.VERMILION, 3.0)
_HANDED_ON: Final = Line("--", style.GREEN, 2.6)
_DROPPED: Final = Line(":", style.GREY, 2.2)

#: The y coordinates of the programs' and the kernel's boxes, and half of a box's height.
_PROGRAM, _KERNEL, _HALF = 0.76, 0.2, 0.14
#: The y coordinates of the arrows' ends at the kernel's boxes and at the programs'.
_KERNEL_EDGE, _PROGRAM_EDGE = _KERNEL + _HALF + 0.01, _PROGRAM - _HALF - 0.01


@drawn
def copy_path(result: Result[Chain], key: str) -> Picture:
    """Draw the path of a byte with each of its copies."""
    chain = result[key]
    if not chain.runs:
        raise ValueError(f"{chain.pipeline.name} was not measured: {chain.missing}")
    figure, axes = canvas.new_axes()
    _draw_path(axes, chain.pipeline)
    title, note = _path_finding(chain, result.variants)
    return Picture(figure, title, table(result), note)


def count_copies(pipeline: Pipeline) -> str:
    """Return the number of copies of a byte in words, such as "1 copy" or "5 copies"."""
    copies = pipeline.cost.copies
    return "1 copy" if copies == 1 else f"{copies} copies"


def _path_finding(chain: Chain, chains: Sequence[Chain]) -> tuple[str, str]:
    copies = f"{chain.pipeline.name}: {count_copies(chain.pipeline)} of each byte"
    place = chain.pipeline.wire
    others = [one for one in chains if one.runs and one.pipeline.wire == place and one is not chain]
    if not others or not chain.median_mb_per_s:
        return copies, ""
    ratio = chain.median_mb_per_s / (others[0].median_mb_per_s or chain.median_mb_per_s)
    other = others[0].pipeline
    title = f"{chain.pipeline.name} is {ratio:.2g} times as fast as {other.shown}"
    return title, f"{copies} · {other.shown}: {count_copies(other)}"


def _stops(pipeline: Pipeline) -> Iterator[tuple[str, bool, bool]]:
    """Yield each program's name, and whether the CPU copies each byte to it and from it."""
    last = len(pipeline.stages) - 1
    commands = (*pipeline.sending, *pipeline.receiving)
    for number, (stage, words) in enumerate(zip(pipeline.stages, commands, strict=True)):
        copies = STAGES[stage]
        # With one copy, the first program only writes and the last program only reads.
        takes = copies == 2 or (copies == 1 and number == last)
        gives = copies == 2 or (copies == 1 and number == 0 and last > 0)
        options = ("bs=", "--splice", "--discard", "-C")
        wanted = [word for word in words[1:] if word.startswith(options)]
        yield "\n".join([words[0].lower(), *wanted]), takes, gives


def _kernel_parts(pipeline: Pipeline) -> list[str]:
    """Return the kernel's parts around the programs, with "" at an end that is a program."""
    begin = {"made": "/dev/zero", "cold": "disk and\npage cache", "warm": "page cache"}[
        pipeline.cache
    ]
    if pipeline.stages[0] == "tcpsource":
        begin = ""
    end = {"tcpsink": "", "discard": "nowhere"}.get(pipeline.stages[-1], "/dev/null")
    tcp = "1 Gbit/s\nlink" if pipeline.wire else "sockets\nand TCP"
    pipes = ["pipe"] * (len(pipeline.sending) - 1), ["pipe"] * (len(pipeline.receiving) - 1)
    return [begin, *pipes[0], tcp, *pipes[1], end]


def _draw_path(axes: Axes, pipeline: Pipeline) -> None:
    stops, parts = list(_stops(pipeline)), _kernel_parts(pipeline)
    wide = len(stops) + len(parts)
    axes.set_axis_off()
    axes.set(xlim=(0, wide), ylim=(0, 1))
    axes.axhline((_KERNEL + _PROGRAM) / 2, color=style.GREY, ls=":", lw=1.2)
    for y, words in ((_PROGRAM, "programs, each with its memory"), (_KERNEL, "the kernel")):
        axes.text(0.005 * wide, y + _HALF + 0.03, words, va="bottom", fontweight="bold")
    for number, name in enumerate(parts):
        if name:
            _box(axes, 2 * number + 0.5, _KERNEL, name, style.SKY)
    copies = 0
    for number, (program, takes, gives) in enumerate(stops):
        x = 2 * number + 1.5
        idle = not (takes or gives)
        _box(axes, x, _PROGRAM, program, style.PALE if idle else style.YELLOW)
        if idle:  # the kernel passes the data on, since the program only requests the transfer
            style.arrow(axes, (x - 0.54, _KERNEL), (x + 0.54, _KERNEL), _HANDED_ON)
            axes.text(x, _KERNEL + 0.03, "no copy", ha="center", va="bottom")
            continue
        if takes:
            copies += 1
            _step(axes, (x - 0.72, _KERNEL_EDGE), (x - 0.3, _PROGRAM_EDGE), _COPY, str(copies))
        if gives:
            copies += 1
            _step(axes, (x + 0.3, _PROGRAM_EDGE), (x + 0.72, _KERNEL_EDGE), _COPY, str(copies))
        elif parts[number + 1]:
            _step(axes, (x + 0.3, _PROGRAM_EDGE), (x + 0.72, _KERNEL_EDGE), _DROPPED, "no copy")


def _box(axes: Axes, x: float, y: float, words: str, colour: str) -> None:
    style.fill(axes, Style(colour, "", ""), x - 0.45, y - _HALF, 0.9, 2 * _HALF)
    style.write(axes, x, y, words)


def _step(axes: Axes, start: Point, end: Point, look: Line, words: str) -> None:
    """Draw a labelled arrow between kernel and program. The number of a copy has a frame."""
    style.arrow(axes, start, end, look)
    copy = look is _COPY
    edge = look.colour if copy else "none"
    frame = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": edge, "lw": 1.5}
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    style.write(axes, *middle, words, TEXT if copy else SMALL, zorder=5, bbox=frame)
