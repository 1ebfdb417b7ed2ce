"""Draw the figures for the queues, sharing and send-buffer lessons."""

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
from tcplab.tables import count, digits

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
    """Draw the times of pings and page fetches behind each queue, on a logarithmic axis."""
    rows = some(result.variants)
    median, longest = [row.probe_ms for row in rows], [row.most_probe_ms for row in rows]
    pages = [1e3 * row.page_s for row in rows]
    dots = [
        Dots(median, "ping, median"),
        Dots(longest, "ping, longest", "s", style.VERMILION),
        Dots(pages, "a page, mean", "D", style.GREEN),
    ]
    every = [value for value in (*median, *longest, *pages) if value == value]
    names, same = _apart([row.label for row in rows])
    rates = [f"{name}:\n{row.mbit:.1f} Mbit/s" for name, row in zip(names, rows, strict=True)]
    panel = Panel("ms", dots=dots, limits=(min(every) / 2, max(every) * 2.5))
    figure = draw_rows(rates, panel, characters=30)
    slow, fast = (pick(range(len(rows)), key=lambda n: rows[n].probe_ms) for pick in (max, min))
    waits = [f"{rows[n].probe_ms:.0f} ms ({names[n]})" for n in dict.fromkeys((slow, fast))]
    title = f"Behind one long transfer, a ping takes {waits[0]}"
    if slow != fast:
        title = (
            "Behind one long transfer, a ping takes"
            f" {digits(rows[slow].probe_ms / rows[fast].probe_ms, 2)} times as long with"
            f" {names[slow]} as with {names[fast]}"
        )
    note = " · ".join(filter(None, [same, f"a ping takes {' or '.join(waits)}"]))
    return Picture(figure, title, table(result), note)


def _apart(labels: list[str]) -> tuple[list[str], str]:
    """Return the labels without the parts that all share ("tail drop" if empty), and those."""
    parts = [label.split(", ") for label in labels]
    same = [part for part in parts[0] if all(part in names for names in parts)]
    if len(labels) < 2:
        return labels, ""
    left = [", ".join(part for part in names if part not in same) for names in parts]
    return [name or "tail drop" for name in left], ", ".join(same)


@drawn
def line_use(result: RouterBuffers) -> Picture:
    """Draw the used share of the line against the buffer's size, with the sawtooth model."""
    rows = some(result.variants)
    figure, axes = canvas.new_axes("both")
    sizes = sorted({row.bdps for row in rows})
    low, high = sizes[0] / 1.6, max(sizes[-1], 1) * 1.6
    line = [low * (high / low) ** (n / 60) for n in range(61)]
    shares = [100 * sawtooth_share(size) for size in line]
    axes.plot(line, shares, "-", color="black", lw=1.3, label="model: Reno's sawtooth")
    for number, flows in enumerate(sorted({row.flows for row in rows})):
        colour, marker, dashes = style.CURVES[number % len(style.CURVES)]
        mine = sorted((row for row in rows if row.flows == flows), key=lambda row: row.bdps)
        points = [row.bdps for row in mine], [100 * row.used for row in mine]
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": dashes, "ms": 8}
        axes.plot(*points, label=count(flows, "flow"), **look)
    least = min(100 * row.used for row in rows)
    axes.set(xscale="log", xlim=(low, high), ylim=(min(0.9 * least, 70), 104))
    axes.set_xticks(sizes, [f"{size:.3g}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("the router's buffer (BDP, logarithmic)")
    axes.set_ylabel("of the line used (%)")
    axes.legend(loc="lower right")
    few, many = min(row.flows for row in rows), max(row.flows for row in rows)
    middle = sizes[len(sizes) // 2]
    title = note = _used(result, few, middle)
    if many != few:
        more = "more" if result[many, middle].used > result[few, middle].used else "no more"
        title = f"With a buffer of {middle:.2g} BDP, more flows use {more} of the line"
        note += f" · {_used(result, many, middle)}"
    return Picture(figure, title, table(result), f"a buffer of {middle:.2g} BDP: {note}")


def _used(result: RouterBuffers, flows: int, bdps: float) -> str:
    uses = "uses" if flows == 1 else "use"
    percent = f"{100 * result[flows, bdps].used:.0f} %"
    return f"{count(flows, 'flow')} {uses} {percent} of the line"


@drawn
def contests(result: Contests) -> Picture:
    """Draw the rate of each congestion control behind each queue, alone and against another."""
    rows = some(result.variants)
    rates = [
        [rate for rate in (row.first_mbit, row.second_mbit) if rate is not None] for row in rows
    ]
    looks = [[_CONTROLS[name] for name in row.controls.split(", ")] for row in rows]
    panel = Panel(
        "Mbit/s",
        bars=[list(zip(*parts, strict=True)) for parts in zip(looks, rates, strict=True)],
        inside=[[f"{rate:.1f}" for rate in pair] for pair in rates],
        words=[f"RTT {row.rtt_ms:.0f} ms" for row in rows],
        room=1.42,
    )
    figure = draw_rows([row.label for row in rows], panel, characters=36, row=23)
    pairs = [row for row in rows if row.second_mbit is not None]
    extremes = _extremes(pairs)
    title = _contests_finding(extremes) if extremes else f"{rows[0].label}, alone"
    return Picture(figure, title, table(result), " · ".join(map(_score, extremes)))


def _extremes(pairs: list[Any]) -> list[Any]:
    """Return the most unequal contest, and the same controls' contest that differs most from it."""
    if not pairs:
        return []
    first = max(pairs, key=lambda pair: abs(pair.first_share - 0.5))
    others = [pair for pair in pairs if pair.controls == first.controls and pair is not first]
    apart = sorted(others, key=lambda pair: -abs(pair.first_share - first.first_share))
    return [first, *apart[:1]]


def _contests_finding(extremes: list[Any]) -> str:
    first, second = extremes[0].controls.split(", ")
    winners = [first if contest.first_share >= 0.5 else second for contest in extremes]
    if len(set(winners)) > 1:
        return f"The length of the queue decides whether {winners[0]} or {winners[1]} gets more"
    loser = second if winners[0] == first else first
    return f"{winners[0]} gets more of the line than {loser} in each queue"


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
    unsent_ms = [8 * row.unsent_bytes / row.mbit / 1e3 for row in rows]
    panel = Panel(
        "from write() to the receiver's program (ms)",
        bars=[
            [(_UNSENT, unsent), (_SENT, max(row.model_age_ms - unsent, 0))]
            for row, unsent in zip(rows, unsent_ms, strict=True)
        ],
        dots=[Dots([row.age_ms for row in rows], "measured", "D", style.PURPLE)],
        words=[f"{row.age_ms:.0f} ms, {row.mbit:.1f} Mbit/s" for row in rows],
        room=1.6,
    )
    figure = draw_rows([row.label for row in rows], panel, characters=28)
    oldest = max(rows, key=lambda row: row.age_ms)
    same = [row for row in rows if row.rtt_ms == oldest.rtt_ms and row.mbit > oldest.mbit / 2]
    fresh = min(same, key=lambda row: row.age_ms)
    title = f"Data is {oldest.age_ms:.0f} ms old when it arrives"
    note = f"RTT {oldest.rtt_ms:g} ms · {oldest.option}: {oldest.age_ms:.0f} ms"
    if fresh is not oldest:
        times = f"{oldest.age_ms / fresh.age_ms:.1f}"
        title = f"With {fresh.option}, data arrives {times} times as fresh"
        note += f" · {fresh.option}: {fresh.age_ms:.0f} ms, at {fresh.mbit:.1f} Mbit/s"
    return Picture(figure, title, table(result), note)
