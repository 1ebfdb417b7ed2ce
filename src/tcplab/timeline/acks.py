"""Find the peer's delayed acknowledgements, with the evidence for each."""

import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from tcplab.models import Reason
from tcplab.timeline.evidence import Evidence, Packet
from tcplab.timeline.parts import Ack, Segment

#: An ACK that leaves the peer this long after the data arrived counts as delayed on purpose. An
#: immediate ACK takes microseconds.
DELAYED_NS: Final = 10_000_000
#: Without a capture at the peer, the path's jitter can look like a delayed ACK. The delay must then
#: be as long as a delayed-ACK timer, which is 40 ms or more in Linux and at least 25 ms elsewhere.
LIKE_A_TIMER_NS: Final = 25_000_000
#: RFC 9293, 3.8.6.3 (MUST-40), limits a delayed ACK to this time.
LONGEST_DELAY_NS: Final = 500_000_000


def explain_acks(evidence: Evidence, segments: Sequence[Segment]) -> list[Ack]:
    """Return the peer's segments as ACKs, each with its delay if there is evidence for it."""
    inspector = _Inspector(evidence, segments)
    una, acks = 0, []
    for packet in evidence.into:
        newly = max(packet.ack - una, 0) if packet.has_ack else 0
        acks.append(Ack(packet.time_ns, packet.ack, newly, packet.window, packet.payload_bytes))
        if newly:
            inspector.judge(acks[-1], una, packet)
        una = max(una, packet.ack)
    return acks


def add_arrivals(evidence: Evidence, segments: Sequence[Segment]) -> None:
    """Set the times when the peer got the segments and when the sender saw their ACKs."""
    arrivals = _arrivals(evidence.peer_into or (), segments)
    highest = np.maximum.accumulate([p.ack if p.has_ack else 0 for p in evidence.into] or [0])
    times = [*(packet.time_ns for packet in evidence.into), None]
    first = np.searchsorted(highest, [segment.end for segment in segments]).tolist()
    for segment, i in zip(segments, first, strict=True):
        segment.acked_ns = times[min(i, len(evidence.into))]
        segment.arrived_ns = arrivals.get(segment.number)


def _arrivals(peer_into: Sequence[Packet], segments: Sequence[Segment]) -> dict[int, int]:
    """Map segment numbers to arrival times at the peer's interface.

    An arrival counts for the last copy that could have arrived by then. Earlier ones count as lost.
    """
    if not peer_into:
        return {}
    times: dict[tuple[int, int], list[int]] = {}
    for packet in peer_into:
        times.setdefault((packet.offset, packet.payload_bytes), []).append(packet.time_ns)
    copies: dict[tuple[int, int], list[Segment]] = {}
    for segment in segments:
        copies.setdefault((segment.offset, segment.payload_bytes), []).append(segment)
    only = [
        times[key][0] - sent[0].time_ns
        for key, sent in copies.items()
        if len(sent) == 1 and len(times.get(key, ())) == 1
    ]
    fastest = min(only, default=0) * 3 // 4  # a resent segment may have been faster than these
    arrived: dict[int, int] = {}
    for key, sent in copies.items():
        if len(times.get(key, ())) == len(sent):  # none was lost
            arrived |= {
                copy.number: time_ns for copy, time_ns in zip(sent, times[key], strict=True)
            }
            continue
        for time_ns in times.get(key, ()):
            possible = [copy for copy in sent if copy.time_ns + fastest <= time_ns]
            if possible:
                arrived.setdefault(possible[-1].number, time_ns)
    return arrived


class _Inspector:
    """Find each ACK's delay from the times at which bytes left, reached the peer and were read."""

    def __init__(self, evidence: Evidence, segments: Sequence[Segment]) -> None:
        self._e = evidence
        self._segments = [one for one in segments if one.reason is not Reason.RETRANSMISSION]
        self._ends = [segment.end for segment in self._segments]
        resent = [segment for segment in segments if segment.reason is Reason.RETRANSMISSION]
        resent.sort(key=lambda segment: segment.offset)
        self._resent_starts = [segment.offset for segment in resent]
        self._resent_ends = list(accumulate((segment.end for segment in resent), max))
        # A FIN takes a sequence number but carries no data.
        self._data_end = min((p.end for p in evidence.out if p.fin), default=1 << 62)
        self._departures = {
            (p.ack, p.offset, p.payload_bytes): p.time_ns for p in reversed(evidence.peer_out or ())
        }
        acks = [packet for packet in evidence.into if packet.has_ack]
        self._ack_times = [packet.time_ns for packet in acks]
        self._acked = list(accumulate((packet.ack for packet in acks), max))
        reads = [event for event in evidence.exchange.peer_log or () if event.name == "read"]
        self._read_ends = list(accumulate(event.bytes for event in reads))
        self._read_times = [event.time_ns for event in reads]

    def judge(self, ack: Ack, una: int, packet: Packet) -> None:
        i = bisect.bisect_right(self._ends, una)
        if i >= len(self._segments) or self._was_resent(una, ack.ack):
            return
        ack.reason = Reason.UNKNOWN
        if self._lacks(i, una, min(ack.ack, self._data_end)):
            ack.missing = "packets: some of the bytes that it acknowledges are not in the capture"
            return
        oldest = self._segments[i]
        ack.sent_ns = self._departures.get((packet.ack, packet.offset, packet.payload_bytes))
        half_rtt = (self._e.rtt_ns or 0) // 2
        left_ns = ack.time_ns - half_rtt if ack.sent_ns is None else ack.sent_ns
        delay_ns, known_by = self._delay(oldest, left_ns, half_rtt)
        late = delay_ns >= DELAYED_NS
        if late and known_by is None:
            ack.missing = "a capture at the peer: it may have waited on the way"
        elif late and (doubt := self._doubt(oldest, delay_ns)):
            ack.missing = doubt
        else:
            ack.reason = Reason.ACK_DELAYED_BY_PEER if late else Reason.SENT_AT_ONCE
            if known_by is not None:
                ack.delay_ms, ack.evidence = delay_ns / 1e6, known_by

    def _was_resent(self, start: int, end: int) -> bool:
        before_end = bisect.bisect_left(self._resent_starts, end)
        return before_end > 0 and self._resent_ends[before_end - 1] > start

    def _lacks(self, at: int, start: int, end: int) -> bool:
        while start < end and at < len(self._segments) and self._segments[at].offset <= start:
            start = self._ends[at]
            at += 1
        return start < end

    def _doubt(self, oldest: Segment, delay_ns: int) -> str:
        """Return the evidence that would prove a deliberate delay, or "" if none is missing."""
        if delay_ns > LONGEST_DELAY_NS:
            return (
                f"why it came {delay_ns / 1e6:.0f} ms late: a delayed ACK takes less than 500 ms"
                " (RFC 9293), so the peer was not running, or an earlier ACK was lost"
            )
        if oldest.arrived_ns is None and delay_ns < LIKE_A_TIMER_NS:
            return "a capture at the peer: so short a delay may be the path's jitter"
        return ""

    def _delay(self, oldest: Segment, left_ns: int, half_rtt: int) -> tuple[int, str | None]:
        """Return the ACK's delay at the peer in ns, and its evidence (None for a mere estimate)."""
        if oldest.arrived_ns is not None:
            return left_ns - oldest.arrived_ns, "by the capture at the peer"
        estimate = max(left_ns - (oldest.time_ns + half_rtt), 0)
        i = bisect.bisect_left(self._read_ends, oldest.end) if self._read_ends else 0
        if i < len(self._read_times) and left_ns - self._read_times[i] >= DELAYED_NS:
            # The application read the data before the ACK left, so the path did not cause the
            # delay.
            return estimate, "the peer's application had read the data long before"
        if self._alone(oldest):
            return estimate, "nothing else was in flight, so no queue of ours was in the way"
        return estimate, None

    def _alone(self, segment: Segment) -> bool:
        i = bisect.bisect_left(self._ack_times, segment.time_ns)
        return (self._acked[i - 1] if i else 0) >= segment.offset
