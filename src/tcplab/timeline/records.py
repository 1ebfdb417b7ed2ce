"""What a timeline is made of: writes, segments, stretches of waiting, acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tcplab.models import Reason
from tcplab.tables import Column, Table

__all__ = [
    "ENDS_MESSAGE",
    "WAITING",
    "Ack",
    "Hold",
    "Mark",
    "Segment",
    "Stretch",
    "Timeline",
    "Write",
]

#: Reasons for which the sender, or the wire, keeps bytes waiting.
WAITING: Final = (
    Reason.HELD_BY_NAGLE,
    Reason.CORKED,
    Reason.MSG_MORE,
    Reason.AUTOCORKED,
    Reason.WINDOW_LIMITED,
    Reason.CWND_LIMITED,
    Reason.SNDBUF_LIMITED,
    Reason.RETRANSMISSION,
    Reason.RATE_LIMITED,
    Reason.APPLICATION_IDLE,
    Reason.UNKNOWN,
)


#: Events of an application that had to wait for the peer before it could write on.
ENDS_MESSAGE: Final = ("reply", "read", "acknowledged")


@dataclass(frozen=True, slots=True)
class Write:
    """One call with which the application handed bytes to TCP.

    Attributes:
        number: 1 for the first of the log.
        message: number of its message, from 1; a reply that was read ends a message, and so does
            the ACK that an application awaits.
        in_message: 1 for the first of its message.
        time_ns: when the call began.
        offset: of its first byte in the stream; the first byte of the connection is 0.
        bytes: how many.
        more: with MSG_MORE.
    """

    number: int
    message: int
    in_message: int
    time_ns: int
    offset: int
    bytes: int
    more: bool = False

    @property
    def end(self) -> int:
        """Offset of the byte after its last."""
        return self.offset + self.bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """What else an application did: "cork", "uncork", "nodelay", "read", "reply", ...

    Attributes:
        time_ns: when, as its log has it.
        name: what.
        bytes: how many, 0 for an option.
        message: number of the message in which it happened.
    """

    time_ns: int
    name: str
    bytes: int
    message: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A stretch of time in which something waited, and why.

    Attributes:
        start_ns: when it began.
        end_ns: when it ended; the end of the record if it had not ended by then.
        reason: of WAITING.
        evidence: what in the record shows it.
        missing: with the reason unknown, what would have told it; else "".
        waiting_bytes: how much was waiting at its end.
        ended: False if it lasted to the end of the record.
        place: "kernel" (bytes waited in the sender's queue, or to be sent again), "application"
            (they were not handed over yet), or "wire" (they were under way).
    """

    start_ns: int
    end_ns: int
    reason: Reason
    evidence: str
    missing: str = ""
    waiting_bytes: int = 0
    ended: bool = True
    place: str = "kernel"

    @property
    def duration_ms(self) -> float:
        """How long it lasted."""
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True, slots=True)
class Stretch:
    """Holds for one reason that follow each other without a gap.

    Attributes:
        start_ns: when the first began.
        end_ns: when the last ended.
        reason: of all of them.
        evidence: of the last.
        missing: of the last.
        waiting_bytes: of the last.
        place: of all of them.
        holds: how many.
    """

    start_ns: int
    end_ns: int
    reason: Reason
    evidence: str
    missing: str
    waiting_bytes: int
    place: str
    holds: int

    @property
    def duration_ms(self) -> float:
        """From the start of the first to the end of the last."""
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True, slots=True)
class Ack:
    """A segment from the peer that acknowledges; it may carry data of its own.

    Attributes:
        time_ns: when it came to the sender's interface.
        ack: offset of the next byte that the peer expects.
        newly_acked_bytes: how many bytes it is the first to acknowledge.
        window: how many bytes beyond `ack` the peer has room for.
        payload_bytes: of the peer's own data; 0 for a pure ACK.
        reason: ack-delayed-by-peer, sent-at-once, or unknown; None if it acknowledges nothing new.
        delay_ms: from the arrival of the oldest newly acknowledged byte at the peer to the ACK's
            departure there; None if it cannot be told.
        evidence: what shows the delay.
        missing: with the reason unknown, what would have told it; else "".
        sent_ns: when it left the peer; None without a capture there.
    """

    time_ns: int
    ack: int
    newly_acked_bytes: int
    window: int
    payload_bytes: int
    reason: Reason | None = None
    delay_ms: float | None = None
    evidence: str = ""
    missing: str = ""
    sent_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A data segment as it left the sender, and why it left just then.

    Attributes:
        number: 1 for the first.
        packet: its index in the capture.
        time_ns: when it left.
        offset: of its first byte in the stream.
        payload_bytes: data in it.
        gso_count: how many segments of at most one MSS it is on the wire.
        reason: why it left when it did.
        evidence: what in the record shows it.
        missing: with the reason unknown, what would have told it; else "".
        message: number of the message of its first byte, 0 without a log.
        writes: numbers of the writes whose bytes it carries, in the whole log.
        waited_ms: since the write of its first byte began; None without a log.
        holds: what it had to wait for, in order.
        released_by: index in `Timeline.acks` of the ACK that let it go, or None.
        push: the PSH flag.
        arrived_ns: when it came to the peer; None without a capture there, or if it was lost.
        acked_ns: when the sender first saw its last byte acknowledged; None if never.
        queued_ms: how much longer it took through the wire than the fastest; None without a capture
            at the peer.
    """

    number: int
    packet: int
    time_ns: int
    offset: int
    payload_bytes: int
    gso_count: int
    reason: Reason
    evidence: str
    missing: str = ""
    message: int = 0
    writes: tuple[int, ...] = ()
    waited_ms: float | None = None
    holds: tuple[Hold, ...] = ()
    released_by: int | None = None
    push: bool = False
    arrived_ns: int | None = None
    acked_ns: int | None = None
    queued_ms: float | None = None

    @property
    def end(self) -> int:
        """Offset of the byte after its last."""
        return self.offset + self.payload_bytes

    @property
    def held_by(self) -> Hold | None:
        """The longest of its holds."""
        return max(self.holds, key=lambda hold: hold.duration_ms, default=None)


_COLUMNS: Final = (
    Column("message", "message", "d"),
    Column("segment", "segment", "d"),
    Column("time_ms", "left at (ms)", ".3f"),
    Column("bytes", "bytes", "d"),
    Column("writes", "writes"),
    Column("waited_ms", "waited (ms)", ".3f"),
    Column("held_by", "held by"),
    Column("reason", "left because"),
    Column("evidence", "evidence"),
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """From write() to wire, on one clock (CLOCK_REALTIME in ns).

    Attributes:
        connection: the ends, "10.0.0.1:40000 -> 10.0.0.2:5001"; the sender comes first.
        mss_bytes: the largest payload of one segment, at the end; None if nothing tells it.
        rtt_ms: smallest round-trip time seen, None if there was none.
        nodelay: TCP_NODELAY at the start, None if nothing tells it.
        writes: the sender's calls, in order; empty without a log.
        marks: what else the sender's application did.
        segments: the sender's data segments, in order of their departure.
        acks: the peer's segments, in order of their arrival.
        holds: each stretch of waiting, in order of its start.
        peer_marks: what the peer's application did, if its log was given.
        missing: what was not given, and what it would have told.
    """

    connection: str
    mss_bytes: int | None
    rtt_ms: float | None
    nodelay: bool | None
    writes: Sequence[Write]
    marks: Sequence[Mark]
    segments: Sequence[Segment]
    acks: Sequence[Ack]
    holds: Sequence[Hold]
    peer_marks: Sequence[Mark] = ()
    missing: Sequence[str] = ()
    samples: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @property
    def start_ns(self) -> int:
        """The first event of the application; without a log, the first packet."""
        calls = [each.time_ns for each in self.writes[:1]]
        calls += [each.time_ns for each in self.marks[:1]]
        packets = [each.time_ns for each in self.segments[:1]]
        packets += [] if packets else [each.time_ns for each in self.acks[:1]]
        return min(calls or packets, default=0)

    @property
    def messages(self) -> int:
        """How many messages the sender's application wrote."""
        return self.writes[-1].message if self.writes else 0

    def message_spans_ns(self) -> dict[int, tuple[int, int]]:
        """Of each message, from its first write to the reply that ended it, or its last ACK."""
        spans: dict[int, tuple[int, int]] = {}

        def widen(message: int, time_ns: int) -> None:
            start, end = spans.get(message, (time_ns, time_ns))
            spans[message] = min(start, time_ns), max(end, time_ns)

        for write in self.writes:
            widen(write.message, write.time_ns)
        answered = set()
        for mark in self.marks:
            if mark.message in spans:
                widen(mark.message, mark.time_ns)
            if mark.name in ENDS_MESSAGE:
                answered.add(mark.message)
        for segment in self.segments:
            if segment.message in spans:
                widen(segment.message, segment.time_ns)
                if segment.message not in answered and segment.acked_ns is not None:
                    widen(segment.message, segment.acked_ns)
        return spans

    def message_span_ns(self, message: int) -> tuple[int, int]:
        """The span of one message.

        Raises:
            ValueError: there is no such message.
        """
        if not 1 <= message <= self.messages:
            raise ValueError(f"message={message} is not among 1 to {self.messages}")
        return self.message_spans_ns()[message]

    def only(self, messages: Iterable[int]) -> Timeline:
        """The same timeline with only what belongs to some of its messages."""
        from dataclasses import replace

        chosen = set(messages)
        known = self.message_spans_ns()
        if missing := chosen - set(known):
            raise ValueError(f"message={min(missing)} is not among 1 to {self.messages}")
        spans = [known[message] for message in sorted(chosen)]
        start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        # The index of the ACK that released a segment must stay true.
        acks = [each for each in self.acks if start <= each.time_ns <= end]
        first = next((i for i, each in enumerate(self.acks) if each.time_ns >= start), 0)
        segments = [
            replace(
                each, released_by=None if each.released_by is None else each.released_by - first
            )
            for each in self.segments
            if each.message in chosen
        ]
        return replace(
            self,
            writes=[each for each in self.writes if each.message in chosen],
            marks=[each for each in self.marks if each.message in chosen],
            segments=segments,
            acks=acks,
            holds=[each for each in self.holds if each.end_ns > start and each.start_ns < end],
            peer_marks=[each for each in self.peer_marks if start <= each.time_ns <= end],
        )

    def stretches(self) -> list[Stretch]:
        """The holds, those for the same reason that follow each other without a gap as one."""
        result: list[Stretch] = []
        open_at: dict[tuple[int, Reason, str], int] = {}  # end, reason, place -> index in result
        for hold in self.holds:
            at = open_at.pop((hold.start_ns, hold.reason, hold.place), None)
            before = result[at] if at is not None else None
            stretch = Stretch(
                before.start_ns if before else hold.start_ns,
                hold.end_ns,
                hold.reason,
                hold.evidence,
                hold.missing,
                hold.waiting_bytes,
                hold.place,
                before.holds + 1 if before else 1,
            )
            if at is None:
                at = len(result)
                result.append(stretch)
            result[at] = stretch
            open_at[hold.end_ns, hold.reason, hold.place] = at
        return result

    def waited_ms(self, *places: str) -> dict[Reason, float]:
        """For each reason, how long something waited for it in all; no moment counts twice.

        Args:
            *places: only what waited in these ("kernel", "application", "wire"); all unless given.
        """
        total: dict[Reason, float] = {}
        until: dict[Reason, int] = {}
        for hold in self.holds:
            if places and hold.place not in places:
                continue
            start = max(hold.start_ns, until.get(hold.reason, hold.start_ns))
            total[hold.reason] = total.get(hold.reason, 0.0) + max(hold.end_ns - start, 0) / 1e6
            until[hold.reason] = max(start, hold.end_ns)
        return total

    def sentences(self) -> list[str]:
        """One sentence a data segment, then one for what was still waiting at the end."""
        from tcplab.timeline.words import sentences

        return sentences(self)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row of plain data a data segment; times in ms since the first event."""
        from tcplab.timeline.words import writes_carried

        start = self.start_ns
        return [
            {
                "message": each.message,
                "segment": each.number,
                "time_ms": (each.time_ns - start) / 1e6,
                "bytes": each.payload_bytes,
                "writes": writes_carried(self, each),
                "waited_ms": each.waited_ms,
                "held_by": ", ".join(dict.fromkeys(str(hold.reason) for hold in each.holds))
                or None,
                "reason": str(each.reason),
                "evidence": each.evidence,
                "missing": each.missing or None,
            }
            for each in self.segments
        ]

    def table(self) -> Table:
        """The rows as a table."""
        return Table(_COLUMNS, self.rows(), f"Data segments of {self.connection}")
