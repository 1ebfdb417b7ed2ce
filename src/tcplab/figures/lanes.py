"""The timeline: application, kernel, wire and peer, lane below lane."""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tcplab.figures import style
from tcplab.figures.labels import Labels
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Line, Picture, Style, count, ms
from tcplab.figures.timescale import TimeScale
from tcplab.models import Reason
from tcplab.tables import Column, Table
from tcplab.timeline import Ack, Mark, Segment, Stretch, Timeline, Write
from tcplab.timeline.words import HELD_BY, writes_carried

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["View", "choose_message", "side_by_side", "timeline"]

T = TypeVar("T")

MAX_EVENTS: Final = 3000  # more arrows than pixels

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
_NOT_DRAWN: Final = ("wrote",)  # it would hide the beginning of the next write
_LEFT, _WIDTH = 0.118, 0.872


_Ends: TypeAlias = tuple[tuple[int, float], tuple[int, float]]  # time and height of both ends
_LINE_SPACING: Final = {1: 0.0, 2: 0.04, 3: 0.033}  # half of it, in a bar
MANY: Final = 4  # arrows alike in a row get one label
_CROWD: Final = 60  # so many arrows are hair lines
_SAME: Final = 0.004  # stretches so close, in shares of the width, look like one
_MARK_GAP: Final = 0.012  # from the middle of a mark to its name


def timeline(timeline: Timeline, first_message: int | None = None, messages: int = 1) -> Picture:
    """Draws what happened to some messages, lane by lane, on one time axis.

    The axis is stretched where much happens and shortened where nothing does; the strip below shows
    the same stretches of waiting to scale.

    Args:
        timeline: of tcplab.timeline.explain.
        first_message: number of the first message to draw, from 1. Unless given, a typical one: the
            message (of those after the first, which is special) whose time is the median.
        messages: how many to draw, from there on.

    Raises:
        ValueError: there is no such message, the timeline has no log, or too much happens in it.
    """
    view = View.of(timeline, first_message, messages)
    figure = style.new_figure()
    style.title(figure, view.finding())
    broken = view.scale.broken
    bottom = 0.185 if broken else 0.12
    axes = figure.add_axes((_LEFT, bottom, _WIDTH, 0.865 - bottom))
    _Painter(axes, view).paint()
    if broken:
        _to_scale(figure.add_axes((_LEFT, 0.03, _WIDTH, 0.035)), view)
    _footer(figure, view)
    return Picture(figure, view.finding(), view.alt(), view.table())


def choose_message(timeline: Timeline, messages: int = 1) -> int:
    """The first of so many messages in a row that are typical: their time is the median.

    The first message of a connection is left out where there are others: it is acknowledged at
    once (quickack mode), and meets the initial congestion window.
    """
    last = timeline.messages - messages + 1
    starts = list(range(min(2, last), last + 1))
    spans = timeline.message_spans_ns()
    times = [spans[first + messages - 1][1] - spans[first][0] for first in starts]
    return starts[times.index(statistics.median_low(times))]


# ---- what is in view -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """Some messages of a timeline, and the scale on which to draw them."""

    timeline: Timeline
    first: int
    last: int
    scale: TimeScale

    @classmethod
    def of(cls, timeline: Timeline, first: int | None, messages: int) -> View:
        """Some messages of it, a typical one unless `first` says which."""
        if not timeline.writes:
            raise ValueError("a timeline without the application's log has no messages to draw")
        if not 1 <= messages <= timeline.messages:
            raise ValueError(f"messages={messages} must be from 1 to {timeline.messages}")
        first = choose_message(timeline, messages) if first is None else first
        if not 1 <= first <= timeline.messages - messages + 1:
            raise ValueError(
                f"first_message={first} must be from 1 to {timeline.messages - messages + 1}"
            )
        chosen = timeline.only(range(first, first + messages))
        times = list(_times(chosen))
        if len(times) > MAX_EVENTS:
            raise ValueError(
                f"{len(times)} events are too many to draw (at most {MAX_EVENTS}); choose fewer"
                " messages, or draw figures.time_sequence"
            )
        return cls(chosen, first, first + messages - 1, TimeScale(times))

    def x(self, time_ns: float) -> float:
        """Its place on the time axis, 0 to 1."""
        return self.scale.x(time_ns)

    def ms(self, time_ns: int) -> float:
        """Since the first event in view."""
        return (time_ns - self.scale.start_ns) / 1e6

    def arrival_ns(self, segment: Segment) -> int:
        """When a segment came, or would have come, to the peer."""
        return _arrival_ns(self.timeline, segment)

    def departure_ns(self, ack: Ack) -> int:
        """When an ACK left the peer."""
        return _departure_ns(self.timeline, ack)

    @property
    def seen_at_peer(self) -> bool:
        """There was a capture at the peer."""
        return any(each.arrived_ns is not None for each in self.timeline.segments)

    def is_lost(self, segment: Segment) -> bool:
        """The capture at the peer has others, and not this one."""
        return segment.arrived_ns is None and self.seen_at_peer

    # -- words --

    @property
    def span_ms(self) -> float:
        """From the first write to the last reply."""
        spans = self.timeline.message_spans_ns()
        return (spans[self.last][1] - spans[self.first][0]) / 1e6

    def longest(self) -> Stretch | None:
        """The longest stretch of waiting that the sender is not to blame for itself."""
        stretches = [
            each for each in self.stretches() if each.reason is not Reason.APPLICATION_IDLE
        ]
        return max(stretches, key=lambda each: each.duration_ms, default=None)

    def stretches(self) -> list[Stretch]:
        """The stretches of waiting in view."""
        return [each for each in self.timeline.stretches() if each.end_ns > self.scale.start_ns]

    def waits(self) -> list[Stretch]:
        """The stretches of waiting in the sender, those that the eye cannot tell apart as one."""
        merged: list[Stretch] = []
        last: dict[tuple[Reason, str], int] = {}
        for each in self.stretches():
            if each.place == "wire" or each.reason is Reason.APPLICATION_IDLE:
                continue
            at = last.setdefault((each.reason, each.place), len(merged))
            if at < len(merged) and self.x(each.start_ns) - self.x(merged[at].end_ns) < _SAME:
                # How much waited is another number in each, and so is left out.
                merged[at] = replace(
                    merged[at], end_ns=max(each.end_ns, merged[at].end_ns), waiting_bytes=0
                )
            else:
                last[each.reason, each.place] = len(merged)
                merged.append(each)
        return merged

    def finding(self) -> str:
        """What one is to see, with the numbers."""
        writes, segments = self.timeline.writes, self.timeline.segments
        total = count(sum(write.bytes for write in writes), "byte")
        what = f"{count(len(writes), 'write')}, {total}, {count(len(segments), 'segment')}"
        if self.last > self.first:
            what = f"{self.last - self.first + 1} messages: {what}"
        what += f", {ms(self.span_ms)}"
        longest = self.longest()
        if longest is None:
            return f"{what}: nothing was held back"
        if longest.place == "wire":
            return self._queueing(what, longest)
        held = self._held_by(longest)
        if held is None:
            return what
        why = HELD_BY[longest.reason]
        size = count(longest.waiting_bytes or held.payload_bytes, "byte")
        if longest.reason is Reason.RETRANSMISSION:
            lost = "lost, " * any(self.is_lost(each) for each in self.timeline.segments)
            return f"{what}: {size} {lost}sent again after {ms(longest.duration_ms)}"
        if longest.duration_ms < 0.1 * self.span_ms:
            return f"{what}; {size} held for no more than {ms(longest.duration_ms)} {why}"
        until = self._until(held)
        return f"{what}: {size} held {ms(longest.duration_ms)} {why}{until}"

    def _queueing(self, what: str, stretch: Stretch) -> str:
        queued = [each.queued_ms or 0 for each in self.timeline.segments]
        if stretch.reason is Reason.RATE_LIMITED:
            return f"{what}: segments waited up to {ms(max(queued))} in the queue of the wire"
        return f"{what}: segments up to {ms(max(queued))} late in the wire"

    def _held_by(self, stretch: Stretch) -> Segment | None:
        """The segment that a stretch kept waiting for the longest time."""

        def waited_ns(segment: Segment) -> int:
            return sum(
                hold.end_ns - hold.start_ns
                for hold in segment.holds
                if hold.reason is stretch.reason
                and stretch.start_ns <= hold.start_ns
                and hold.end_ns <= stretch.end_ns
            )

        longest = max(self.timeline.segments, key=waited_ns, default=None)
        return longest if longest is not None and waited_ns(longest) > 0 else None

    def _until(self, held: Segment) -> str:
        if held.released_by is None or not held.released_by < len(self.timeline.acks):
            return ""
        ack = self.timeline.acks[held.released_by]
        if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
            return f", waiting for an ACK that the peer delayed {ms(ack.delay_ms)}"
        if held.holds[-1].reason is Reason.WINDOW_LIMITED and not ack.newly_acked_bytes:
            return ", until it opened"
        return ", waiting for an ACK"

    def alt(self) -> str:
        """The alternative text."""
        which = f"message {self.first}" + (
            f" to {self.last}" if self.last > self.first else f" of {self.timeline.connection}"
        )
        sizes = ", ".join(str(each.payload_bytes) for each in self.timeline.segments[:20])
        text = f"Timeline of {which}: {self.finding()}. The data segments carry {sizes} bytes"
        if len(self.timeline.segments) > 20:
            text += " and so on"
        longest = self.longest()
        if longest is not None and longest.evidence:
            text += f"; the longest wait: {longest.evidence}"
        return text + "."

    # -- numbers --

    def table(self) -> Table:
        """All events in view, in order of time."""
        columns = (
            Column("time_ms", "time (ms)", ".3f"),
            Column("who", "who"),
            Column("what", "what happens"),
            Column("bytes", "bytes", "d"),
            Column("waited_ms", "waited (ms)", ".3f"),
            Column("reason", "reason"),
        )
        rows = sorted(self._rows(), key=lambda row: row["time_ms"])
        return Table(columns, rows, self.finding())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for group in write_groups(self.timeline):
            names = f"write {group[0].in_message}"
            if len(group) > 1:
                until = ms(self.ms(group[-1].time_ns) - self.ms(group[0].time_ns))
                names = f"writes {group[0].in_message}–{group[-1].in_message}, within {until}"
            size = sum(write.bytes for write in group)
            yield self._row(group[0].time_ns, "application", names, size)
        for mark in self.timeline.marks:
            if mark.name in _NOT_DRAWN:
                continue
            yield self._row(mark.time_ns, "application", mark.name, mark.bytes or None)
        for each in self.timeline.segments:
            carried = writes_carried(self.timeline, each)
            what = f"data segment ({carried})" if carried else "data segment"
            row = self._row(each.time_ns, "wire", what, each.payload_bytes)
            yield row | {"waited_ms": each.waited_ms, "reason": str(each.reason)}
        for each_ack in self.timeline.acks:
            what = "ACK arrives" if not each_ack.payload_bytes else "data and ACK arrive"
            row = self._row(each_ack.time_ns, "wire", what, each_ack.payload_bytes or None)
            if each_ack.reason is Reason.ACK_DELAYED_BY_PEER:
                row |= {"waited_ms": each_ack.delay_ms, "reason": str(each_ack.reason)}
            yield row
        for mark in self.timeline.peer_marks:
            yield self._row(mark.time_ns, "peer", mark.name, mark.bytes or None)
        for stretch in self.stretches():
            what = "begins to wait: " + HOLD_STYLES[stretch.reason].name
            row = self._row(stretch.start_ns, "kernel", what, None)
            yield row | {"waited_ms": stretch.duration_ms, "reason": str(stretch.reason)}

    def _row(self, time_ns: int, who: str, what: str, size: int | None) -> dict[str, Any]:
        return {"time_ms": self.ms(time_ns), "who": who, "what": what, "bytes": size}


def _times(timeline: Timeline) -> Iterator[int]:
    for write in timeline.writes:
        yield write.time_ns
    for mark in timeline.marks:
        if mark.name not in _NOT_DRAWN:
            yield mark.time_ns
    for segment in timeline.segments:
        yield segment.time_ns
        yield _arrival_ns(timeline, segment)
    for ack in timeline.acks:
        yield ack.time_ns
        yield _departure_ns(timeline, ack)
    for mark in timeline.peer_marks:
        yield mark.time_ns


def _arrival_ns(timeline: Timeline, segment: Segment) -> int:
    """At the peer: seen there, or estimated as half a round trip later."""
    if segment.arrived_ns is not None:
        return segment.arrived_ns
    return segment.time_ns + int((timeline.rtt_ms or 0) * 5e5)


def _departure_ns(timeline: Timeline, ack: Ack) -> int:
    """From the peer: seen there, or estimated as half a round trip earlier."""
    if ack.sent_ns is not None:
        return ack.sent_ns
    return ack.time_ns - int((timeline.rtt_ms or 0) * 5e5)


def write_groups(timeline: Timeline) -> list[list[Write]]:
    """Writes that follow each other with no other event of the application between."""
    marks = [mark.time_ns for mark in timeline.marks if mark.name not in _NOT_DRAWN]
    groups: list[list[Write]] = []
    before = None
    for write in timeline.writes:
        between = before is not None and bisect.bisect_left(
            marks, before.time_ns
        ) < bisect.bisect_right(marks, write.time_ns)
        if before is None or between or write.message != before.message:
            groups.append([])
        groups[-1].append(write)
        before = write
    return groups


# ---- drawing -------------------------------------------------------------------------------------


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
        for piece in self.view.scale.pieces:
            if not piece.busy:
                axes.axvspan(piece.left, piece.right, color=style.PALE, lw=0, alpha=0.8, zorder=0)
        for name, (bottom, top) in _LANES.items():
            axes.plot([-0.13, 1], [bottom - 0.0075] * 2, color="#B0B0B0", lw=1, clip_on=False)
            middle = (bottom + top) / 2
            axes.text(-0.012, middle + 0.018, name, ha="right", fontsize=TEXT, fontweight="bold")
            axes.text(
                -0.012, middle - 0.035, _SUBTITLES[name], ha="right", fontsize=12, color=style.GREY
            )

    # -- lanes --

    def _application(self) -> None:
        bottom, top = _LANES["application"]
        y = bottom + 0.042
        for group in write_groups(self.timeline):
            xs = [self.view.x(write.time_ns) for write in group]
            self.axes.plot(xs, [y] * len(xs), "|", ms=24, mew=2.6, color=style.BLUE, zorder=4)
            self.labels.put(_group_label(group), (xs[0] + xs[-1]) / 2, [top - 0.025], style.BLUE)
        for mark in self.timeline.marks:
            if mark.name in _NOT_DRAWN:
                continue
            self._mark(mark, top - 0.085)

    def _mark(self, mark: Mark, y: float) -> None:
        x = self.view.x(mark.time_ns)
        shape, colour = {
            "cork": (">", style.PURPLE),
            "uncork": ("<", style.PURPLE),
        }.get(mark.name, ("v", style.GREEN))
        self.axes.plot([x], [y], shape, ms=11, color=colour, zorder=5, clip_on=False)
        name = {"reply": "reply read", "read": "read"}.get(mark.name, mark.name)
        self.labels.beside(name, x, [y, y + 0.06], colour, gap=_MARK_GAP)

    def _kernel(self) -> None:
        bottom, top = _LANES["kernel"]
        waits = self.view.waits()
        for stretch in self.view.stretches():
            if stretch.reason is Reason.APPLICATION_IDLE:
                self._idle(stretch, waits, bottom + 0.05)
        rows = side_by_side(waits)
        height = (top - bottom - 0.03) / len(rows) if rows else 0.0
        bars = [
            (stretch, top - 0.015 - (i + 1) * height)
            for i, row in enumerate(rows)
            for stretch in row
        ]
        # The longest first, for it has the first claim to a label.
        for stretch, low in sorted(bars, key=lambda bar: -bar[0].duration_ms):
            self._hold(stretch, low, height - 0.008)

    def _ends(self, stretch: Stretch) -> tuple[float, float]:
        return max(self.view.x(stretch.start_ns), 0.0), min(self.view.x(stretch.end_ns), 1.0)

    def _hold(self, stretch: Stretch, bottom: float, height: float) -> None:
        look = HOLD_STYLES[stretch.reason]
        left, right = self._ends(stretch)
        style.fill(self.axes, look, left, bottom, max(right - left, 0.003), height)
        waiting = f"{count(stretch.waiting_bytes, 'byte')} " if stretch.waiting_bytes else ""
        who, how_long = f"{waiting}{look.name}", ms(stretch.duration_ms)
        whole = f"{who} {how_long}"
        why = stretch.missing if stretch.reason is Reason.UNKNOWN else stretch.evidence
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

    def _idle(self, idle: Stretch, waits: Sequence[Stretch], y: float) -> None:
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
                name = f"{segment.payload_bytes} B" + " again" * again
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
        for stretch in self.view.stretches():
            if stretch.place != "wire":
                continue
            look = HOLD_STYLES[stretch.reason]
            left, right = self._ends(stretch)
            height = 0.05
            style.fill(self.axes, look, left, top - height - 0.008, right - left, height)
            known = stretch.reason is Reason.RATE_LIMITED
            what = look.name if known else "late in the wire"
            text = f"{what} up to {ms(self._longest_queue(stretch))}"
            middle = top - height / 2 - 0.008
            inside = self.labels.width(text) < right - left
            if not (inside and self.labels.on_bar([(text, middle, SMALL)], (left + right) / 2)):
                self.labels.put(text, right, [bottom + 0.03], "black", size=SMALL, box=True)

    def _longest_queue(self, stretch: Stretch) -> float:
        queued = (
            each.queued_ms or 0
            for each in self.timeline.segments
            if stretch.start_ns <= each.time_ns < stretch.end_ns
        )
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
        if many < MANY:
            return look, name
        return look._replace(width=1.4 if many < _CROWD else 0.6), ""

    def _many(self, run: Sequence[Segment] | Sequence[Ack], name: str, look: Line) -> None:
        """One label for many arrows alike."""
        if len(run) < MANY:
            return
        bottom, top = _LANES["wire"]
        ends = [time_ns for each in (run[0], run[-1]) for time_ns in self._both_ends(each)]
        x = statistics.mean(self.view.x(time_ns) for time_ns in ends)
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
            if len(marks) < MANY:
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
        for piece in self.view.scale.pieces:
            room = 0.062
            if piece.right - piece.left < 0.035:
                continue
            edge = 0.0 if piece.busy else 0.02
            for x, label in self.view.scale.ticks(piece, room):
                if not piece.left + edge <= x <= piece.right - edge:
                    continue  # on a break, where it would seem to belong to the other scale
                self.axes.plot([x, x], [-0.018, -0.0075], color="black", lw=1.2, clip_on=False)
                self.labels.tick(label, x, -0.028)
        if not self.view.scale.broken:
            self.axes.text(0.5, -0.12, "time (ms)", ha="center", fontsize=TEXT)
            return
        for piece in self.view.scale.pieces[1:]:
            for shift in (-0.003, 0.003):
                ends = [piece.left + shift - 0.003, piece.left + shift + 0.003]
                self.axes.plot(ends, [-0.026, 0.011], color="black", lw=1.6, clip_on=False)
        for piece in self.view.scale.pieces:
            self._extent(piece.left, piece.right, (piece.end_ns - piece.start_ns) / 1e6)
        self.axes.text(-0.03, -0.06, "time (ms)", ha="right", fontsize=SMALL)
        self.axes.text(-0.03, -0.125, "scale", ha="right", fontsize=12, color=style.GREY)

    def _extent(self, left: float, right: float, length_ms: float) -> None:
        """How long a piece of the axis is: the scales differ, and the eye must be told."""
        text = ms(length_ms)
        self.axes.annotate(
            "",
            xy=(right - 0.001, -0.1),
            xytext=(left + 0.001, -0.1),
            arrowprops={
                "arrowstyle": "<->",
                "color": style.GREY,
                "lw": 1.4,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            annotation_clip=False,
        )
        if self.labels.width(text, 12) < right - left + 0.01:
            self.axes.text(
                (left + right) / 2,
                -0.112,
                text,
                ha="center",
                va="top",
                fontsize=12,
                color=style.GREY,
                clip_on=False,
            )


def side_by_side(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """Rows of stretches: those that overlap are in different rows."""
    rows: list[list[Stretch]] = []
    for stretch in sorted(stretches, key=lambda each: each.start_ns):
        free = next((row for row in rows if row[-1].end_ns <= stretch.start_ns), None)
        if free is None:
            rows.append([stretch])
        else:
            free.append(stretch)
    return rows


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
    axes.set_xticks([])
    axes.set_yticks([])
    for stretch in view.stretches():
        if stretch.reason is Reason.APPLICATION_IDLE:
            continue
        left = max(stretch.start_ns - start, 0) / length
        right = (min(stretch.end_ns, end) - start) / length
        style.fill(axes, HOLD_STYLES[stretch.reason], left, 0, max(right - left, 0.0015), 1)
    axes.text(-0.012, 0.5, "to scale", ha="right", va="center", fontsize=SMALL)


def _footer(figure: Figure, view: View) -> None:
    timeline = view.timeline
    which = f"message {view.first}" + (f"–{view.last}" if view.last > view.first else "")
    parts = [which, timeline.connection, f"MSS {timeline.mss_bytes}"]
    if timeline.rtt_ms is not None:
        parts.append(f"RTT {ms(timeline.rtt_ms)}")
    if not view.seen_at_peer:
        parts.append("times at the peer: estimates")
    figure.text(0.99, 0.875, " · ".join(parts), ha="right", fontsize=11, color=style.GREY)
