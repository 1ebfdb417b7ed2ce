"""Lesson cork: a message in several writes, and the time that a cork holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.experiments.cork import Cork, Forgotten, Scenario, Scenarios
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import beside, named_once
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import HOLD_STYLES, Style
from tcplab.models import Reason
from tcplab.tables import count, ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cork_messages", "cork_scenarios", "forgotten_cork"]

_TIME: Final = Style(style.BLUE, "", "ms per message")
_COUNT: Final = Style(style.ORANGE, "//", "data segments per message")
_CALLS: Final = Style(style.GREY, "--", "system calls per message")
_MANUAL_MS: Final = 200


@drawn
def cork_messages(result: Cork) -> Picture:
    """The time, the segments and the system calls of a message, for each variant."""
    rows = some(result.rows())
    figure, panels = canvas.new_panels([2, 1, 1])
    keys = (
        (_TIME, "ms_per_message"),
        (_COUNT, "data_segments_per_message"),
        (_CALLS, "calls_per_message"),
    )
    for axes, (look, key) in zip(panels, keys, strict=True):
        values = [float(row[key]) for row in rows]
        names = [row["variant"] for row in rows]
        _measured(axes, look, values, names if look is _TIME else None)
    by_name = {row["variant"]: row for row in rows}
    writes = result.writes_bytes
    title = f"{len(writes)} writes, {sum(writes):,} bytes, RTT {result.rtt_ms:g} ms: "
    title += "; ".join(
        f"{name} {count(by_name[name]['data_segments_per_message'], 'segment')} and"
        f" {ms(by_name[name]['ms_per_message'])}"
        for name in ("default", "no_delay", "cork")
        if name in by_name
    )
    return Picture(figure, title, table(result))


def _measured(axes: Axes, look: Style, values: list[float], names: list[str] | None) -> None:
    """Bars; dots where the axis has to be logarithmic, for there a length would mean nothing."""
    is_log = look is _TIME and max(values) > 20 * min(values)
    words = [style.three(value) if look is _TIME else f"{value:g}" for value in values]
    for y, value in enumerate(values):
        if is_log:
            axes.plot(value, y, "o", ms=9, color=look.colour)
        else:
            bars.bar(axes, y, (look, value))
        beside(axes, words[y], value, y, mark=is_log)
    if names is None:
        axes.set(ylim=(len(values) - 0.5, -0.5), yticks=[])
    else:
        bars.name_rows(axes, names, characters=16)
    if is_log:
        axes.set(xscale="log", xlim=(min(values) / 2, max(values) * 5))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(axis="x")
    else:
        axes.set_xlim(0, max(values) * (1.25 if look is _TIME else 1.45))
        axes.locator_params(axis="x", integer=look is not _TIME)
    label = look.name if look is _TIME else look.name.replace(" per", "\nper")
    axes.set_xlabel(f"{label} (logarithmic)" if is_log else label)


@drawn
def forgotten_cork(result: Forgotten) -> Picture:
    """The time that a write waits in a cork that nobody pulls, against the round-trip time."""
    rows = some(result.rows())
    figure, axes = canvas.new_axes(grid="both")
    times = [row["rtt_ms"] for row in rows]
    look: dict[str, Any] = {"ms": 9, "mec": "white", "ls": "none", "zorder": 4}
    cork, more, model = ([row[f"{each}_ms"] for row in rows] for each in ("cork", "more", "model"))
    axes.plot(times, cork, "s", color=style.PURPLE, label="TCP_CORK", **look)
    axes.plot(times, more, "o", color=style.ORANGE, label="MSG_MORE", **look)
    axes.plot(times, model, "-", color="black", lw=1.6, label="model: retransmission timeout")
    axes.axhline(_MANUAL_MS, color=style.VERMILION, ls="--", label="tcp(7): 200 ms")
    place: dict[str, Any] = {"textcoords": "offset points", "zorder": 5}
    close = 0.08 * max(times)
    for before, x, one, other in zip([None, *times], times, cork, more, strict=False):
        at, colour = (x, max(one, other)), style.ink(style.PURPLE)
        above = 24 if before is not None and x - before < close else 8  # the label of its neighbour
        axes.annotate(f"{one:.0f} ms", at, (-3, above), ha="right", color=colour, **place)
        if abs(one - other) > 0.05 * max(cork):
            colour = style.ink(style.ORANGE)
            axes.annotate(f"{other:.0f} ms", (x, other), (8, -4), color=colour, **place)
    axes.set_xlim(min(times) - 0.14 * max(times) - 1, 1.1 * max(times) + 1)
    axes.set(ylim=(0, 1.18 * max(*model, *cork)), xlabel="round-trip time of the wire (ms)")
    axes.set_ylabel("waited (ms)")
    canvas.legend(figure)
    title = (
        f"A forgotten cork holds for the retransmission timeout: {cork[0]:.0f} ms at an RTT"
        f" of {times[0]:g} ms, {cork[-1]:.0f} ms at {times[-1]:g} ms"
    )
    return Picture(figure, title, table(result))


@drawn
def cork_scenarios(result: Scenarios) -> Picture:
    """The wait of each segment of each script, its reason, and when it left."""
    found = some(result.variants)
    figure, axes = canvas.new_axes(grid="x")
    latest = 1.0
    for row, each in enumerate(found):
        latest = max([latest, *_waits(axes, each, row)])
    names = [f"{row + 1} · {each.name}" for row, each in enumerate(found)]
    bars.name_rows(axes, names, characters=28)
    axes.set(xlim=(-0.02 * latest, 1.2 * latest), xlabel="ms after the first call")
    canvas.legend(figure)
    title = _scenarios_finding(result)
    return Picture(figure, title, table(result))


def _scenarios_finding(result: Scenarios) -> str:
    found = [(each, segment) for each in result.variants for segment in each.segments()]
    late = [each for each in found if each[1].reason is Reason.CORK_TIMEOUT]
    title = f"What {len(found)} segments of {len(result.variants)} scripts waited for"
    if not late:
        return f"{title}: none of them had to wait for the timer"
    scenario, segment = max(late, key=lambda each: each[1].waited_ms or 0)
    return (
        f"{title}: the longest wait, {ms(segment.waited_ms or 0)} in '{scenario.name}',"
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
            bars.bar(axes, y, (HOLD_STYLES[held.reason], end - begin), left=begin, thick=0.3)
        mark = "D" if segment.reason is Reason.CORK_TIMEOUT else "o"
        colour = style.BLACK if mark == "D" else style.BLUE
        label = named_once(axes, "left by timer" if mark == "D" else "left")
        axes.plot(end, y, mark, color=colour, ms=7, ls="none", label=label, zorder=4)
        beside(axes, f"{segment.payload_bytes} bytes", end, y, mark=True)
        left_ms.append(end)
    return left_ms
