"""Draw the data in flight over time, with the windows that limit it."""

from __future__ import annotations

import bisect
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tcplab.figures import canvas, style
from tcplab.figures.generic import named_once
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import HOLD_STYLES
from tcplab.models import Reason
from tcplab.tables import Column, Table, ms
from tcplab.timeline import Timeline
from tcplab.timeline.timeline import HELD_BY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The shortest wait that is shaded, as a share of the axis. A shorter one would be invisible.
_SHORTEST_SHARE: Final = 0.004
#: Waits for the same reason that are closer than this share of the axis form one band.
_GAP_SHARE: Final = 0.012
_HEADROOM: Final = 1.08
#: With more points than this, lines are thin.
_DENSE: Final = 3000


@drawn
def in_flight(timeline: Timeline, *, bdp_bytes: float | None = None) -> Picture:
    """Draw the unacknowledged data, and the windows that limit it.

    The congestion window comes from samples of TCP_INFO, if there are any, and the peer's window
    from its segments. `bdp_bytes`, the bytes that fill the path (rate × RTT), adds a line and makes
    the axis logarithmic.
    """
    curves = _Curves(timeline)
    flying, windows, cwnd = curves.in_flight(), curves.windows(), curves.congestion_windows()
    figure, axes = canvas.new_axes(grid="both")
    axes.set_xlim(-0.008 * curves.length_ms, 1.02 * curves.length_ms)
    axes.set(xlabel="time (ms)", ylabel="bytes in flight")
    _shade(axes, curves)
    steps(axes, flying, color=style.BLUE, ls="-", label="in flight")
    highest = most = max(value for _time, value in flying)
    if cwnd:
        steps(axes, cwnd, color=style.ORANGE, ls="--", label="congestion window")
        highest = max([highest, *(value for _time, value in cwnd)])
    if bdp_bytes is None:
        axes.set_ylim(0, 1.14 * highest)  # room for the label of the peer's window
    else:
        axes.axhline(bdp_bytes, color="black", ls=":", label="fills the path: rate × RTT")
        highest = most = max(highest, int(bdp_bytes), *(value for _time, value in windows))
        lowest = min((value for _time, value in flying if value), default=1)
        axes.set(yscale="log", ylim=(max(lowest, highest / 1000) / 1.5, 1.5 * highest))
    least = min((window for _time, window in windows), default=0)
    if least > _HEADROOM * most:
        text = f"the peer's window is never full: it is {least:,} bytes or more"
        look: dict[str, Any] = {"color": style.ink(style.PURPLE), "bbox": style.ON_WHITE}
        axes.text(0.01, 0.97, text, transform=axes.transAxes, va="top", zorder=6, **look)
    elif windows:  # a wide line, since the bytes in flight may follow it
        steps(axes, windows, color=style.PURPLE, lw=5, alpha=0.6, zorder=2, label="peer's window")
        closed = [time for time, window in windows if not window]
        look = {"ls": "", "marker": "v", "ms": 8, "mec": "white", "clip_on": False, "zorder": 5}
        if closed:
            axes.plot(closed, [0] * len(closed), color=style.BLACK, label="ACK: window 0", **look)
    _bytes_axis(axes)
    canvas.legend(figure)
    title = _finding(curves, flying, bdp_bytes)
    return Picture(figure, title, curves.table(title))


# ---- the curves ----------------------------------------------------------------------------------

Points = list[tuple[float, int]]  # time in ms, and value


class _Curves:
    """The curves of a timeline, with times in ms since the first event."""

    def __init__(self, timeline: Timeline) -> None:
        some(timeline.segments, "the timeline has no data segment to draw")
        self.timeline = timeline
        self.start_ns = timeline.start_ns
        self.end_ns = max(timeline.segments[-1].time_ns, self.start_ns + 1000)
        # The drawing ends when all data is acknowledged, because the connection may end much later.
        highest = max(segment.end for segment in timeline.segments)
        acks = [ack for ack in timeline.acks if ack.newly_acked_bytes]
        last = next((ack for ack in acks if ack.ack >= highest), acks[-1] if acks else None)
        if last is not None:
            self.end_ns = max(self.end_ns, last.time_ns)
        self.length_ms = self.ms(self.end_ns)

    def ms(self, time_ns: int) -> float:
        return (time_ns - self.start_ns) / 1e6

    def windows(self) -> Points:
        highest, points = -1, []
        for ack in self.timeline.acks:
            if ack.ack >= highest and self.start_ns <= ack.time_ns <= self.end_ns:
                highest = ack.ack
                points.append((self.ms(ack.time_ns), ack.window))
        return points

    def in_flight(self) -> Points:
        events: list[tuple[int, int, int]] = [
            (segment.time_ns, 0, segment.end) for segment in self.timeline.segments
        ]
        events += [(ack.time_ns, 1, ack.ack) for ack in self.timeline.acks]
        sent = acked = 0
        points: Points = [(0.0, 0)]
        for time_ns, kind, value in sorted(events):
            if kind == 0:
                sent = max(sent, value)
            else:
                acked = max(acked, value)
            if time_ns >= self.start_ns:
                points.append((self.ms(time_ns), max(sent - acked, 0)))
        return points

    def congestion_windows(self) -> Points:
        mss = self.timeline.mss_bytes
        if mss is None:
            return []
        return [
            (self.ms(int(sample["time_ns"])), int(sample["snd_cwnd"]) * mss)
            for sample in self.timeline.samples
            if self.start_ns <= int(sample["time_ns"]) <= self.end_ns
        ]

    def table(self, caption: str) -> Table:
        curves = {
            Column("in_flight_bytes", "in flight (bytes)", ",d"): self.in_flight(),
            Column("window_bytes", "peer's window (bytes)", ",d"): self.windows(),
            Column("cwnd_bytes", "congestion window (bytes)", ",d"): self.congestion_windows(),
        }
        rows = [
            {"time_ms": at, **{column.key: _value(curve, at) for column, curve in curves.items()}}
            for at in (self.length_ms * i / 20 for i in range(21))
        ]
        columns = (Column("time_ms", "time (ms)", ".1f"), *curves)
        return Table(columns, rows, caption)


def _value(points: Points, moment: float) -> int | None:
    # A nanosecond is added because moments are rounded.
    i = bisect.bisect_right(points, moment + 1e-6, key=lambda point: point[0])
    return points[i - 1][1] if i else None


# ---- the finding in words ------------------------------------------------------------------------


def _finding(curves: _Curves, flying: Points, bdp_bytes: float | None) -> str:
    highest = max(value for _time, value in flying)
    mss = curves.timeline.mss_bytes
    text = f"At most {highest:,} bytes in flight"
    if mss:
        text += f" ({highest / mss:.3g} segments of {mss})"
    windows = [*curves.windows(), (curves.length_ms, 1)]
    closed = sum(after - at for (at, window), (after, _) in pairwise(windows) if not window)
    if closed > curves.length_ms / 2:
        return f"The peer's window is 0 for {ms(closed)}, in which no data may leave"
    if bdp_bytes is not None:
        # The second half comes after the start-up phase.
        times = [curves.length_ms * i / 20 for i in range(10, 21)]
        settled = statistics.median_low(_value(flying, time) or 0 for time in times)
        text = f"{settled:,} bytes in flight most of the time, {bdp_bytes:,.0f} would fill the path"
    return text + _longest_wait(curves.timeline)


def _longest_wait(timeline: Timeline) -> str:
    waited = timeline.waited_ms("kernel", "application")
    waited.pop(Reason.APPLICATION_IDLE, None)
    if not waited:
        return ""
    reason = max(waited, key=lambda reason: waited[reason])
    return f", held {ms(waited[reason])} {HELD_BY[reason]}"


# ---- drawing -------------------------------------------------------------------------------------


def steps(axes: Axes, points: Points, **look: Any) -> None:
    """Draw a curve that keeps each value until the next point."""
    times = [time for time, _value in points]
    values = [value for _time, value in points]
    if len(points) > _DENSE:
        look["lw"] = 0.8
    axes.step(times, values, where="post", **{"zorder": 3} | look)


def _shade(axes: Axes, curves: _Curves) -> None:
    for reason, start_ms, end_ms in _bands(curves):
        look = HOLD_STYLES[reason]
        axes.axvspan(
            start_ms,
            end_ms,
            facecolor=style.pale(look.colour),
            edgecolor=style.FAINT,  # lighter than the curves
            hatch="" if end_ms - start_ms > curves.length_ms / 2 else look.hatch,
            lw=0,
            zorder=1,
            label=named_once(axes, look.name),
        )


def _bands(curves: _Curves) -> list[tuple[Reason, float, float]]:
    """Return the reason, start and end (in ms) of each long wait at the hosts."""
    bands: list[tuple[Reason, float, float]] = []
    for hold in sorted(curves.timeline.merged_holds(), key=lambda hold: hold.start_ns):
        if hold.where == "wire" or hold.reason is Reason.RETRANSMISSION:
            continue
        start, end = curves.ms(hold.start_ns), curves.ms(hold.end_ns)
        if end - start < _SHORTEST_SHARE * curves.length_ms:
            continue
        near = bands and start - bands[-1][2] < _GAP_SHARE * curves.length_ms
        if near and bands[-1][0] is hold.reason:
            _reason, start, before = bands.pop()
            end = max(end, before)
        bands.append((hold.reason, start, end))
    return bands


def _bytes_axis(axes: Axes) -> None:
    top = axes.get_ylim()[1]
    if axes.get_yscale() == "log":
        axes.yaxis.set_minor_formatter("")
    size, unit = (1e6, " MB") if top >= 2e6 else (1e3, " kB") if top >= 1e4 else (1, "")
    axes.yaxis.set_major_formatter(lambda value, _at: f"{value / size:g}{unit}" if value else "0")
