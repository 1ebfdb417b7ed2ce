"""Sentences about a timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tcplab.models import Reason
from tcplab.timeline.parts import Ack, Hold, Segment, count_bytes, ms

if TYPE_CHECKING:
    from tcplab.timeline.timeline import Timeline

#: How a sentence goes on after "held 40.1 ms".
HELD_BY: Final = {
    Reason.HELD_BY_NAGLE: "by Nagle",
    Reason.CORKED: "by the cork",
    Reason.MSG_MORE: "by MSG_MORE",
    Reason.AUTOCORKED: "by autocorking",
    Reason.WINDOW_LIMITED: "by the peer's window",
    Reason.CWND_LIMITED: "by the congestion window",
    Reason.DEFERRED: "for a longer burst",
    Reason.SNDBUF_LIMITED: "by the full send buffer",
    Reason.RETRANSMISSION: "until it was sent again",
    Reason.RATE_LIMITED: "by the rate of the wire",
    Reason.APPLICATION_IDLE: "by the idle application",
    Reason.UNKNOWN: "for an unknown reason",
}

#: Shorter delays in the wire are not mentioned.
LONG_MS: Final = 1.0

#: How a sentence goes on after "waited for".
WAITED_FOR: Final = {
    Reason.HELD_BY_NAGLE: "Nagle's algorithm",
    Reason.CORKED: "the cork",
    Reason.MSG_MORE: "a write without MSG_MORE",
    Reason.AUTOCORKED: "autocorking",
    Reason.WINDOW_LIMITED: "the peer's window",
    Reason.CWND_LIMITED: "the congestion window",
    Reason.DEFERRED: "a longer burst",
    Reason.SNDBUF_LIMITED: "the send buffer",
    Reason.RETRANSMISSION: "what was sent again",
    Reason.RATE_LIMITED: "the wire",
    Reason.APPLICATION_IDLE: "the application",
    Reason.UNKNOWN: "unknown reasons",
}

_LEFT: Final = {
    Reason.SENT_AT_ONCE: "sent at once",
    Reason.FULL_SIZED: "sent at once",
    Reason.SHUTDOWN: "sent with the end of the connection",
    Reason.RETRANSMISSION: "sent again",
    Reason.UNKNOWN: "sent for an unknown reason",
}


def sentences(timeline: Timeline) -> list[str]:
    """One sentence per data segment, then one for what was still waiting at the end."""
    result = [_sentence(timeline, segment) for segment in timeline.segments]
    result += [
        f"at the end {count_bytes(hold.waiting_bytes)} still {_waited(hold)}"
        for hold in timeline.holds
        if not hold.ended
    ]
    return result


def _sentence(timeline: Timeline, segment: Segment) -> str:
    text = f"{_subject(timeline, segment)} {_predicate(timeline, segment)}"
    queue = _queue(timeline, segment)
    if queue is None or segment.queued_ms is None:
        return text
    if queue.reason is Reason.RATE_LIMITED:
        return f"{text}; then {ms(segment.queued_ms)} in the queue of the wire"
    return f"{text}; then {ms(segment.queued_ms)} more than others in the wire (why is unknown)"


def _queue(timeline: Timeline, segment: Segment) -> Hold | None:
    """The stretch in which it waited in the wire, if it waited long."""
    if (segment.queued_ms or 0) < LONG_MS:
        return None
    return next(
        (
            hold
            for hold in timeline.holds
            if hold.where == "wire" and hold.start_ns <= segment.time_ns < hold.end_ns
        ),
        None,
    )


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
    """The writes of its message that it carries: "write 1", "writes 2–15"; "" without a log."""
    if not segment.writes:
        return ""
    first = _write_number(timeline, segment.writes[0])
    last = _write_number(timeline, segment.writes[-1])
    return f"write {first}" if first == last else f"writes {first}–{last}"


def _write_number(timeline: Timeline, number: int) -> int:
    write = timeline.writes[number - timeline.writes[0].number]
    return write.in_message


def _predicate(timeline: Timeline, segment: Segment) -> str:
    if segment.reason is Reason.RETRANSMISSION:
        return f"sent again: {segment.evidence}"
    holds = _merged(segment)
    if not holds and segment.released_by is not None:
        return _release(timeline, segment)
    if not holds:
        return _left_at_once(segment)
    waited = ", then ".join(_waited(hold) for hold in holds)
    return f"{waited}; {_release(timeline, segment)}"


def _merged(segment: Segment) -> list[Hold]:
    """The holds of a segment, those for one reason added up."""
    merged: dict[Reason, Hold] = {}
    for hold in segment.holds:
        before = merged.get(hold.reason)
        start = before.start_ns if before else hold.start_ns
        merged[hold.reason] = replace(hold, start_ns=start)
    return list(merged.values())


def _waited(hold: Hold) -> str:
    text = f"held {ms(hold.duration_ms)} {HELD_BY[hold.reason]}"
    if hold.evidence:
        text += f": {hold.evidence}"
    if hold.missing:
        text += f" (missing: {hold.missing})"
    return text


def _left_at_once(segment: Segment) -> str:
    how = _LEFT.get(segment.reason, f"sent ({segment.reason})")
    if segment.reason is Reason.FULL_SIZED and not segment.writes:
        how = "sent"  # without a log, nothing says that it did not wait
    text = f"{how}: {segment.evidence}" if segment.evidence else how
    return f"{text} (missing: {segment.missing})" if segment.missing else text


def _release(timeline: Timeline, segment: Segment) -> str:
    if segment.released_by is not None and segment.released_by < len(timeline.acks):
        return "released by " + _ack(timeline, timeline.acks[segment.released_by])
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
    carrier = f", which came with {count_bytes(ack.payload_bytes)} of its own" * bool(
        ack.payload_bytes
    )
    if not ack.newly_acked_bytes:
        return f"the peer's window update to {count_bytes(ack.window)}"
    if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
        return f"the peer's delayed ACK ({ms(ack.delay_ms)} late{carrier}{_slow(timeline, ack)})"
    if ack.reason is Reason.UNKNOWN:
        return f"the peer's ACK{carrier} (why it came late is unknown; missing: {ack.missing})"
    return f"the peer's ACK{carrier}{_slow(timeline, ack)}"


def _slow(timeline: Timeline, ack: Ack) -> str:
    """A remark on an ACK that was in flight much longer than usual; else ""."""
    if ack.sent_ns is None or timeline.rtt_ms is None:
        return ""
    travel_ms = (ack.time_ns - ack.sent_ns) / 1e6
    slow = travel_ms > 2 * timeline.rtt_ms and travel_ms > LONG_MS
    return f", and {ms(travel_ms)} on its way" if slow else ""


def waiting(timeline: Timeline) -> list[str]:
    """For each reason to wait, one line: how often, how long in all, the longest."""
    lines = []
    totals = timeline.waited_ms()
    for reason in sorted(totals, key=lambda each: -totals[each]):
        stretches = [each for each in timeline.merged_holds() if each.reason is reason]
        longest = max(each.duration_ms for each in stretches)
        lines.append(
            f"{reason}: {ms(totals[reason])} in {len(stretches)}"
            f" stretch{'es' * (len(stretches) > 1)}, the longest {ms(longest)}"
        )
    return lines


def missing_evidence(timeline: Timeline) -> list[str]:
    """Evidence that was not given and would have shown more, each once."""
    found = [*timeline.missing]
    found += [each.missing for each in timeline.segments]
    found += [each.missing for each in timeline.holds]
    found += [each.missing for each in timeline.acks]
    return list(dict.fromkeys(each for each in found if each))
