"""Draw the figures of lesson queues, on queues in routers and senders."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import table
from tcplab.experiments.bottleneck import Bufferbloat, Contests, RouterBuffers
from tcplab.experiments.notsent_lowat import Ages
from tcplab.figures import canvas, style
from tcplab.figures.generic import Dots, Panel, draw_rows
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
    """Draw how long a bystander's pings and pages take behind each queue, logarithmically."""
    rows = some(result.variants)
    median, longest = [each.probe_ms for each in rows], [each.most_probe_ms for each in rows]
    pages = [1e3 * each.page_s for each in rows]
    dots = [
        Dots(median, "ping, median"),
        Dots(longest, "ping, longest", "s", style.VERMILION),
        Dots(pages, "a page, mean", "D", style.GREEN),
    ]
    every = [value for value in (*median, *longest, *pages) if value == value]
    names, same = _apart([each.label for each in rows])
    rates = [f"{name}:\n{each.mbit:.1f} Mbit/s" for name, each in zip(names, rows, strict=True)]
    panel = Panel("ms", dots=dots, limits=(min(every) / 2, max(every) * 2.5))
    figure = draw_rows(rates, panel, characters=30)
    slow, fast = (pick(range(len(rows)), key=lambda n: rows[n].probe_ms) for pick in (max, min))
    title = (
        f"Behind one long transfer a ping takes {rows[slow].probe_ms:.0f} ms ({names[slow]}) or"
        f" {rows[fast].probe_ms:.0f} ms ({names[fast]})"
    )
    return Picture(figure, title, table(result), same)


def _apart(labels: list[str]) -> tuple[list[str], str]:
    """Return what differs between labels, and the parts that all of them share."""
    parts = [label.split(", ") for label in labels]
    same = [part for part in parts[0] if all(part in each for each in parts)]
    if len(labels) < 2:
        return labels, ""
    left = [", ".join(part for part in each if part not in same) for each in parts]
    return [each or "tail drop" for each in left], ", ".join(same)


@drawn
def line_use(result: RouterBuffers) -> Picture:
    """Draw how much of the line is used against the buffer's size, with the sawtooth model."""
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
    """Draw the rate of each congestion control behind each queue, alone and against another."""
    rows = some(result.variants)
    rates = [
        [rate for rate in (each.first_mbit, each.second_mbit) if rate is not None] for each in rows
    ]
    looks = [[_CONTROLS[name] for name in each.controls.split(", ")] for each in rows]
    panel = Panel(
        "Mbit/s",
        bars=[list(zip(*parts, strict=True)) for parts in zip(looks, rates, strict=True)],
        inside=[[f"{rate:.1f}" for rate in each] for each in rates],
        words=[f"RTT {each.rtt_ms:.0f} ms" for each in rows],
        room=1.42,
    )
    figure = draw_rows([each.label for each in rows], panel, characters=36, row=23)
    pairs = [each for each in rows if each.second_mbit is not None]
    title = "; ".join(_score(each) for each in _extremes(pairs)) or f"{rows[0].label}, alone"
    return Picture(figure, title, table(result))


def _extremes(pairs: list[Any]) -> list[Any]:
    """Return the most unequal contest, and the most different contest of the same two."""
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
    """Draw how old data is when it arrives, and for how long the sender's queue held it."""
    rows = some(result.variants)
    unsent_ms = [8 * each.unsent_bytes / each.mbit / 1e3 for each in rows]
    panel = Panel(
        "from write() to the receiver's program (ms)",
        bars=[
            [(_UNSENT, unsent), (_SENT, max(each.model_age_ms - unsent, 0))]
            for each, unsent in zip(rows, unsent_ms, strict=True)
        ],
        dots=[Dots([each.age_ms for each in rows], "measured", "D", style.PURPLE)],
        words=[f"{each.age_ms:.0f} ms, {each.mbit:.1f} Mbit/s" for each in rows],
        room=1.6,
    )
    figure = draw_rows([each.label for each in rows], panel, characters=28)
    oldest = max(rows, key=lambda each: each.age_ms)
    same = [each for each in rows if each.rtt_ms == oldest.rtt_ms and each.mbit > oldest.mbit / 2]
    fresh = min(same, key=lambda each: each.age_ms)
    title = (
        f"With an RTT of {oldest.rtt_ms:g} ms, data is {oldest.age_ms:.0f} ms old when it arrives"
    )
    if fresh is not oldest:
        title += f"; with {fresh.option} {fresh.age_ms:.0f} ms, at {fresh.mbit:.1f} Mbit/s"
    return Picture(figure, title, table(result))
