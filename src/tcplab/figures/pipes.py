"""Pictures of pipes: how fast each way is, and which program had how much of a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcplab.experiments import table
from tcplab.experiments.pipes import Chain, Pipes
from tcplab.figures import style
from tcplab.figures.bars import beside, look_of, named_once, no_box
from tcplab.figures.style import SMALL, TEXT, Picture, Style
from tcplab.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pipe_cpus", "pipe_rates"]

_HERE: Final = Style(style.BLUE, "", "one machine")
_WIRE: Final = Style(style.GREEN, "//", "wire of 1 Gbit/s")
_PROGRAMS: Final = (
    Style(style.BLUE, "", "first"),
    Style(style.ORANGE, "//", "second"),
    Style(style.GREEN, "..", "third"),
    Style(style.PURPLE, "xx", "fourth"),
)


def pipe_rates(result: Pipes) -> Picture:
    """A bar a way: the median rate, a line from the slowest to the fastest run, the text's figure.

    Raises:
        ValueError: nothing was measured.
    """
    measured = [chain for chain in result.chains if chain.runs]
    if not measured:
        raise ValueError("no way was measured; see the notes in the table")
    figure = style.new_figure()
    axes = figure.add_axes((0.24, 0.105, 0.74, 0.76))
    for y, chain in enumerate(measured):
        look = _WIRE if chain.way.wire else _HERE
        rate, rates = chain.median_mb_per_s or 0.0, chain.mb_per_s
        axes.barh(y, rate, 0.62, **look_of(look), label=named_once(axes, look.name))
        axes.plot((min(rates), max(rates)), (y, y), color="black", lw=2.2)
        if chain.way.text_mb_per_s:
            name = named_once(axes, "the text, on its machines")
            axes.plot(chain.way.text_mb_per_s, y, "D", ms=9, color=style.VERMILION, label=name)
        words = f"{rate:,.0f} MB/s · copies: {chain.way.cost.copies}"
        beside(axes, words, _end(chain), y)
    _ticks(axes, measured)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.4 * max(_end(chain) for chain in measured))
    axes.set_xlabel("MB/s (10⁶ bytes a second); black line: slowest to fastest run", fontsize=TEXT)
    axes.legend(loc="upper right", fontsize=SMALL, framealpha=0.95)
    title = _finding(result)
    style.title(figure, title)
    each = "; ".join(
        f"{chain.way.name} {chain.median_mb_per_s:.0f} MB/s, {chain.way.cost.copies} copies"
        for chain in measured
    )
    return Picture(figure, title, f"Bars of the rate of each way. {each}.", table(result))


def _end(chain: Chain) -> float:
    """Where the words begin: behind the fastest run and, on a slow machine, the text's figure."""
    return max(*chain.mb_per_s, chain.way.text_mb_per_s or 0.0)


def pipe_cpus(result: Pipes) -> Picture:
    """A bar a way within one machine: what part of a CPU each of its programs had.

    Raises:
        ValueError: no way within one machine was measured.
    """
    measured = [chain for chain in result.chains if chain.runs and not chain.way.wire]
    if not measured:
        raise ValueError("no way within one machine was measured; see the notes in the table")
    cores = int(result.provenance["cores"])
    figure = style.new_figure()
    axes = figure.add_axes((0.24, 0.105, 0.73, 0.76))
    for y, chain in enumerate(measured):
        left = 0.0
        for name, share, look in zip(_programs(chain), chain.cpu_shares, _PROGRAMS, strict=False):
            axes.barh(y, share, 0.62, left=left, **look_of(look))
            if share > 0.015 * len(name) * cores:
                axes.text(
                    left + share / 2,
                    y,
                    name,
                    ha="center",
                    va="center",
                    fontsize=SMALL,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
                )
            left += share
    axes.axvline(cores, color="black", ls="--", lw=2)
    axes.text(cores, -0.62, f" all {cores} CPUs", fontsize=SMALL, va="center", ha="right")
    _ticks(axes, measured)
    axes.set_ylim(len(measured) - 0.4, -1)
    axes.set_xlim(0, max(cores * 1.06, *(sum(chain.cpu_shares) for chain in measured)))
    axes.set_xlabel("CPUs busy with each program, on average", fontsize=TEXT)
    most = max(measured, key=lambda chain: len(chain.cpu_shares))
    title = (
        f"{len(most.cpu_shares)} processes share {cores} CPUs in {most.way.shown}:"
        f" together they had {sum(most.cpu_shares):.1f}"
    )
    style.title(figure, title)
    rows = [
        (
            chain.way.name,
            " + ".join(
                f"{name} {share * 100:.0f} %"
                for name, share in zip(_programs(chain), chain.cpu_shares, strict=True)
            ),
            f"{sum(chain.cpu_shares):.2f}",
            " · ".join("–" if size is None else f"{size:,.0f}" for size in chain.bytes_per_read),
        )
        for chain in measured
    ]
    headings = ["way", "share of a CPU, each", "CPUs in all", "bytes a read, each"]
    each = "; ".join(f"{row[0]}: {row[1]}" for row in rows)
    alt = f"Stacked bars of the CPUs that each program had; the machine has {cores}. {each}."
    return Picture(figure, title, alt, Table.of(headings, rows))


def _ticks(axes: Axes, chains: Sequence[Chain]) -> None:
    """The names beside the bars, long ones on two lines."""
    names = [chain.way.name for chain in chains]
    folded = [name.replace(" → ", "\n→ ") if len(name) > 28 else name for name in names]
    axes.set_yticks(range(len(chains)), folded)
    no_box(axes)
    axes.tick_params(axis="y", labelsize=11)


def _programs(chain: Chain) -> list[str]:
    return [command.lower() for command in chain.way.commands]


def _finding(result: Pipes) -> str:
    found = {chain.way.key: chain for chain in result.chains if chain.runs}
    for slow, fast in (("dd-nc", "warm"), ("dd-netcat", "netcat-warm")):
        if slow in found and fast in found:
            return "; ".join(
                f"{chain.way.shown}: {chain.median_mb_per_s:,.0f} MB/s with"
                f" {chain.way.cost.copies} copies of each byte"
                for chain in (found[slow], found[fast])
            )
    best = max(found.values(), key=lambda chain: chain.median_mb_per_s or 0)
    return f"{best.way.shown} is the fastest: {best.median_mb_per_s:,.0f} MB/s"
