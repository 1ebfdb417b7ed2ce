"""Curves over time: sequence numbers as tcptrace draws them, and what is in flight."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.figures import style
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Picture, count, ms, rate
from tcplab.models import Reason
from tcplab.tables import Column, Table
from tcplab.timeline import Ack, Stretch, Timeline
from tcplab.timeline.words import WAITED_FOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["in_flight", "time_sequence"]

#: A wait shorter than this part of the whole is not shaded: nobody would see it.
_SHORTEST_SHARE: Final = 0.004
_AXES: Final = (0.085, 0.105, 0.9, 0.745)


def time_sequence(timeline: Timeline) -> Picture:
    """Which byte left when: a stroke a segment, the ACK line below, the window line above.

    The plot of tcptrace and of Wireshark's "Stevens/tcptrace" graph. The slope is the rate, the
    height between the ACK line and the strokes is what is in flight, and the window line is what
    the peer would take.

    Args:
        timeline: of tcplab.timeline.explain.

    Raises:
        ValueError: it has no data segment.
    """
    curves = _Curves(timeline)
    figure, axes = curves.start(_rate_finding(curves), "offset in the stream")
    _shade(axes, curves)
    for again in (False, True):
        some = [
            each for each in timeline.segments if (each.reason is Reason.RETRANSMISSION) is again
        ]
        if some:
            axes.vlines(
                [curves.ms(each.time_ns) for each in some],
                [each.offset for each in some],
                [each.end for each in some],
                color=style.VERMILION if again else style.BLUE,
                lw=4.5 if again else 2.6,
                label="sent again" if again else "segments",
                zorder=4,
            )
    resent = [each for each in timeline.segments if each.reason is Reason.RETRANSMISSION]
    middles = [(each.offset + each.end) / 2 for each in resent]
    times = [curves.ms(each.time_ns) for each in resent]
    axes.plot(times, middles, "D", ms=7, color=style.VERMILION, zorder=5)
    acks, windows = curves.acknowledged(), curves.window_ends()
    _steps(axes, acks, color=style.GREEN, ls="--", lw=2.2, label="acknowledged")
    _steps(axes, windows, color=style.PURPLE, ls="-.", lw=2.2, label="end of the peer's window")
    highest = max(each.end for each in timeline.segments)
    axes.set_ylim(-0.03 * highest, 1.35 * highest)
    _bytes_axis(axes)
    axes.legend(loc="lower right", fontsize=SMALL, framealpha=0.95, ncols=2)
    return Picture(figure, *_rate_finding(curves), curves.table())


def in_flight(timeline: Timeline) -> Picture:
    """How much was sent and not yet acknowledged, below the windows that bound it.

    The congestion window is drawn where TCP_INFO was sampled; the peer's window as it announced it.

    Args:
        timeline: of tcplab.timeline.explain.

    Raises:
        ValueError: it has no data segment.
    """
    curves = _Curves(timeline)
    flying = curves.in_flight()
    finding = _flight_finding(curves, flying)
    figure, axes = curves.start(finding, "bytes in flight")
    _shade(axes, curves)
    _steps(axes, flying, color=style.BLUE, ls="-", lw=2.6, label="in flight")
    highest = max(value for _time, value in flying)
    windows = curves.windows()
    if windows:
        _steps(axes, windows, color=style.PURPLE, ls="-.", lw=2.2, label="peer's window")
    cwnd = curves.congestion_windows()
    if cwnd:
        _steps(axes, cwnd, color=style.ORANGE, ls="--", lw=2.6, label="congestion window")
        highest = max([highest, *(value for _time, value in cwnd)])
    axes.set_ylim(0, 1.35 * highest)
    above = [value for _time, value in windows if value > 1.35 * highest]
    if windows and len(above) == len(windows):
        axes.text(
            0.01,
            0.97,
            f"the peer's window is above the picture: {min(above):,} bytes or more",
            transform=axes.transAxes,
            ha="left",
            va="top",
            fontsize=SMALL,
            color=style.PURPLE,
        )
    _bytes_axis(axes)
    axes.legend(loc="upper right", fontsize=SMALL, framealpha=0.95, ncols=2)
    return Picture(figure, *finding, curves.table())


# ---- the curves ----------------------------------------------------------------------------------

Points = list[tuple[float, int]]  # time in ms, value


class _Curves:
    """The numbers behind both pictures; times in ms since the first event."""

    def __init__(self, timeline: Timeline) -> None:
        if not timeline.segments:
            raise ValueError("the timeline has no data segment to draw")
        self.timeline = timeline
        self.start_ns = timeline.start_ns
        acks = [each.time_ns for each in timeline.acks if each.newly_acked_bytes]
        self.end_ns = max([timeline.segments[-1].time_ns, *acks[-1:], self.start_ns + 1000])

    def ms(self, time_ns: int) -> float:
        return (time_ns - self.start_ns) / 1e6

    def start(self, finding: tuple[str, str], ylabel: str) -> tuple[Figure, Axes]:
        """A figure with its title and empty axes."""
        figure = style.new_figure()
        style.title(figure, finding[0])
        axes = figure.add_axes(_AXES)
        axes.set_xlim(min(0.0, self.ms(self.start_ns)), 1.02 * self.ms(self.end_ns))
        axes.set_xlabel("time (ms)", fontsize=TEXT)
        axes.set_ylabel(ylabel, fontsize=TEXT)
        axes.tick_params(labelsize=SMALL)
        axes.grid(color="#D8D8D8", lw=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return figure, axes

    def acknowledged(self) -> Points:
        # The ACK of a FIN is one more than there are bytes.
        last = max(each.end for each in self.timeline.segments)
        return [(self.ms(each.time_ns), min(max(each.ack, 0), last)) for each in self._acks()]

    def window_ends(self) -> Points:
        return [(self.ms(each.time_ns), max(each.ack, 0) + each.window) for each in self._acks()]

    def windows(self) -> Points:
        return [(self.ms(each.time_ns), each.window) for each in self._acks()]

    def _acks(self) -> Iterator[Ack]:
        highest = -1
        for each in self.timeline.acks:
            if each.ack >= highest and each.time_ns >= self.start_ns:
                highest = each.ack
                yield each

    def in_flight(self) -> Points:
        """After each segment and each ACK."""
        events: list[tuple[int, int, int]] = [
            (each.time_ns, 0, each.end) for each in self.timeline.segments
        ]
        events += [(each.time_ns, 1, each.ack) for each in self.timeline.acks]
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
        """From the samples of TCP_INFO, in bytes."""
        mss = self.timeline.mss_bytes
        if mss is None:
            return []
        return [
            (self.ms(int(each["time_ns"])), int(each["snd_cwnd"]) * mss)
            for each in self.timeline.samples
            if self.start_ns <= int(each["time_ns"]) <= self.end_ns
        ]

    def table(self) -> Table:
        """The curves at some twenty moments of equal distance."""
        columns = (
            Column("time_ms", "time (ms)", ".1f"),
            Column("sent_bytes", "sent (bytes)", ",d"),
            Column("acked_bytes", "acknowledged (bytes)", ",d"),
            Column("in_flight_bytes", "in flight (bytes)", ",d"),
            Column("window_bytes", "peer's window (bytes)", ",d"),
            Column("cwnd_bytes", "congestion window (bytes)", ",d"),
        )
        sent: Points = []
        highest = 0
        for each in self.timeline.segments:
            highest = max(highest, each.end)
            sent.append((self.ms(each.time_ns), highest))
        curves: dict[str, Callable[[float], int | None]] = {
            "sent_bytes": _at(sent),
            "acked_bytes": _at(self.acknowledged()),
            "in_flight_bytes": _at(self.in_flight()),
            "window_bytes": _at(self.windows()),
            "cwnd_bytes": _at(self.congestion_windows()),
        }
        length = self.ms(self.end_ns)
        rows = [
            {"time_ms": moment, **{name: value(moment) for name, value in curves.items()}}
            for moment in (length * i / 20 for i in range(21))
        ]
        return Table(columns, rows, _rate_finding(self)[0])


def _at(points: Points) -> Callable[[float], int | None]:
    """The value of a step curve at a moment; None before its first point."""
    times = [time for time, _value in points]

    def value(moment: float) -> int | None:
        i = bisect.bisect_right(times, moment + 1e-6)  # a ns more, for what was rounded
        return points[i - 1][1] if i else None

    return value


# ---- what they show, in words --------------------------------------------------------------------


def _rate_finding(curves: _Curves) -> tuple[str, str]:
    timeline = curves.timeline
    highest = max(each.end for each in timeline.segments)
    length_ms = max(curves.ms(curves.end_ns), 1e-6)
    again = sum(each.reason is Reason.RETRANSMISSION for each in timeline.segments)
    title = f"{highest:,} bytes in {ms(length_ms)}: {rate(highest * 8 / length_ms)}"
    title += f", {count(again, 'segment')} sent again" if again else ", nothing was sent again"
    most = _most_waited(timeline)
    if most is not None:
        title += f"; waited longest for {WAITED_FOR[most[0]]} ({ms(most[1])})"
    alt = (
        f"Time-sequence plot of {timeline.connection}: {title}. The data left in"
        f" {count(len(timeline.segments), 'segment')}, the first at"
        f" {curves.ms(timeline.segments[0].time_ns):.3g} ms, the last at"
        f" {curves.ms(timeline.segments[-1].time_ns):.3g} ms."
    )
    return title, alt


def _flight_finding(curves: _Curves, flying: Points) -> tuple[str, str]:
    highest = max(value for _time, value in flying)
    mss = curves.timeline.mss_bytes
    text = f"At most {highest:,} bytes in flight"
    if mss:
        text += f" ({highest / mss:.3g} segments of {mss})"
    most = _most_waited(curves.timeline)
    if most is not None:
        text += f"; waited longest for {WAITED_FOR[most[0]]} ({ms(most[1])})"
    alt = f"Bytes in flight over time on {curves.timeline.connection}. {text}."
    cwnd = [value for _time, value in curves.congestion_windows()]
    if cwnd:
        alt += f" The congestion window went from {cwnd[0]:,} to {cwnd[-1]:,} bytes."
    return text, alt


def _most_waited(timeline: Timeline) -> tuple[Reason, float] | None:
    waited = timeline.waited_ms("kernel", "application")
    waited.pop(Reason.APPLICATION_IDLE, None)
    if not waited:
        return None
    reason = max(waited, key=lambda each: waited[each])
    return reason, waited[reason]


# ---- drawing -------------------------------------------------------------------------------------


def _steps(axes: Axes, points: Sequence[tuple[float, int]], **look: Any) -> None:
    times = [time for time, _value in points]
    values = [value for _time, value in points]
    axes.step(times, values, where="post", zorder=3, **look)


def _shade(axes: Axes, curves: _Curves) -> None:
    """The long waits as bands, each kind named once in the legend."""
    from matplotlib.colors import to_rgba

    named: set[Reason] = set()
    shortest = _SHORTEST_SHARE * (curves.end_ns - curves.start_ns)
    for stretch in _long_ones(curves.timeline.stretches(), shortest):
        look = HOLD_STYLES[stretch.reason]
        axes.axvspan(
            curves.ms(stretch.start_ns),
            curves.ms(stretch.end_ns),
            facecolor=to_rgba(look.colour, 0.12),
            edgecolor=to_rgba(look.colour, 0.5),
            hatch=look.hatch,
            lw=0,
            zorder=1,
            label=None if stretch.reason in named else look.name,
        )
        named.add(stretch.reason)


def _long_ones(stretches: Sequence[Stretch], shortest_ns: float) -> Iterator[Stretch]:
    for each in stretches:
        waits = each.place != "wire" and each.reason is not Reason.RETRANSMISSION
        if waits and each.end_ns - each.start_ns >= shortest_ns:
            yield each


def _bytes_axis(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _at: _thousands(value)))


def _thousands(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g} MB"
    return f"{value / 1e3:g} kB" if abs(value) >= 1e4 else f"{value:g}"
