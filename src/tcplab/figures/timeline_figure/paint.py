"""The timeline as a figure: application, kernel, wire and peer, lane below lane."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tcplab.figures import style
from tcplab.figures.labels import Labels
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Line, Picture, Style, count, drawing, ms
from tcplab.figures.timeline_figure.view import View, side_by_side
from tcplab.models import Reason
from tcplab.timeline import Ack, Hold, Mark, Segment, Timeline, Write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["timeline"]

T = TypeVar("T")

# Bottom and top of each lane, in units of the axes' height.
_LANES: Final = {
    "application": (0.795, 1.0),
    "kernel": (0.56, 0.78),
    "wire": (0.24, 0.545),
    "peer": (0.0, 0.225),
}
_SUBTITLES: Final = {
    "application": "calls write()",
    "kernel": "queues, holds",
    "wire": "segments",
    "peer": "receives, ACKs",
}
_DELAYED_ACK: Final = Style(style.ORANGE, "...", "ACK delayed")
_SMALLEST: Final[dict[str, Any]] = {"fontsize": 12, "color": style.GREY}
_LEFT, _WIDTH = 0.118, 0.872

_Ends: TypeAlias = tuple[tuple[int, float], tuple[int, float]]  # time and height of both
_LINE_SPACING: Final = {1: 0.0, 2: 0.04, 3: 0.033}  # half of it, in a bar
_MANY: Final = 4  # as many arrows alike in a row get one label
_CROWD: Final = 60  # as many arrows are hair lines
_MARK_GAP: Final = 0.012  # from the middle of a mark to its name


@drawing()
def timeline(explained: Timeline, first_message: int | None = None, messages: int = 1) -> Picture:
    """Draws the events of some messages, lane by lane, on one time axis.

    The axis is stretched where much happens and shortened where nothing does; the strip below shows
    the same waits to scale.

    Args:
        explained: by tcplab.timeline.explain.
        first_message: number of the first message to draw, from 1. Unless given, a typical one: the
            message (of those after the first, which is special) whose time is the median.
        messages: number of messages to draw, from there on.

    Raises:
        ValueError: there is no such message, the timeline has no log, or too much happens in it.
    """
    view = View.of(explained, first_message, messages)
    figure = style.new_figure()
    broken = view.scale.broken
    bottom = 0.185 if broken else 0.12
    axes = figure.add_axes((_LEFT, bottom, _WIDTH, 0.865 - bottom))
    _Painter(axes, view).paint()
    if broken:
        _to_scale(figure.add_axes((_LEFT, 0.03, _WIDTH, 0.035)), view)
    _footer(figure, view)
    return Picture(figure, view.finding(), view.alt(), view.table())


class _Painter:
    """Draws a view into axes whose coordinates run from 0 to 1."""

    def __init__(self, axes: Axes, view: View) -> None:
        self.axes = axes
        self.view = view
        self.timeline = view.timeline
        self.labels = Labels(axes)
        self._named: set[Style] = set()  # kinds of bars that have a label by now

    def paint(self) -> None:
        self._background()
        self._kernel()
        self._peer()
        self._application()
        self._wire()
        self._time_axis()

    def _background(self) -> None:
        axes = self.axes
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")
        for part in self.view.scale.parts:
            if not part.busy:
                axes.axvspan(part.left, part.right, color=style.PALE, lw=0, alpha=0.8, zorder=0)
        for name, (bottom, top) in _LANES.items():
            axes.plot([-0.13, 1], [bottom - 0.0075] * 2, color="#B0B0B0", lw=1, clip_on=False)
            middle = (bottom + top) / 2
            axes.text(-0.012, middle + 0.018, name, ha="right", fontsize=TEXT, fontweight="bold")
            axes.text(-0.012, middle - 0.035, _SUBTITLES[name], ha="right", **_SMALLEST)

    # -- lanes --

    def _application(self) -> None:
        bottom, top = _LANES["application"]
        y = bottom + 0.042
        for group in self.view.write_groups():
            xs = [self.view.x(write.time_ns) for write in group]
            self.axes.plot(xs, [y] * len(xs), "|", ms=24, mew=2.6, color=style.BLUE, zorder=4)
            self.labels.put(_group_label(group), (xs[0] + xs[-1]) / 2, [top - 0.025], style.BLUE)
        for mark in self.view.marks():
            self._mark(mark, top - 0.085)

    def _mark(self, mark: Mark, y: float) -> None:
        x = self.view.x(mark.time_ns)
        shape, colour = {"cork": (">", style.PURPLE), "uncork": ("<", style.PURPLE)}.get(
            mark.name, ("v", style.GREEN)
        )
        self.axes.plot([x], [y], shape, ms=11, color=colour, zorder=5, clip_on=False)
        name = {"reply": "reply read", "read": "read"}.get(mark.name, mark.name)
        self.labels.beside(name, x, [y, y + 0.06], colour, gap=_MARK_GAP)

    def _kernel(self) -> None:
        bottom, top = _LANES["kernel"]
        waits = self.view.waits()
        for hold in self.view.merged_holds():
            if hold.reason is Reason.APPLICATION_IDLE:
                self._idle(hold, waits, bottom + 0.05)
        rows = side_by_side(waits)
        height = (top - bottom - 0.03) / len(rows) if rows else 0.0
        bars = [
            (hold, top - 0.015 - (i + 1) * height) for i, row in enumerate(rows) for hold in row
        ]
        # The longest first, for it has the first claim to a label.
        for hold, low in sorted(bars, key=lambda bar: -bar[0].duration_ms):
            self._hold(hold, low, height - 0.008)

    def _ends(self, hold: Hold) -> tuple[float, float]:
        return max(self.view.x(hold.start_ns), 0.0), min(self.view.x(hold.end_ns), 1.0)

    def _hold(self, hold: Hold, bottom: float, height: float) -> None:
        look = HOLD_STYLES[hold.reason]
        left, right = self._ends(hold)
        style.fill(self.axes, look, left, bottom, max(right - left, 0.003), height)
        waiting = f"{count(hold.waiting_bytes, 'byte')} " if hold.waiting_bytes else ""
        who, how_long = f"{waiting}{look.name}", ms(hold.duration_ms)
        whole = f"{who} {how_long}"
        why = hold.missing if hold.reason is Reason.UNKNOWN else hold.evidence
        choices: list[tuple[tuple[str, float], ...]] = [
            ((whole, TEXT), (why, SMALL)),
            ((whole, TEXT),),
            ((who, TEXT), (how_long, TEXT)),
            ((who, SMALL), (how_long, SMALL)),
            ((waiting.strip(), SMALL), (look.name, SMALL), (how_long, SMALL)),
        ]
        if look in self._named:  # then the hatch says what it is
            choices.append(((how_long, SMALL),))
        middle = bottom + height / 2
        labelled = self._inside(choices, (left, right), middle, height)
        if not labelled and look not in self._named:
            labelled = self.labels.beside(whole, right, [middle, bottom], "black")
        if labelled:
            self._named.add(look)

    def _inside(
        self,
        choices: Sequence[tuple[tuple[str, float], ...]],
        ends: tuple[float, float],
        y: float,
        height: float,
    ) -> bool:
        """Writes the first of the choices, each of some lines, that has room in a bar."""
        x, room = (ends[0] + ends[1]) / 2, ends[1] - ends[0] - 0.01
        for lines in choices:
            if max(self.labels.width(text, size, bold=size > SMALL) for text, size in lines) > room:
                continue
            if height < 0.06 * len(lines):
                continue
            placed = [
                (text, y + _LINE_SPACING[len(lines)] * (len(lines) - 1 - 2 * i), size)
                for i, (text, size) in enumerate(lines)
            ]
            if self.labels.on_bar(placed, x):
                return True
        return False

    def _idle(self, idle: Hold, waits: Sequence[Hold], y: float) -> None:
        """A dotted line where no bar is; what is sent again waits while nothing new does."""
        left, right = self._ends(idle)
        bars = sorted(self._ends(each) for each in waits)
        for bar in [*bars, (right, right)]:
            end = min(bar[0], right)
            if end > left:
                self._nothing_to_send(left, end, y)
            left = max(left, bar[1])

    def _nothing_to_send(self, left: float, right: float, y: float) -> None:
        self.axes.plot([left, right], [y, y], ls=":", lw=2, color=style.GREY, zorder=2)
        text = HOLD_STYLES[Reason.APPLICATION_IDLE].name
        if self.labels.width(text, SMALL) < right - left:
            self.labels.put(text, (left + right) / 2, [y + 0.035], style.GREY, size=SMALL)

    def _wire(self) -> None:
        bottom, top = _LANES["wire"]
        self._queue(bottom, top)
        rows = [top - 0.035, top - 0.085]
        kind = lambda each: (each.payload_bytes, each.message, each.reason)  # noqa: E731
        for segments in _runs(self.timeline.segments, kind):
            for segment in segments:
                ends = (segment.time_ns, top), (self.view.arrival_ns(segment), bottom)
                again = segment.reason is Reason.RETRANSMISSION
                look = style.SENT_AGAIN if again else style.SENT
                name = f"{segment.payload_bytes} B again" if again else f"{segment.payload_bytes} B"
                if self.view.is_lost(segment):
                    ends = self._lost(ends)
                self._arrow(*ends, *self._thinned(look, name, len(segments)), rows)
            self._many(segments, f"{segments[0].payload_bytes} B", style.SENT)
        rows = [bottom + 0.03, bottom + 0.08, bottom + 0.13]
        for acks in _runs(self.timeline.acks, lambda each: each.payload_bytes):
            size = acks[0].payload_bytes
            name, look = (f"{size} B + ACK", style.REPLY) if size else ("ACK", style.ACK)
            for ack in acks:
                ends = (self.view.departure_ns(ack), bottom), (ack.time_ns, top)
                self._arrow(*ends, *self._thinned(look, name, len(acks)), rows)
            self._many(acks, name, look)

    def _queue(self, bottom: float, top: float) -> None:
        """Where segments waited in the wire: a band behind their arrows."""
        for hold in self.view.merged_holds():
            if hold.where != "wire":
                continue
            look = HOLD_STYLES[hold.reason]
            left, right = self._ends(hold)
            height = 0.05
            style.fill(self.axes, look, left, top - height - 0.008, right - left, height)
            known = hold.reason is Reason.RATE_LIMITED
            what = look.name if known else "late in the wire"
            text = f"{what} up to {ms(self._longest_queue(hold))}"
            middle = top - height / 2 - 0.008
            inside = self.labels.width(text) < right - left
            if not (inside and self.labels.on_bar([(text, middle, SMALL)], (left + right) / 2)):
                self.labels.put(text, right, [bottom + 0.03], "black", size=SMALL, box=True)

    def _longest_queue(self, hold: Hold) -> float:
        times = range(hold.start_ns, hold.end_ns)
        queued = (each.queued_ms or 0 for each in self.timeline.segments if each.time_ns in times)
        return max(queued, default=0.0)

    def _lost(self, ends: _Ends) -> _Ends:
        """The arrow of a segment that did not arrive ends half-way, with a cross."""
        (start_ns, start), (end_ns, end) = ends
        halfway = (start_ns + end_ns) // 2, (start + end) / 2
        x = self.view.x(start_ns) + (self.view.x(end_ns) - self.view.x(start_ns)) / 2
        self.axes.plot([x], [halfway[1]], "x", ms=16, mew=4, color=style.BLACK, zorder=7)
        self.labels.beside("lost", x + 0.008, [halfway[1]], style.BLACK)
        return ends[0], (halfway[0], halfway[1])

    def _thinned(self, look: Line, name: str, many: int) -> tuple[Line, str]:
        """Arrows alike in a row are thin, and have one label together."""
        if many < _MANY:
            return look, name
        return look._replace(width=1.4 if many < _CROWD else 0.6), ""

    def _many(self, run: Sequence[Segment] | Sequence[Ack], name: str, look: Line) -> None:
        """One label for many arrows alike."""
        if len(run) < _MANY:
            return
        bottom, top = _LANES["wire"]
        ends = [time_ns for each in (run[0], run[-1]) for time_ns in self._both_ends(each)]
        x = statistics.mean(map(self.view.x, ends))
        rows = [(bottom + top) / 2 + shift for shift in (0.0, 0.06, -0.06, 0.11, -0.11)]
        self.labels.put(f"{len(run)} × {name}", x, rows, look.colour, size=TEXT, box=True)

    def _both_ends(self, each: Segment | Ack) -> tuple[int, int]:
        if isinstance(each, Segment):
            return each.time_ns, self.view.arrival_ns(each)
        return self.view.departure_ns(each), each.time_ns

    def _arrow(
        self,
        start: tuple[int, float],
        end: tuple[int, float],
        look: Line,
        name: str,
        rows: Sequence[float],
    ) -> None:
        x0, x1 = self.view.x(start[0]), self.view.x(end[0])
        style.arrow(self.axes, (x0, start[1]), (x1, end[1]), look)
        if name:
            share = (rows[0] - start[1]) / (end[1] - start[1])
            self.labels.beside(name, x0 + share * (x1 - x0), rows, look.colour)

    def _peer(self) -> None:
        bottom, top = _LANES["peer"]
        for ack in self.timeline.acks:
            if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
                self._delayed_ack(ack, bottom, top)
        for marks in _runs(self.timeline.peer_marks, lambda each: (each.name, each.bytes)):
            xs = [self.view.x(mark.time_ns) for mark in marks]
            shape = "^" if marks[0].name == "read" else "s"
            y = [bottom + 0.045] * len(xs)
            self.axes.plot(xs, y, shape, ms=11, ls="", color=style.GREEN, zorder=5)
            text = f"{marks[0].name} {marks[0].bytes} B"
            rows = [bottom + 0.045, bottom + 0.1, bottom + 0.15]
            if len(marks) < _MANY:
                for x in xs:
                    self.labels.beside(text, x, rows, style.GREEN, gap=_MARK_GAP)
            else:
                self.labels.put(f"{len(marks)} × {text}", sum(xs) / len(xs), rows[1:], style.GREEN)

    def _delayed_ack(self, ack: Ack, bottom: float, top: float) -> None:
        assert ack.delay_ms is not None
        left_ns = self.view.departure_ns(ack)
        left, right = self.view.x(left_ns - ack.delay_ms * 1e6), self.view.x(left_ns)
        height = top - bottom - 0.09
        style.fill(self.axes, _DELAYED_ACK, left, bottom + 0.08, right - left, height)
        middle = bottom + 0.08 + height / 2
        text = f"ACK delayed {ms(ack.delay_ms)}"
        choices = [((text, TEXT),), ((text, SMALL),)]
        if _DELAYED_ACK in self._named:  # then the hatch says what it is
            choices.append(((ms(ack.delay_ms), SMALL),))
        labelled = self._inside(choices, (left, right), middle, height)
        if not labelled and _DELAYED_ACK not in self._named:
            labelled = self.labels.put(
                text, (left + right) / 2, [middle], "black", size=SMALL, box=True
            )
        if labelled:
            self._named.add(_DELAYED_ACK)

    # -- the axis --

    def _time_axis(self) -> None:
        for part in self.view.scale.parts:
            if part.right - part.left < 0.035:
                continue
            edge = 0.0 if part.busy else 0.02
            for x, label in self.view.scale.ticks(part, room=0.062):
                if not part.left + edge <= x <= part.right - edge:
                    continue  # on a break, where it would seem to belong to the other scale
                self.axes.plot([x, x], [-0.018, -0.0075], color="black", lw=1.2, clip_on=False)
                self.labels.tick(label, x, -0.028)
        if not self.view.scale.broken:
            self.axes.text(0.5, -0.12, "time (ms)", ha="center", fontsize=TEXT)
            return
        for part in self.view.scale.parts[1:]:
            for shift in (-0.003, 0.003):
                ends = [part.left + shift - 0.003, part.left + shift + 0.003]
                self.axes.plot(ends, [-0.026, 0.011], color="black", lw=1.6, clip_on=False)
        for part in self.view.scale.parts:
            # The scales differ, and the reader must know.
            text = ms((part.end_ns - part.start_ns) / 1e6)
            style.extent(self.axes, part.left + 0.001, part.right - 0.001, -0.1, style.GREY)
            if self.labels.width(text, 12) < part.right - part.left + 0.01:
                at = (part.left + part.right) / 2, -0.112
                self.axes.text(*at, text, ha="center", va="top", **_SMALLEST)
        self.axes.text(-0.03, -0.06, "time (ms)", ha="right")
        self.axes.text(-0.03, -0.125, "scale", ha="right", **_SMALLEST)


def _runs(events: Sequence[T], kind: Callable[[T], object]) -> list[list[T]]:
    """Events of one kind that follow each other."""
    return [list(group) for _kind, group in itertools.groupby(events, kind)]


def _group_label(group: Sequence[Write]) -> str:
    sizes = {write.bytes for write in group}
    if len(group) == 1:
        return f"write {group[0].bytes} B"
    if len(sizes) == 1:
        return f"{len(group)} × write {group[0].bytes} B"
    return f"{len(group)} writes, {sum(write.bytes for write in group)} B"


def _to_scale(axes: Axes, view: View) -> None:
    """One thin bar in which a millisecond is a millisecond everywhere."""
    start, end = view.scale.start_ns, view.scale.end_ns
    length = max(end - start, 1)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    for hold in view.merged_holds():
        if hold.reason is Reason.APPLICATION_IDLE:
            continue
        left = max(hold.start_ns - start, 0) / length
        right = (min(hold.end_ns, end) - start) / length
        style.fill(axes, HOLD_STYLES[hold.reason], left, 0, max(right - left, 0.0015), 1)
    axes.text(-0.012, 0.5, "to scale", ha="right", va="center")


def _footer(figure: Figure, view: View) -> None:
    timeline = view.timeline
    which = f"message {view.first}" + (f"–{view.last}" if view.last > view.first else "")
    parts = [which, timeline.connection, f"MSS {timeline.mss_bytes}"]
    if timeline.rtt_ms is not None:
        parts.append(f"RTT {ms(timeline.rtt_ms)}")
    if not view.seen_at_peer:
        parts.append("times at the peer: estimates")
    figure.text(0.99, 0.875, " · ".join(parts), ha="right", fontsize=11, color=style.GREY)
