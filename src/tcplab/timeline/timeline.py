"""Present a timeline from write() to the wire as rows and as sentences."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tcplab.models import Reason
from tcplab.tables import ms
from tcplab.timeline.parts import (
    ENDS_MESSAGE,
    Ack,
    Hold,
    Mark,
    Segment,
    Write,
    count_bytes,
    time_of,
)

#: End of a sentence that starts with "held 40.1 ms", for each reason of a hold.
HELD_BY: Final = {
    Reason.HELD_BY_NAGLE: "by Nagle",
    Reason.CORKED: "by the cork",
    Reason.MSG_MORE: "by MSG_MORE",
    Reason.WINDOW_LIMITED: "by the peer's window",
    Reason.CWND_LIMITED: "by the congestion window",
    Reason.DEFERRED: "for a longer burst",
    Reason.SNDBUF_LIMITED: "by the full send buffer",
    Reason.RETRANSMISSION: "until it was sent again",
    Reason.RATE_LIMITED: "by the rate of the link",
    Reason.APPLICATION_IDLE: "by the idle application",
    Reason.UNKNOWN: "for an unknown reason",
}

#: A delay of a segment or an ACK on its way is mentioned if it is at least this long.
LONG_MS: Final = 1.0

_LEFT: Final = {
    Reason.SENT_AT_ONCE: "sent at once",
    Reason.FULL_SIZED: "sent at once",
    Reason.SHUTDOWN: "sent with the end of the connection",
    Reason.RETRANSMISSION: "sent again",
    Reason.UNKNOWN: "sent for an unknown reason",
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that happened from write() to the wire, on one clock (CLOCK_REALTIME in ns)."""

    connection: str  #: Both ends, the sender first, such as "10.0.0.1:40000 -> 10.0.0.2:5001"
    #: Largest payload of one segment at the end of the recording, or None if unknown
    mss_bytes: int | None
    rtt_ms: float | None  #: Smallest round-trip time seen, or None
    nodelay: bool | None  #: TCP_NODELAY at the start, or None if unknown
    writes: Sequence[Write]  #: The writes of the application in order, or empty without a log
    marks: Sequence[Mark]  #: Other calls of the sender's application
    segments: Sequence[Segment]  #: The sender's data segments, in order of departure
    acks: Sequence[Ack]  #: The peer's segments, in order of arrival
    holds: Sequence[Hold]  #: Periods of waiting, in order of their start
    peer_marks: Sequence[Mark] = ()  #: Calls of the peer's application, if its log was given
    missing: Sequence[str] = ()  #: Missing evidence, and what it would have shown
    samples: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @property
    def start_ns(self) -> int:
        """Time of the first call or, without a log, of the first data segment or else ACK."""
        calls = [write.time_ns for write in self.writes[:1]]
        calls += [mark.time_ns for mark in self.marks[:1]]
        packets = [segment.time_ns for segment in self.segments[:1]]
        packets += [] if packets else [ack.time_ns for ack in self.acks[:1]]
        return min(calls or packets, default=0)

    def last_ack(self, time_ns: int) -> Ack:
        """Return the last segment of the peer up to a time, or else its first one."""
        return self.acks[max(bisect.bisect_right(self.acks, time_ns, key=time_of) - 1, 0)]

    def arrival_ns(self, segment: Segment) -> int:
        """Return when a segment reached the peer, or about when without a capture there."""
        return segment.arrived_ns or segment.time_ns + int((self.rtt_ms or 0) * 5e5)

    @property
    def messages(self) -> int:
        return self.writes[-1].message if self.writes else 0

    def message_spans_ns(self) -> dict[int, tuple[int, int]]:
        """Map each message to the times of its first call and its reply, or else its last ACK."""
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
        """Return a copy without reasons, for a reader who has to find them."""
        unknown = Reason.UNKNOWN
        bare = [
            replace(segment, reason=unknown, evidence="", holds=(), released_by=None)
            for segment in self.segments
        ]
        acks = [replace(ack, reason=None, delay_ms=None, evidence="") for ack in self.acks]
        return replace(self, segments=bare, acks=acks, holds=())

    def only(self, messages: Iterable[int]) -> Timeline:
        """Return a timeline of the chosen messages only."""
        chosen = set(messages)
        known = self.message_spans_ns()
        if missing := chosen - set(known):
            raise ValueError(f"message={min(missing)} is not among 1 to {self.messages}")
        spans = [known[message] for message in sorted(chosen)]
        start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        # `released_by` is an index in `acks`, which loses its first entries here.
        acks = [ack for ack in self.acks if start <= ack.time_ns <= end]
        first = next((i for i, ack in enumerate(self.acks) if ack.time_ns >= start), 0)

        def shifted(index: int | None) -> int | None:
            return None if index is None or index < first else index - first

        segments = [
            replace(segment, released_by=shifted(segment.released_by))
            for segment in self.segments
            if segment.message in chosen
        ]
        return replace(
            self,
            writes=[write for write in self.writes if write.message in chosen],
            marks=[mark for mark in self.marks if mark.message in chosen],
            segments=segments,
            acks=acks,
            holds=[hold for hold in self.holds if hold.end_ns > start and hold.start_ns < end],
            peer_marks=[mark for mark in self.peer_marks if start <= mark.time_ns <= end],
        )

    def merged_holds(self) -> list[Hold]:
        """Return the holds, with adjacent holds for the same reason at the same place merged."""
        result: list[Hold] = []
        open_at: dict[tuple[int, Reason, str], int] = {}  # index in result, by end, reason, place
        for hold in self.holds:
            at = open_at.pop((hold.start_ns, hold.reason, hold.where), None)
            if at is None:
                at = len(result)
                result.append(hold)
            else:
                result[at] = replace(hold, start_ns=result[at].start_ns)
            open_at[hold.end_ns, hold.reason, hold.where] = at
        return result

    def waited_ms(self, *where: str) -> dict[Reason, float]:
        """Return the time waited for each reason, at some places (`Hold.where`) or everywhere."""
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
        """Return one sentence per data segment, then one per hold that had not ended."""
        result = [_sentence(self, segment) for segment in self.segments]
        result += [
            f"at the end {count_bytes(hold.waiting_bytes)} still {_waited(hold)}"
            for hold in self.holds
            if not hold.ended
        ]
        return result

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row per data segment, with times in ms since the first event."""
        start = self.start_ns
        return [
            {
                "message": segment.message,
                "segment": segment.number,
                "time_ms": (segment.time_ns - start) / 1e6,
                "bytes": segment.payload_bytes,
                "writes": writes_carried(self, segment),
                "waited_ms": segment.waited_ms,
                "held_by": ", ".join(dict.fromkeys(str(hold.reason) for hold in segment.holds))
                or None,
                "reason": str(segment.reason),
                "evidence": segment.evidence,
                "missing": segment.missing or None,
            }
            for segment in self.segments
        ]


# ---- sentences -----------------------------------------------------------------------------------


def _sentence(timeline: Timeline, segment: Segment) -> str:
    text = f"{_subject(timeline, segment)} {_predicate(timeline, segment)}"
    if segment.queued_ms is None or segment.queued_ms < LONG_MS:
        return text
    for hold in timeline.holds:
        if hold.where == "wire" and hold.start_ns <= segment.time_ns < hold.end_ns:
            if hold.reason is Reason.RATE_LIMITED:
                return f"{text}; then {ms(segment.queued_ms)} in the queue of the link"
            return (
                f"{text}; then {ms(segment.queued_ms)} longer on the link than others"
                " (reason unknown)"
            )
    return text


def _subject(timeline: Timeline, segment: Segment) -> str:
    what = count_bytes(segment.payload_bytes)
    if segment.gso_count > 1:
        what += f" ({segment.gso_count} segments in one)"
    if segment.writes:
        what += f" of {writes_carried(timeline, segment)}"
    if timeline.messages > 1 and segment.message:
        return f"message {segment.message}: {what}"
    return what


def writes_carried(timeline: Timeline, segment: Segment) -> str:
    """Return which writes of its message a segment carries, such as "writes 2–15", or ""."""
    if not segment.writes:
        return ""
    first, last = (
        timeline.writes[segment.writes[at] - timeline.writes[0].number].in_message for at in (0, -1)
    )
    return f"write {first}" if first == last else f"writes {first}–{last}"


def _predicate(timeline: Timeline, segment: Segment) -> str:
    if segment.reason is Reason.RETRANSMISSION:
        return f"sent again: {segment.evidence}"
    merged: dict[Reason, Hold] = {}
    for hold in segment.holds:
        start_ns = merged.get(hold.reason, hold).start_ns
        merged[hold.reason] = replace(hold, start_ns=start_ns)
    if not merged and segment.released_by is None:
        return _left_at_once(segment)
    waited = ", then ".join(map(_waited, merged.values()))
    return f"{waited}; " * bool(merged) + _release(timeline, segment)


def _waited(hold: Hold) -> str:
    text = f"held {ms(hold.duration_ms)} {HELD_BY[hold.reason]}"
    text += f": {hold.evidence}" * bool(hold.evidence)
    return text + f" (missing: {hold.missing})" * bool(hold.missing)


def _left_at_once(segment: Segment) -> str:
    how = _LEFT.get(segment.reason, f"sent ({segment.reason.words})")
    if segment.reason is Reason.FULL_SIZED and not segment.writes:
        how = "sent"  # without a log, the segment may have waited
    text = f"{how}: {segment.evidence}" if segment.evidence else how
    return f"{text} (missing: {segment.missing})" if segment.missing else text


def _release(timeline: Timeline, segment: Segment) -> str:
    if segment.released_by is not None and segment.released_by < len(timeline.acks):
        ack = timeline.acks[segment.released_by]
        if ack.newly_acked_bytes:
            return "released by " + _ack(timeline, ack)
    if segment.reason is Reason.UNKNOWN:
        named = any(hold.missing == segment.missing for hold in segment.holds)
        missing = "" if named else f" (missing: {segment.missing})"
        return f"released by something that is not in the record{missing}"
    starts = {
        Reason.CORK_TIMEOUT: "released by the timer: ",
        Reason.WINDOW_LIMITED: "released by the timer: ",
        Reason.TAIL_LOSS_PROBE: "released by a probe: ",
    }
    return starts.get(segment.reason, "released: ") + segment.evidence


def _ack(timeline: Timeline, ack: Ack) -> str:
    data = f", which came with {count_bytes(ack.payload_bytes)} of data"
    carrier = data * bool(ack.payload_bytes)
    if ack.reason is Reason.UNKNOWN:
        return f"the peer's ACK{carrier} (why it came late is unknown; missing: {ack.missing})"
    travel_ms = 0.0 if ack.sent_ns is None else (ack.time_ns - ack.sent_ns) / 1e6
    slow = timeline.rtt_ms is not None and travel_ms > max(2 * timeline.rtt_ms, LONG_MS)
    carrier += f", and {ms(travel_ms)} on its way" * slow
    if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
        return f"the peer's delayed ACK ({ms(ack.delay_ms)} late{carrier})"
    return f"the peer's ACK{carrier}"


def waiting(timeline: Timeline) -> list[str]:
    """Summarize each reason for waiting in one line with total, count and longest wait."""
    lines = []
    totals = timeline.waited_ms()
    for reason in sorted(totals, key=lambda reason: -totals[reason]):
        stretches = [hold for hold in timeline.merged_holds() if hold.reason is reason]
        longest = max(hold.duration_ms for hold in stretches)
        lines.append(
            f"{reason.words}: {ms(totals[reason])} in {len(stretches)}"
            f" stretch{'es' * (len(stretches) > 1)}, the longest {ms(longest)}"
        )
    return lines


def missing_evidence(timeline: Timeline) -> list[str]:
    """Return the evidence that would have shown more, without duplicates."""
    missing = [*timeline.missing]
    missing += [segment.missing for segment in timeline.segments]
    missing += [hold.missing for hold in timeline.holds]
    missing += [ack.missing for ack in timeline.acks]
    return list(dict.fromkeys(text for text in missing if text))
