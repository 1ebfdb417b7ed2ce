"""The timeline: from write() to wire on one clock, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tcplab.models import Reason
from tcplab.tables import Column, Table
from tcplab.timeline.parts import ENDS_MESSAGE, Ack, Hold, Mark, Segment, Write
from tcplab.timeline.sentences import sentences, writes_carried

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
    """From write() to wire, on one clock (CLOCK_REALTIME in ns)."""

    connection: str  #: The ends, "10.0.0.1:40000 -> 10.0.0.2:5001"; the sender comes first
    #: The largest payload of one segment, at the end; None if not known
    mss_bytes: int | None
    rtt_ms: float | None  #: Smallest round-trip time seen, None if there was none
    nodelay: bool | None  #: TCP_NODELAY at the start, None if not known
    writes: Sequence[Write]  #: The sender's calls, in order; empty without a log
    marks: Sequence[Mark]  #: What else the sender's application did
    segments: Sequence[Segment]  #: The sender's data segments, in order of their departure
    acks: Sequence[Ack]  #: The peer's segments, in order of their arrival
    holds: Sequence[Hold]  #: Each stretch of waiting, in order of its start
    peer_marks: Sequence[Mark] = ()  #: What the peer's application did, if its log was given
    missing: Sequence[str] = ()  #: Evidence that was not given, and what it would have shown
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
        """Number of messages that the sender's application wrote."""
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

    def unexplained(self) -> Timeline:
        """The same calls, segments and ACKs without reasons, for a reader who is to find them."""
        unknown = Reason.UNKNOWN
        bare = [
            replace(each, reason=unknown, evidence="", holds=(), released_by=None)
            for each in self.segments
        ]
        acks = [replace(each, reason=None, delay_ms=None, evidence="") for each in self.acks]
        return replace(self, segments=bare, acks=acks, holds=())

    def only(self, messages: Iterable[int]) -> Timeline:
        """The same timeline with only what belongs to some of its messages."""
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

    def merged_holds(self) -> list[Hold]:
        """The holds, those for the same reason that follow each other without a gap as one."""
        result: list[Hold] = []
        open_at: dict[tuple[int, Reason, str], int] = {}  # end, reason, where -> index in result
        for hold in self.holds:
            at = open_at.pop((hold.start_ns, hold.reason, hold.where), None)
            if at is None:
                at = len(result)
                result.append(hold)
            else:
                before = result[at]
                result[at] = replace(hold, start_ns=before.start_ns, merged=before.merged + 1)
            open_at[hold.end_ns, hold.reason, hold.where] = at
        return result

    def waited_ms(self, *where: str) -> dict[Reason, float]:
        """For each reason, how long something waited for it in all; no moment counts twice.

        Args:
            *where: only what waited there ("kernel", "application", "wire"); all unless given.
        """
        total: dict[Reason, float] = {}
        until: dict[Reason, int] = {}
        for hold in self.holds:
            if where and hold.where not in where:
                continue
            start = max(hold.start_ns, until.get(hold.reason, hold.start_ns))
            total[hold.reason] = total.get(hold.reason, 0.0) + max(hold.end_ns - start, 0) / 1e6
            until[hold.reason] = max(start, hold.end_ns)
        return total

    def sentences(self) -> list[str]:
        """One sentence per data segment, then one for what was still waiting at the end."""
        return sentences(self)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row of plain data per data segment; times in ms since the first event."""
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
