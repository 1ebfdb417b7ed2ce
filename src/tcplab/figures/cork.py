"""Lesson 06: a message in several writes, and the time that a cork holds."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.experiments.cork import Cork, Forgotten, Scenario, Scenarios
from tcplab.figures import style
from tcplab.figures.bars import beside, named_once
from tcplab.figures.picture import Picture, old, some
from tcplab.figures.style import HOLD_STYLES, TEXT, Style, look_of
from tcplab.models import Reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cork_messages", "cork_scenarios", "forgotten_cork"]

_TIME: Final = Style(style.BLUE, "", "ms/message")
_COUNT: Final = Style(style.ORANGE, "//", "segments/message")
_CALLS: Final = Style(style.GREY, "..", "system calls/message")
_MANUAL_MS: Final = 200


@old
def cork_messages(result: Cork) -> Picture:
    """The time, the segments and the system calls of a message, for each variant."""
    rows = some(result.rows())
    figure = style.new_figure()
    panels = (
        (_TIME, "ms_per_message", "ms for a message and its reply", 0.155, 0.36),
        (_COUNT, "data_segments_per_message", "data segments", 0.555, 0.19),
        (_CALLS, "calls_per_message", "system calls", 0.785, 0.19),
    )
    for look, name, label, left, width in panels:
        axes = figure.add_axes((left, 0.115, width, 0.735))
        values = [float(row[name]) for row in rows]
        axes.barh(range(len(rows)), values, 0.6, **look_of(look))
        for y, value in enumerate(values):
            beside(axes, f"{value:.3g}", value, y)
        axes.set(ylim=(len(rows) - 0.5, -0.5), yticks=[], xlabel=label)
        axes.set_xlim(0, max(values) * (1.2 if look is _TIME else 1.3))
        if look is _TIME:
            axes.set_yticks(range(len(rows)), [row["variant"] for row in rows], fontsize=TEXT)
            if max(values) > 20 * min(values):
                axes.set(xscale="log", xlim=(min(values) / 2, max(values) * 4))
                axes.set_xlabel(f"{label} (logarithmic)")
    by_name = {row["variant"]: row for row in rows}
    writes = result.writes_bytes
    title = f"{len(writes)} writes, {sum(writes):,} bytes, RTT {result.rtt_ms:g} ms: "
    title += "; ".join(
        f"{name} {style.count(by_name[name]['data_segments_per_message'], 'segment')} and"
        f" {style.ms(by_name[name]['ms_per_message'])}"
        for name in ("default", "no_delay", "cork")
        if name in by_name
    )
    words = "; ".join(
        f"{row['variant']}: {row['ms_per_message']:.3g} ms,"
        f" {style.count(row['data_segments_per_message'], 'segment')} ({row['sizes']} bytes),"
        f" {row['calls_per_message']} system calls"
        for row in rows
    )
    return Picture(figure, title, f"Bars for each variant. {words}.", table(result))


@old
def forgotten_cork(result: Forgotten) -> Picture:
    """The time that a write waits in a cork that nobody pulls, against the round-trip time."""
    rows = some(result.rows())
    figure, axes = style.new_axes(grid="both")
    times = [row["rtt_ms"] for row in rows]
    look: dict[str, Any] = {"ms": 13, "mec": "white", "ls": "none", "zorder": 4}
    cork, more, model = ([row[f"{each}_ms"] for row in rows] for each in ("cork", "more", "model"))
    axes.plot(times, cork, "s", color=style.PURPLE, label="TCP_CORK", **look)
    axes.plot(times, more, "o", color=style.ORANGE, label="MSG_MORE", **look)
    axes.plot(times, model, "-", color="black", lw=2, label="model: retransmission timeout")
    axes.axhline(_MANUAL_MS, color=style.VERMILION, ls="--", lw=2.4, label="tcp(7): 200 ms")
    for point in zip(times, cork, strict=True):
        words, white = f"{point[1]:.0f} ms", style.ON_WHITE
        axes.annotate(words, point, (10, -24), textcoords="offset points", bbox=white)
    axes.set_xlim(min(times) - 0.06 * max(times, default=1) - 1, 1.08 * max(times) + 1)
    axes.set(ylim=(0, 1.35 * max(*model, *cork)), xlabel="round-trip time of the wire (ms)")
    axes.set_ylabel("waited (ms)")
    axes.legend(loc="upper left")
    title = (
        f"A forgotten cork holds for the retransmission timeout: {cork[0]:.0f} ms at an RTT"
        f" of {times[0]:g} ms, {cork[-1]:.0f} ms at {times[-1]:g} ms"
    )
    words = "; ".join(
        f"RTT {row['rtt_ms']:g} ms: cork {row['cork_ms']:.0f} ms, MSG_MORE {row['more_ms']:.0f} ms,"
        f" model {row['model_ms']:.0f} ms"
        for row in rows
    )
    return Picture(figure, title, f"Waiting time against RTT. {words}.", table(result))


@old
def cork_scenarios(result: Scenarios) -> Picture:
    """The wait of each segment of each script, its reason, and when it left."""
    figure, axes = style.new_axes((0.29, 0.115, 0.695, 0.735), grid="x")
    latest = 1.0
    for row, each in enumerate(some(result.variants)):
        latest = max([latest, *_waits(axes, each, row)])
    names = ["\n".join(textwrap.wrap(each.name, 30)) for each in result.variants]
    axes.set_ylim(len(result.variants) - 0.4, -1.6)
    axes.set_yticks(range(len(result.variants)), names)
    axes.set(xlim=(-0.02 * latest, 1.14 * latest), xlabel="ms after the first call")
    axes.legend(loc="upper right", ncols=4)
    title = _scenarios_finding(result)
    words = "; ".join(
        f"{each.name} ({each.calls}): "
        + ", ".join(
            f"{segment.payload_bytes} bytes at"
            f" {(segment.time_ns - each.played.start_ns) / 1e6:.1f} ms, {segment.reason}"
            for segment in each.segments()
        )
        for each in result.variants
    )
    return Picture(figure, title, f"Bars of waiting for each script. {words}.", table(result))


def _scenarios_finding(result: Scenarios) -> str:
    found = [(each, segment) for each in result.variants for segment in each.segments()]
    late = [each for each in found if each[1].reason is Reason.CORK_TIMEOUT]
    title = f"What {len(found)} segments of {len(result.variants)} scripts waited for"
    if not late:
        return f"{title}: none of them had to wait for the timer"
    scenario, segment = max(late, key=lambda each: each[1].waited_ms or 0)
    return (
        f"{title}: the longest wait, {style.ms(segment.waited_ms or 0)} in '{scenario.name}',"
        " ended with a timer"
    )


def _waits(axes: Axes, each: Scenario, row: int) -> list[float]:
    """One bar per segment, from the write of its first byte; when each left."""
    left_ms = []
    start_ns = each.played.start_ns
    segments = each.segments()
    for number, segment in enumerate(segments):
        end = (segment.time_ns - start_ns) / 1e6
        begin = end - (segment.waited_ms or 0)
        # Two segments of one script wait at the same time now and then.
        y = row + (number - (len(segments) - 1) / 2) * 0.36
        held = segment.held_by
        if held is not None and held.reason in HOLD_STYLES:
            look = HOLD_STYLES[held.reason]
            label = named_once(axes, look.name)
            axes.barh(y, end - begin, 0.3, left=begin, label=label, **look_of(look))
        mark = "D" if segment.reason is Reason.CORK_TIMEOUT else "o"
        colour = style.BLACK if mark == "D" else style.BLUE
        label = named_once(axes, "left by timer" if mark == "D" else "left")
        axes.plot(end, y, mark, color=colour, ms=10, ls="none", label=label, zorder=4)
        beside(axes, f"{segment.payload_bytes} bytes", end, y)
        left_ms.append(end)
    return left_ms
