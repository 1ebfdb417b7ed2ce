"""Find segments that queued on the link because of its rate."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tcplab.models import Reason
from tcplab.models.links import ETHERNET_FRAMING_BYTES
from tcplab.timeline.evidence import Evidence
from tcplab.timeline.parts import Hold, Segment

#: A segment that took this much longer than the fastest one waited in a queue. A smaller difference
#: may come from the machine.
QUEUED_NS: Final = 1_000_000
#: An unexplained wait is reported if it is at least this long.
STRANGE_NS: Final = 5_000_000
#: Number of gaps between evenly spaced arrivals that are needed to show a rate.
_ENOUGH_GAPS: Final = 5
_EVENLY: Final = 0.25  # limit for half the rates' interquartile range, as a share of the median
#: Shorter gaps may only show how fast a program forwards a backlog of packets.
_SHORTEST_GAP_NS: Final = 50_000


@dataclass(slots=True)
class _Passage:
    left_ns: int
    arrived_ns: int
    wire_bits: int
    waited_ns: int = 0  # time in excess of the fastest passage

    @property
    def transit_ns(self) -> int:
        return self.arrived_ns - self.left_ns

    @property
    def free_ns(self) -> int:
        """The time at which the link began to send the segment."""
        return self.left_ns + self.waited_ns


def wire_queue(evidence: Evidence, segments: Sequence[Segment]) -> list[Hold]:
    """Find waits on the link. Set `queued_ms` of the segments, and return the holds.

    Time in excess of the fastest passage counts as queueing. The rate is the cause if arrivals are
    one transmission time apart, or agree with the known rate.
    """
    sizes = {packet.packet: packet.wire_bytes for packet in evidence.out}
    arrived = [segment for segment in segments if segment.arrived_ns is not None]
    passages = [
        _Passage(one.time_ns, one.arrived_ns, 8 * (sizes[one.packet] + ETHERNET_FRAMING_BYTES))
        for one in arrived
        if one.arrived_ns is not None
    ]
    if len(passages) < 2:
        return []
    rate = _rate_bits_per_ns(evidence, passages)
    fastest = min(passage.transit_ns - _sending_ns(passage, rate) for passage in passages)
    for segment, passage in zip(arrived, passages, strict=True):
        passage.waited_ns = passage.transit_ns - _sending_ns(passage, rate) - fastest
        segment.queued_ms = passage.waited_ns / 1e6
    queued = [passage for passage in passages if passage.waited_ns >= QUEUED_NS]
    return _stretches(evidence, queued, rate)


def _sending_ns(passage: _Passage, rate: float | None) -> int:
    return int(passage.wire_bits / rate) if rate else 0


def _rate_bits_per_ns(evidence: Evidence, passages: Sequence[_Passage]) -> float | None:
    """Return the known rate, or else the rate that evenly spaced arrivals show, or None.

    The gap between two arrivals shows the rate only if the second segment left before the first one
    had arrived. Otherwise the link was idle in between.
    """
    if (known := evidence.exchange.rate_mbit) is not None:
        return known / 1000 if math.isfinite(known) else None
    fastest = min(passage.transit_ns for passage in passages)
    rates = [
        after.wire_bits / (after.arrived_ns - before.arrived_ns)
        for before, after in pairwise(passages)
        if after.left_ns < before.arrived_ns
        and after.transit_ns - fastest >= QUEUED_NS
        and after.arrived_ns - before.arrived_ns >= _SHORTEST_GAP_NS
    ]
    if len(rates) < _ENOUGH_GAPS:
        return None
    low, middle, high = statistics.quantiles(rates, n=4)
    return middle if high - low <= 2 * _EVENLY * middle else None


def _stretches(evidence: Evidence, queued: Sequence[_Passage], rate: float | None) -> list[Hold]:
    """Merge overlapping waits into holds, without short holds that the rate does not explain."""
    merged: list[list[_Passage]] = []
    end = 0
    for passage in queued:
        if not merged or passage.left_ns > end:
            merged.append([])
        merged[-1].append(passage)
        end = max(end, passage.free_ns)
    holds = [_hold(evidence, group, rate) for group in merged]
    return [
        hold
        for hold in holds
        if hold.reason is Reason.RATE_LIMITED or hold.end_ns - hold.start_ns >= STRANGE_NS
    ]


def _hold(evidence: Evidence, group: Sequence[_Passage], rate: float | None) -> Hold:
    end = max(passage.free_ns for passage in group)
    longest = max(passage.waited_ns for passage in group) / 1e6
    count = f"{len(group)} segments" if len(group) > 1 else "a segment"
    size = sum(passage.wire_bits // 8 for passage in group)
    given = evidence.exchange.rate_mbit
    text = f"{count} took up to {longest:.1f} ms longer than the fastest"
    reason, missing = Reason.RATE_LIMITED, ""
    if rate is None or not _fits(group, rate):
        reason = Reason.UNKNOWN
        missing = "the rate of the link (rate_mbit): the arrivals are not one transmission apart"
        if given is not None and not math.isfinite(given):
            missing = "what delayed them, because the link has no limited rate"
    else:
        source = "which is the link's" if given else "by the spacing of their arrivals"
        text += f", at {rate * 1000:.3g} Mbit/s ({source})"
    return Hold(group[0].left_ns, end, reason, text, missing, size, where="wire")


def _fits(group: Sequence[_Passage], rate: float) -> bool:
    # Shorter waits are not in the group, so the first segment may have met a short queue.
    free_at = group[0].left_ns + min(group[0].waited_ns, 2 * QUEUED_NS)
    for passage in group:
        free_at = max(free_at, passage.left_ns) + _sending_ns(passage, rate)
    last = group[-1]
    took = last.free_ns + _sending_ns(last, rate)
    span = max(took - group[0].left_ns, 1)
    return abs(took - free_at) <= max(0.2 * span, 2 * QUEUED_NS)
