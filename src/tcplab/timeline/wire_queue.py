"""Segments that waited in the wire, behind others, for the transmitter's rate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from tcplab.models import ETHERNET_FRAMING_BYTES, Reason
from tcplab.timeline.evidence import Evidence
from tcplab.timeline.parts import Hold, Segment

#: A segment that took this much longer than the fastest waited in a queue; less may be the machine.
QUEUED_NS: Final = 1_000_000
#: So long without a known reason is worth telling.
STRANGE_NS: Final = 5_000_000
#: Evenly spaced arrivals that are needed to show a rate.
_ENOUGH_GAPS: Final = 5
_EVENLY: Final = 0.25  # half of the gaps lie so close to their median
#: Shorter gaps may be what a program takes to forward a packet that it was late with.
_SHORTEST_GAP_NS: Final = 50_000


@dataclass(frozen=True, slots=True)
class _Passage:
    """A segment that was seen at both ends of the wire."""

    number: int  # index in the segments
    left_ns: int
    arrived_ns: int
    wire_bits: int

    @property
    def transit_ns(self) -> int:
        return self.arrived_ns - self.left_ns


def wire_queue(evidence: Evidence, segments: Sequence[Segment]) -> tuple[list[Segment], list[Hold]]:
    """Finds waits in the wire: the segments with `queued_ms`, and the holds.

    Needs a capture at the peer. The time beyond the fastest passage is queueing; that the rate is
    its cause shows in arrivals one transmission time apart, or in agreement with the known rate.
    """
    passages = _passages(evidence, segments)
    if len(passages) < 2:
        return list(segments), []
    rate = _rate_bits_per_ns(evidence, passages)
    fastest = min(each.transit_ns - _sending_ns(each, rate) for each in passages)
    waited = {each.number: each.transit_ns - _sending_ns(each, rate) - fastest for each in passages}
    marked = [
        replace(segment, queued_ms=waited[i] / 1e6) if i in waited else segment
        for i, segment in enumerate(segments)
    ]
    queued = [each for each in passages if waited[each.number] >= QUEUED_NS]
    return marked, _stretches(evidence, queued, waited, rate)


def _passages(evidence: Evidence, segments: Sequence[Segment]) -> list[_Passage]:
    sizes = {packet.packet: packet.wire_bytes for packet in evidence.out}
    return [
        _Passage(
            i,
            segment.time_ns,
            segment.arrived_ns,
            8 * (sizes[segment.packet] + ETHERNET_FRAMING_BYTES),
        )
        for i, segment in enumerate(segments)
        if segment.arrived_ns is not None
    ]


def _sending_ns(passage: _Passage, rate: float | None) -> int:
    return int(passage.wire_bits / rate) if rate else 0


def _rate_bits_per_ns(evidence: Evidence, passages: Sequence[_Passage]) -> float | None:
    """The rate that is known, or that evenly spaced arrivals of queued segments show."""
    if evidence.exchange.rate_mbit:
        return evidence.exchange.rate_mbit / 1000
    fastest = min(each.transit_ns for each in passages)
    rates = [
        after.wire_bits / (after.arrived_ns - before.arrived_ns)
        for before, after in pairwise(passages)
        if after.transit_ns - fastest >= QUEUED_NS
        and after.arrived_ns - before.arrived_ns >= _SHORTEST_GAP_NS
    ]
    if len(rates) < _ENOUGH_GAPS:
        return None
    low, middle, high = statistics.quantiles(rates, n=4)
    return middle if high - low <= 2 * _EVENLY * middle else None


def _stretches(
    evidence: Evidence, queued: Sequence[_Passage], waited: dict[int, int], rate: float | None
) -> list[Hold]:
    """The time during which at least one segment waited, as few holds as that makes."""
    merged: list[list[_Passage]] = []
    end = 0
    for each in queued:
        if not merged or each.left_ns > end:
            merged.append([])
        merged[-1].append(each)
        end = max(end, each.left_ns + waited[each.number])
    holds = [_hold(evidence, group, waited, rate) for group in merged]
    return [
        hold
        for hold in holds
        if hold.reason is Reason.RATE_LIMITED or hold.end_ns - hold.start_ns >= STRANGE_NS
    ]


def _hold(
    evidence: Evidence, group: Sequence[_Passage], waited: dict[int, int], rate: float | None
) -> Hold:
    end = max(each.left_ns + waited[each.number] for each in group)
    longest = max(waited[each.number] for each in group) / 1e6
    count = f"{len(group)} segments" if len(group) > 1 else "a segment"
    size = sum(each.wire_bits // 8 for each in group)
    given = evidence.exchange.rate_mbit
    text = f"{count} took up to {longest:.1f} ms longer than the fastest"
    reason, missing = Reason.RATE_LIMITED, ""
    if rate is None or not _fits(group, waited, rate):
        reason = Reason.UNKNOWN
        missing = "the rate of the wire (rate_mbit): the arrivals are not one transmission apart"
    else:
        source = "which is the wire's" if given else "by the spacing of their arrivals"
        text += f", at {rate * 1000:.3g} Mbit/s ({source})"
    return Hold(group[0].left_ns, end, reason, text, missing, size, where="wire")


def _fits(group: Sequence[_Passage], waited: dict[int, int], rate: float) -> bool:
    """A queue at this rate would have made them wait about as long as they did."""
    # What waited less is not in the group: the first found a queue already, though a short one.
    free_at = group[0].left_ns + min(waited[group[0].number], 2 * QUEUED_NS)
    for each in group:
        free_at = max(free_at, each.left_ns) + _sending_ns(each, rate)
    last = group[-1]
    took = last.left_ns + waited[last.number] + _sending_ns(last, rate)
    span = max(took - group[0].left_ns, 1)
    return abs(took - free_at) <= max(0.2 * span, 2 * QUEUED_NS)
