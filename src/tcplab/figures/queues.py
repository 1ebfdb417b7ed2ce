"""Lesson queues: queues in routers and senders, and who shares them."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import table
from tcplab.experiments.bottleneck import Bufferbloat, Contests, RouterBuffers
from tcplab.experiments.notsent_lowat import Ages
from tcplab.figures import canvas, style
from tcplab.figures.bars import (
    bar,
    beside,
    height_of,
    name_rows,
    named_once,
    tick_decades,
    within,
)
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style
from tcplab.models import sawtooth_share
from tcplab.tables import count

__all__ = ["contests", "data_ages", "line_use", "managed_queues"]

_CONTROLS: Final = {
    "cubic": Style(style.BLUE, "", "cubic"),
    "reno": Style(style.ORANGE, "//", "reno"),
    "bbr": Style(style.GREEN, "--", "bbr"),
}
_UNSENT: Final = Style(style.VERMILION, "//", "unsent, in the sender's own queue")
_SENT: Final = Style(style.SKY, "", "in flight")


@drawn
def managed_queues(result: Bufferbloat) -> Picture:
    """A bystander's ping and page behind each queue, on a logarithmic axis of time."""
    rows = some(result.variants)
    figure, axes = canvas.new_axes("x")
    series: list[tuple[str, str, str, list[float]]] = [
        ("ping, median", "o", style.BLUE, [each.probe_ms for each in rows]),
        ("ping, longest", "s", style.VERMILION, [each.most_probe_ms for each in rows]),
        ("a page, mean", "D", style.GREEN, [1e3 * each.page_s for each in rows]),
    ]
    for name, marker, colour, values in series:
        axes.plot(values, range(len(rows)), marker, color=colour, ms=8, mec="white", label=name)
    every = [value for *_look, values in series for value in values if value == value]
    axes.set(xscale="log", xlim=(min(every) / 2, max(every) * 2.5))
    tick_decades(axes)
    axes.set_xlabel("ms (logarithmic)")
    names, same = _apart([each.label for each in rows])
    rates = [f"{name}:\n{each.mbit:.1f} Mbit/s" for name, each in zip(names, rows, strict=True)]
    name_rows(axes, rates, characters=30)
    canvas.legend(figure)
    slow, fast = (pick(range(len(rows)), key=lambda n: rows[n].probe_ms) for pick in (max, min))
    title = (
        f"Behind one long transfer a ping takes {rows[slow].probe_ms:.0f} ms ({names[slow]}) or"
        f" {rows[fast].probe_ms:.0f} ms ({names[fast]})"
    )
    return Picture(figure, title, table(result), same)


def _apart(labels: list[str]) -> tuple[list[str], str]:
    """The parts in which labels differ, and those that all have."""
    parts = [label.split(", ") for label in labels]
    same = [part for part in parts[0] if all(part in each for each in parts)]
    if len(labels) < 2:
        return labels, ""
    left = [", ".join(part for part in each if part not in same) for each in parts]
    return [each or "tail drop" for each in left], ", ".join(same)


@drawn
def line_use(result: RouterBuffers) -> Picture:
    """The part of the line that flows use against the size of its buffer, beside the sawtooth."""
    rows = some(result.variants)
    figure, axes = canvas.new_axes("both")
    sizes = sorted({each.bdps for each in rows})
    low, high = sizes[0] / 1.6, max(sizes[-1], 1) * 1.6
    line = [low * (high / low) ** (n / 60) for n in range(61)]
    shares = [100 * sawtooth_share(size) for size in line]
    axes.plot(line, shares, "-", color="black", lw=1.3, label="model: Reno's sawtooth")
    for number, flows in enumerate(sorted({each.flows for each in rows})):
        colour, marker, dashes = style.CURVES[number % len(style.CURVES)]
        mine = sorted((each for each in rows if each.flows == flows), key=lambda each: each.bdps)
        points = [each.bdps for each in mine], [100 * each.used for each in mine]
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": dashes, "ms": 8}
        axes.plot(*points, label=count(flows, "flow"), **look)
    least = min(100 * each.used for each in rows)
    axes.set(xscale="log", xlim=(low, high), ylim=(min(0.9 * least, 70), 104))
    axes.set_xticks(sizes, [f"{size:.3g}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("the router's buffer (BDP, logarithmic)")
    axes.set_ylabel("of the line used (%)")
    axes.legend(loc="lower right")
    few, many = min(each.flows for each in rows), max(each.flows for each in rows)
    middle = sizes[len(sizes) // 2]
    title = f"A buffer of {middle:.2g} BDP: {_used(result, few, middle)}"
    if many != few:
        title += f"; {_used(result, many, middle)}"
    return Picture(figure, title, table(result))


def _used(result: RouterBuffers, flows: int, bdps: float) -> str:
    uses = "uses" if flows == 1 else "use"
    percent = f"{100 * result[flows, bdps].used:.0f} %"
    return f"{count(flows, 'flow')} {uses} {percent} of the line"


@drawn
def contests(result: Contests) -> Picture:
    """The rate of each congestion control, alone and beside another, for each queue."""
    rows = some(result.variants)
    figure, axes = canvas.new_axes("x", height=height_of(len(rows), 23))
    most = max(each.mbit for each in rows)
    for y, each in enumerate(rows):
        left = 0.0
        rates = (each.first_mbit, each.second_mbit or 0.0)
        for name, rate in zip(each.controls.split(", "), rates, strict=False):
            pixels = 330 * rate / most
            within(axes, f"{rate:.1f}", left + rate / 2, y, pixels)
            left = bar(axes, y, (_CONTROLS[name], rate), left=left)
        beside(axes, f"RTT {each.rtt_ms:.0f} ms", left, y)
    axes.set(xlim=(0, 1.42 * most), xlabel="Mbit/s")
    name_rows(axes, [each.label for each in rows], characters=36)
    canvas.legend(figure)
    pairs = [each for each in rows if each.second_mbit is not None]
    title = "; ".join(_score(each) for each in _extremes(pairs)) or f"{rows[0].label}, alone"
    return Picture(figure, title, table(result))


def _extremes(pairs: list[Any]) -> list[Any]:
    """The most one-sided contest, and the one of the same two that ended most otherwise."""
    if not pairs:
        return []
    first = max(pairs, key=lambda each: abs(each.first_share - 0.5))
    others = [each for each in pairs if each.controls == first.controls and each is not first]
    apart = sorted(others, key=lambda each: -abs(each.first_share - first.first_share))
    return [first, *apart[:1]]


def _score(contest: Any) -> str:
    first, second = contest.controls.split(", ")
    return (
        f"queue of {contest.queue_packets}: {first} {contest.first_mbit:.1f}, {second}"
        f" {contest.second_mbit:.1f} Mbit/s"
    )


@drawn
def data_ages(result: Ages) -> Picture:
    """The age of data at its arrival, and the part of it that is the sender's own queue."""
    rows = some(result.variants)
    figure, axes = canvas.new_axes("x")
    longest = max(max(each.age_ms, each.model_age_ms) for each in rows)
    for y, each in enumerate(rows):
        unsent_ms = 8 * each.unsent_bytes / each.mbit / 1e3
        sent_ms = max(each.model_age_ms - unsent_ms, 0)
        bar(axes, y, (_UNSENT, unsent_ms), (_SENT, sent_ms))
        dot: dict[str, Any] = {"color": style.PURPLE, "ms": 8, "zorder": 5, "mec": "white"}
        axes.plot(each.age_ms, y, "D", label=named_once(axes, "measured"), **dot)
        words = f"{each.age_ms:.0f} ms, {each.mbit:.1f} Mbit/s"
        beside(axes, words, max(each.age_ms, each.model_age_ms), y, mark=True)
    axes.set(xlim=(0, 1.6 * longest), xlabel="from write() to the receiver's program (ms)")
    name_rows(axes, [each.label for each in rows], characters=28)
    canvas.legend(figure)
    oldest = max(rows, key=lambda each: each.age_ms)
    same = [each for each in rows if each.rtt_ms == oldest.rtt_ms and each.mbit > oldest.mbit / 2]
    fresh = min(same, key=lambda each: each.age_ms)
    title = f"{oldest.rtt_ms:g} ms away, data is {oldest.age_ms:.0f} ms old when it arrives"
    if fresh is not oldest:
        title += f"; with {fresh.option} {fresh.age_ms:.0f} ms, at {fresh.mbit:.1f} Mbit/s"
    return Picture(figure, title, table(result))
