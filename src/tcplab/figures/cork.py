"""Pictures of lesson 06: a message in several writes, and how long a cork holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.experiments.cork import Cork, Forgotten, Scenario, Scenarios
from tcplab.figures import style
from tcplab.figures.bars import beside, look_of, named_once, no_box
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Picture, Style
from tcplab.models import Reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cork_messages", "cork_scenarios", "forgotten_cork"]

_TIME: Final = Style(style.BLUE, "", "ms/message")
_COUNT: Final = Style(style.ORANGE, "//", "segments/message")
_CALLS: Final = Style(style.GREY, "..", "system calls/message")
_MANUAL_MS: Final = 200


def cork_messages(result: Cork) -> Picture:
    """Time, segments and system calls of a message, sent by each means.

    Raises:
        ValueError: nothing was measured.
    """
    rows = result.rows()
    if not rows:
        raise ValueError("there is no variant to draw")
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
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks([])
        axes.set_xlabel(label, fontsize=TEXT)
        no_box(axes)
        if look is _TIME:
            if max(values) > 20 * min(values):
                axes.set_xscale("log")
                axes.set_xlim(min(values) / 2, max(values) * 4)
                axes.set_xlabel(f"{label} (logarithmic)", fontsize=TEXT)
            else:
                axes.set_xlim(0, max(values) * 1.2)
            axes.set_yticks(range(len(rows)), [row["variant"] for row in rows], fontsize=TEXT)
        else:
            axes.set_xlim(0, max(values) * 1.3)
    by_name = {row["variant"]: row for row in rows}
    writes = result.writes_bytes
    title = f"{len(writes)} writes, {sum(writes):,} bytes, RTT {result.rtt_ms:g} ms: "
    title += "; ".join(
        f"{name} {_segments(by_name[name]['data_segments_per_message'])} and"
        f" {style.ms(by_name[name]['ms_per_message'])}"
        for name in ("default", "no_delay", "cork")
        if name in by_name
    )
    style.title(figure, title)
    words = "; ".join(
        f"{row['variant']}: {row['ms_per_message']:.3g} ms,"
        f" {_segments(row['data_segments_per_message'])} ({row['sizes']} bytes),"
        f" {row['calls_per_message']} system calls"
        for row in rows
    )
    return Picture(figure, title, f"Bars for each means of sending. {words}.", table(result))


def _segments(count: float) -> str:
    return f"{count:g} segment" if count == 1 else f"{count:g} segments"


def forgotten_cork(result: Forgotten) -> Picture:
    """How long a piece waits in a cork that nobody pulls, against the round-trip time.

    Raises:
        ValueError: nothing was measured.
    """
    if not result.variants:
        raise ValueError("there is no wait to draw")
    figure = style.new_figure()
    axes = figure.add_axes((0.085, 0.115, 0.895, 0.735))
    rows = result.rows()
    times = [row["rtt_ms"] for row in rows]
    look: dict[str, Any] = {"ms": 13, "mec": "white", "ls": "none", "zorder": 4}
    axes.plot(
        times, [row["cork_ms"] for row in rows], "s", color=style.PURPLE, label="TCP_CORK", **look
    )
    axes.plot(
        times, [row["more_ms"] for row in rows], "o", color=style.ORANGE, label="MSG_MORE", **look
    )
    model = [row["model_ms"] for row in rows]
    axes.plot(times, model, "-", color=style.BLACK, lw=2, label="model: retransmission timeout")
    axes.axhline(_MANUAL_MS, color=style.VERMILION, ls="--", lw=2.4, label="tcp(7): 200 ms")
    for row in rows:
        axes.annotate(
            f"{row['cork_ms']:.0f} ms",
            (row["rtt_ms"], row["cork_ms"]),
            xytext=(10, -24),
            textcoords="offset points",
            fontsize=SMALL,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_xlim(min(times) - 0.06 * max(times, default=1) - 1, 1.08 * max(times) + 1)
    axes.set_ylim(0, 1.35 * max(max(model), max(row["cork_ms"] for row in rows)))
    axes.set_xlabel("round-trip time of the wire (ms)", fontsize=TEXT)
    axes.set_ylabel("waited (ms)", fontsize=TEXT)
    axes.grid(color="#D8D8D8", lw=0.8)
    no_box(axes)
    axes.legend(loc="upper left", fontsize=SMALL, framealpha=0.95)
    title = (
        f"A forgotten cork holds for the retransmission timeout: {rows[0]['cork_ms']:.0f} ms at an"
        f" RTT of {times[0]:g} ms, {rows[-1]['cork_ms']:.0f} ms at {times[-1]:g} ms"
    )
    style.title(figure, title)
    words = "; ".join(
        f"RTT {row['rtt_ms']:g} ms: cork {row['cork_ms']:.0f} ms, MSG_MORE {row['more_ms']:.0f} ms,"
        f" model {row['model_ms']:.0f} ms"
        for row in rows
    )
    return Picture(figure, title, f"Waiting time against RTT. {words}.", table(result))


def cork_scenarios(result: Scenarios) -> Picture:
    """Of each script, how long each segment waited, for what, and when it left.

    Raises:
        ValueError: nothing was measured.
    """
    if not result.variants:
        raise ValueError("there is no script to draw")
    figure = style.new_figure()
    axes = figure.add_axes((0.29, 0.115, 0.695, 0.735))
    latest = 1.0
    for row, each in enumerate(result.variants):
        latest = max([latest, *_waits(axes, each, row)])
    axes.set_ylim(len(result.variants) - 0.4, -1.6)
    axes.set_yticks(range(len(result.variants)), [_wrapped(each) for each in result.variants])
    axes.set_xlim(-0.02 * latest, 1.14 * latest)
    axes.set_xlabel("ms after the first call", fontsize=TEXT)
    axes.grid(axis="x", color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    no_box(axes)
    axes.legend(loc="upper right", fontsize=SMALL, ncols=4, framealpha=0.95)
    title = _scenarios_finding(result)
    style.title(figure, title)
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
    """A bar a segment, from the write of its first byte; when each left."""
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
        name = "left by timer" if mark == "D" else "left"
        colour = style.BLACK if mark == "D" else style.BLUE
        label = named_once(axes, name)
        axes.plot(end, y, mark, color=colour, ms=10, ls="none", label=label, zorder=4)
        beside(axes, f"{segment.payload_bytes} bytes", end, y)
        left_ms.append(end)
    return left_ms


def _wrapped(each: Scenario) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(each.name, 30))
