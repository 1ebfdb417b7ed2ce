"""Select some messages of a timeline, and describe them by a title, a note and a table."""

from __future__ import annotations

import bisect
import functools
import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, cast

from tcplab.figures.style import HOLD_STYLES
from tcplab.figures.timescale import TimeScale
from tcplab.models import Reason
from tcplab.tables import Column, Table, count, ms
from tcplab.timeline import Ack, Hold, Mark, Segment, Timeline, Write
from tcplab.timeline.timeline import HELD_BY

MAX_EVENTS: Final = 3000  # more events than this could not be told apart
_NOT_DRAWN: Final = ("wrote",)  # these would hide the start of the next write
_SAME: Final = 0.004  # waits closer than this share of the width look like one wait
_COLUMNS: Final = (
    Column("time_ms", "time (ms)", ".3f"),
    Column("who", "place"),
    Column("what", "event"),
    Column("bytes", "bytes", "d"),
)


class LaneEvent(NamedTuple):
    """A mark of the figure, described by a sentence."""

    gid: str
    time_ns: int
    who: str
    what: str
    bytes: int


def choose_message(timeline: Timeline, messages: int = 1) -> int:
    """Return the number of the first of consecutive messages that take the median time.

    The first message of a connection is left out if enough others remain, because it is
    acknowledged immediately (quick-ACK mode) and has the initial congestion window.
    """
    last = timeline.messages - messages + 1
    starts = list(range(min(2, last), last + 1))
    spans = timeline.message_spans_ns()
    times = [spans[first + messages - 1][1] - spans[first][0] for first in starts]
    return starts[times.index(statistics.median_low(times))]


@dataclass(frozen=True)
class View:
    """Some messages of a timeline, and the time scale on which they are drawn."""

    timeline: Timeline  #: a timeline of these messages only
    first: int
    last: int

    @classmethod
    def of(cls, timeline: Timeline, first: int | None, messages: int) -> View:
        """Return a view of messages that begin with `first`, or of typical ones if it is None."""
        if not timeline.writes:
            raise ValueError("messages cannot be drawn without the application's log")
        if not 1 <= messages <= timeline.messages:
            raise ValueError(f"messages={messages} must be from 1 to {timeline.messages}")
        first = choose_message(timeline, messages) if first is None else first
        if not 1 <= first <= timeline.messages - messages + 1:
            raise ValueError(
                f"first_message={first} must be from 1 to {timeline.messages - messages + 1}"
            )
        return cls(timeline.only(range(first, first + messages)), first, first + messages - 1)

    @functools.cached_property
    def scale(self) -> TimeScale:
        times = list(self._times())
        if len(times) > MAX_EVENTS:
            raise ValueError(
                f"{len(times)} events are too many to draw (at most {MAX_EVENTS}); choose fewer"
                " messages, or draw figures.in_flight"
            )
        return TimeScale(times, self._travel_ns())

    def _travel_ns(self) -> float:
        ways = [self.arrival_ns(segment) - segment.time_ns for segment in self.timeline.segments]
        return statistics.median(ways) if ways else 0

    def _times(self) -> Iterator[int]:
        timeline = self.timeline
        yield from (write.time_ns for write in timeline.writes)
        yield from (mark.time_ns for mark in (*self.marks(), *timeline.peer_marks))
        for segment in timeline.segments:
            yield from (segment.time_ns, self.arrival_ns(segment))
        for ack in timeline.acks:
            yield from (ack.time_ns, self.departure_ns(ack))

    def x(self, time_ns: float) -> float:
        """Return the position of a time on the time axis, from 0 to 1."""
        return self.scale.x(time_ns)

    def ms(self, time_ns: int) -> float:
        """Return the time in ms since the first event in view."""
        return (time_ns - self.scale.start_ns) / 1e6

    def stretches(self) -> list[tuple[float, float, float, float]]:
        """Return the parts of the time axis, with the positions and times (in ms) of their ends."""
        parts = self.scale.parts
        return [(p.left, p.right, self.ms(p.start_ns), self.ms(p.end_ns)) for p in parts]

    def arrival_ns(self, segment: Segment) -> int:
        """Return when a segment reached the peer, as captured there or estimated from the RTT."""
        if segment.arrived_ns is not None:
            return segment.arrived_ns
        return segment.time_ns + int((self.timeline.rtt_ms or 0) * 5e5)

    def departure_ns(self, ack: Ack) -> int:
        """Return when an ACK left the peer, as captured there or estimated from the RTT."""
        if ack.sent_ns is not None:
            return ack.sent_ns
        return ack.time_ns - int((self.timeline.rtt_ms or 0) * 5e5)

    @property
    def seen_at_peer(self) -> bool:
        return any(segment.arrived_ns is not None for segment in self.timeline.segments)

    def is_lost(self, segment: Segment) -> bool:
        """Return whether the capture at the peer lacks this segment but has others."""
        return segment.arrived_ns is None and self.seen_at_peer

    # -- words --

    @property
    def span_ms(self) -> float:
        spans = self.timeline.message_spans_ns()
        return (spans[self.last][1] - spans[self.first][0]) / 1e6

    def marks(self) -> list[Mark]:
        """Return the events of the application in view, except writes and their ends."""
        return [mark for mark in self.timeline.marks if mark.name not in _NOT_DRAWN]

    def write_groups(self) -> list[list[Write]]:
        """Return the writes in groups, separated by messages and by the events in `marks`."""
        marks = [mark.time_ns for mark in self.marks()]

        def place(write: Write) -> tuple[int, int]:
            return write.message, bisect.bisect_right(marks, write.time_ns)

        return [list(group) for _place, group in itertools.groupby(self.timeline.writes, place)]

    def longest(self) -> Hold | None:
        """Return the longest wait that the sender's application did not cause, or None."""
        holds = [hold for hold in self.merged_holds() if hold.reason is not Reason.APPLICATION_IDLE]
        return max(holds, key=lambda hold: hold.duration_ms, default=None)

    def merged_holds(self) -> list[Hold]:
        """Return the holds in view, with adjacent ones merged."""
        return [hold for hold in self.timeline.merged_holds() if hold.end_ns > self.scale.start_ns]

    def waits(self) -> list[Hold]:
        """Return the waits of data in the sender, merging those that look like one wait."""
        merged: list[Hold] = []
        last: dict[tuple[Reason, str], int] = {}
        for hold in self.merged_holds():
            if hold.where == "wire" or hold.reason is Reason.APPLICATION_IDLE:
                continue
            at = last.setdefault((hold.reason, hold.where), len(merged))
            if at < len(merged) and self.x(hold.start_ns) - self.x(merged[at].end_ns) < _SAME:
                # Merged waits held different bytes, so their number is left out.
                merged[at] = replace(
                    merged[at], end_ns=max(hold.end_ns, merged[at].end_ns), waiting_bytes=0
                )
            else:
                last[hold.reason, hold.where] = len(merged)
                merged.append(hold)
        return merged

    def finding(self) -> str:
        """Return the title, which names the longest wait and its reason, if there is one."""
        longest = self.longest()
        if longest is None:
            unknown = any(segment.reason is Reason.UNKNOWN for segment in self.timeline.segments)
            return f"{self._amount()}, without the reasons" if unknown else "Nothing was held back"
        if longest.where == "wire":
            late = ms(self.longest_queue_ms)
            if longest.reason is Reason.RATE_LIMITED:
                return f"Segments waited up to {late} in the queue of the link"
            return f"Segments up to {late} late on the link"
        held = self._held_by(longest)
        if held is None:
            return self._amount()
        why = HELD_BY[longest.reason]
        size = count(longest.waiting_bytes or held.payload_bytes, "byte")
        if longest.reason is Reason.RETRANSMISSION:
            lost = "lost, " if any(map(self.is_lost, self.timeline.segments)) else ""
            return f"{size} {lost}sent again after {ms(longest.duration_ms)}"
        if longest.duration_ms < 0.1 * self.span_ms:
            return f"{size} held for no more than {ms(longest.duration_ms)} {why}"
        return f"{size} held {ms(longest.duration_ms)} {why}{self._until(held)}"

    def _amount(self) -> str:
        writes = self.timeline.writes
        total = count(sum(write.bytes for write in writes), "byte")
        segments = count(len(self.timeline.segments), "segment")
        return f"{count(len(writes), 'write')}, {total}, {segments}, {ms(self.span_ms)}"

    @property
    def longest_queue_ms(self) -> float:
        return max(segment.queued_ms or 0 for segment in self.timeline.segments)

    def _held_by(self, merged: Hold) -> Segment | None:
        """Return the segment that left at the end of a merged hold, or None."""
        for segment in self.timeline.segments:
            for hold in segment.holds:
                if hold.reason is merged.reason and hold.end_ns == merged.end_ns:
                    return segment
        return None

    def _until(self, held: Segment) -> str:
        if held.released_by is None or not held.released_by < len(self.timeline.acks):
            return ""
        ack = self.timeline.acks[held.released_by]
        if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
            return ", waiting for an ACK that the peer delays"
        if held.holds[-1].reason is Reason.WINDOW_LIMITED and not ack.newly_acked_bytes:
            return ", until it opened"
        return ", waiting for an ACK"

    def note(self) -> str:
        """Return a note about the whole drawing, with counts, connection, MSS and RTT."""
        timeline = self.timeline
        which = f"messages {self.first}–{self.last}" if self.last > self.first else ""
        which = which or f"message {self.first}"
        notes = [
            self._amount(),
            which,
            timeline.connection.replace("->", "→"),
            f"MSS {timeline.mss_bytes}",
        ]
        if timeline.rtt_ms is not None:
            notes.append(f"RTT {ms(timeline.rtt_ms)}")
        if not self.seen_at_peer:
            notes.append("times at the peer: estimates")
        return " · ".join(notes)

    def delayed_acks(self) -> list[tuple[int, Ack]]:
        """Return the delayed ACKs that released a segment, with their indices in the timeline."""
        late = Reason.ACK_DELAYED_BY_PEER
        causes = {segment.released_by for segment in self.timeline.segments}
        return [
            (i, ack)
            for i, ack in enumerate(self.timeline.acks)
            if i in causes and ack.reason is late and ack.delay_ms is not None
        ]

    def parts(self) -> dict[str, str]:
        """Map the gid of each mark of the figure to a sentence with time and reason."""
        return {
            event.gid: f"{self.ms(event.time_ns):.3f} ms: {event.what}" for event in self._events()
        }

    def table(self) -> Table:
        """Return a table of all marks of the figure, ordered by time."""
        rows = [
            {"time_ms": self.ms(time_ns), "who": who, "what": what, "bytes": size or None}
            for _gid, time_ns, who, what, size in self._events()
        ]
        rows.sort(key=lambda row: cast(float, row["time_ms"]))
        return Table(_COLUMNS, rows, self.finding())

    def _events(self) -> Iterator[LaneEvent]:
        for number, group in enumerate(self.write_groups()):
            start_ns, size = group[0].time_ns, sum(write.bytes for write in group)
            until = ms((group[-1].time_ns - start_ns) / 1e6)
            many = f"{len(group)} writes within {until}" if group[1:] else "a write"
            what = f"{many}, {count(size, 'byte')}"
            yield LaneEvent(f"writes-{number}", start_ns, "application", what, size)
        for number, mark in enumerate(self.marks()):
            yield LaneEvent(f"mark-{number}", mark.time_ns, "application", mark.name, mark.bytes)
        for number, hold in enumerate(self.waits()):
            yield self._wait(f"hold-{number}", hold)
        for number, hold in enumerate(self.merged_holds()):
            if hold.where == "wire":
                yield self._wait(f"queue-{number}", hold)
        for segment, why in zip(self.timeline.segments, self.timeline.sentences(), strict=False):
            gid, size = f"segment-{segment.number}", segment.payload_bytes
            yield LaneEvent(gid, segment.time_ns, "link", why, size)
        for number, ack in enumerate(self.timeline.acks):
            left_ns, size = self.departure_ns(ack), ack.payload_bytes
            yield LaneEvent(f"ack-{number}", left_ns, "link", self._ack(ack), size)
        for number, ack in self.delayed_acks():
            start_ns = self.departure_ns(ack) - int((ack.delay_ms or 0) * 1e6)
            what = f"the peer keeps back an {self._ack(ack)}"
            yield LaneEvent(f"delay-{number}", start_ns, "peer", what, 0)
        for number, mark in enumerate(self.timeline.peer_marks):
            what = f"{mark.name} {count(mark.bytes, 'byte')}"
            yield LaneEvent(f"peer-{number}", mark.time_ns, "peer", what, mark.bytes)

    def _wait(self, gid: str, hold: Hold) -> LaneEvent:
        size = f"{count(hold.waiting_bytes, 'byte')} " if hold.waiting_bytes else ""
        why = hold.missing if hold.reason is Reason.UNKNOWN else hold.evidence
        what = f"{size}{HOLD_STYLES[hold.reason].name} {ms(hold.duration_ms)}: {why}"
        return LaneEvent(gid, hold.start_ns, hold.where, what, hold.waiting_bytes)

    def _ack(self, ack: Ack) -> str:
        content = f"{count(ack.payload_bytes, 'byte')} and ACK" if ack.payload_bytes else "ACK"
        text = f"{content} of {count(ack.newly_acked_bytes, 'byte')}"
        if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
            text += f", {ms(ack.delay_ms)} late"
        return f"{text}: {ack.evidence}" if ack.evidence else text


def side_by_side(holds: Sequence[Hold]) -> list[list[Hold]]:
    """Return the holds in rows, so that the holds in a row do not overlap."""
    rows: list[list[Hold]] = []
    for hold in sorted(holds, key=lambda hold: hold.start_ns):
        free = next((row for row in rows if row[-1].end_ns <= hold.start_ns), None)
        if free is None:
            rows.append([hold])
        else:
            free.append(hold)
    return rows
