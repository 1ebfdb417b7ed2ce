"""The time of a connection's requests, divided among what they waited for."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tcplab.explain.joining import Conversation
from tcplab.models import Reason
from tcplab.timeline import Hold, Segment, Timeline

Interval = tuple[int, int]

#: Causes in the order in which a moment with several of them is counted: what somebody could have
#: avoided before what only passed meanwhile.
ORDER: Final = (
    "nagle-delayed-ack",
    "nagle",
    "forgotten-cork",
    "mtu-black-hole",
    "loss",
    "receive-window",
    "send-buffer",
    "autocorked",
    "link-rate",
    "congestion-window",
    "unknown",
    "handshake",
    "in-flight",
    "server",
    "client",
)
_OF_REASON: Final = {
    Reason.RETRANSMISSION: "loss",
    Reason.WINDOW_LIMITED: "receive-window",
    Reason.SNDBUF_LIMITED: "send-buffer",
    Reason.AUTOCORKED: "autocorked",
    Reason.RATE_LIMITED: "link-rate",
    Reason.CWND_LIMITED: "congestion-window",
    Reason.DEFERRED: "congestion-window",
    Reason.UNKNOWN: "unknown",
}
#: An ACK this late was delayed by its timer; a segment this soon after it had waited for it.
_LATE_NS: Final = 25_000_000
_SOON_NS: Final = 3_000_000
#: A message of so many full segments is a transfer.
_TRANSFER_SEGMENTS: Final = 10
#: A segment was sent so often, and never seen by the peer, while shorter ones were.
_NEVER_CAME: Final = 2


@dataclass(frozen=True, slots=True)
class Wait:
    """A stretch in which a connection waited for one thing."""

    start_ns: int  #: When it began
    end_ns: int  #: When it ended
    cause: str  #: Of ORDER
    side: str  #: "client", "server": whose bytes waited
    segment: Segment | None = None  #: The segment that it held up, if it is known


def waits(found: Conversation) -> list[Wait]:
    """Each stretch in which bytes of either sender waited, or were on their way."""
    result = []
    if (handshake := found.handshake_ns) is not None:
        result.append(Wait(*handshake, "handshake", "client"))
    for side, timeline in found.timelines.items():
        owners = {
            (hold.start_ns, hold.end_ns, hold.reason): each
            for each in timeline.segments
            for hold in each.holds
        }
        hole = black_hole_bytes(timeline)
        transfers = _transfers(timeline)
        for hold in timeline.holds:
            segment = owners.get((hold.start_ns, hold.end_ns, hold.reason))
            cause = _cause(hold, segment, timeline, hole, side)
            if cause == "nagle" and segment is not None and segment.message in transfers:
                cause = "in-flight"  # the rest of a transfer, behind all of it
            if cause:
                result.append(Wait(hold.start_ns, hold.end_ns, cause, side, segment))
        if not timeline.writes:
            result += [Wait(*each, "nagle-delayed-ack", side) for each in by_segments(timeline)]
        half_ns = int((timeline.rtt_ms or 0) * 5e5)
        for each in timeline.segments:
            end_ns = each.arrived_ns or each.time_ns + half_ns
            result.append(Wait(each.time_ns, end_ns, "in-flight", side, each))
    return result


def _cause(
    hold: Hold, segment: Segment | None, timeline: Timeline, hole: int | None, side: str
) -> str:
    if hold.reason is Reason.APPLICATION_IDLE:
        return ""
    if hold.reason is Reason.HELD_BY_NAGLE:
        released = segment.released_by if segment else None
        late = released is not None and timeline.acks[released].reason
        return "nagle-delayed-ack" if late is Reason.ACK_DELAYED_BY_PEER else "nagle"
    if hold.reason in (Reason.CORKED, Reason.MSG_MORE):
        timed_out = segment is not None and segment.reason is Reason.CORK_TIMEOUT
        return "forgotten-cork" if timed_out else side
    if hold.reason is Reason.RETRANSMISSION and hole is not None:
        return "mtu-black-hole"
    return _OF_REASON[hold.reason]


def _transfers(timeline: Timeline) -> set[int]:
    """The messages of many full segments, of which Nagle's algorithm may hold the rest."""
    sizes: dict[int, int] = defaultdict(int)
    for write in timeline.writes:
        sizes[write.message] += write.bytes
    least = _TRANSFER_SEGMENTS * (timeline.mss_bytes or 0)
    return {message for message, size in sizes.items() if size >= least}


def by_segments(timeline: Timeline) -> list[Interval]:
    """Waits as of Nagle × delayed ACK, of a sender whose program is not recorded.

    A small segment; its ACK, which comes by a timer; and at once, in a round trip, the next one.
    """
    soon_ns = int((timeline.rtt_ms or 0) * 1e6) + _SOON_NS
    found = []
    acks = [ack for ack in timeline.acks if ack.newly_acked_bytes]
    for before, after in pairwise(timeline.segments):
        at = bisect.bisect_left(acks, before.end, key=lambda ack: ack.ack)
        small = timeline.mss_bytes is None or before.payload_bytes < timeline.mss_bytes
        if not small or at == len(acks) or acks[at].payload_bytes:
            continue
        late_ns, then_ns = acks[at].time_ns - before.time_ns, after.time_ns - acks[at].time_ns
        if late_ns >= _LATE_NS and 0 <= then_ns <= soon_ns:
            found.append((before.time_ns, after.time_ns))
    return found


def black_hole_bytes(timeline: Timeline) -> int | None:
    """The largest payload that came through, where larger ones never do; None if all is well."""
    if all(each.arrived_ns is None for each in timeline.segments):
        return None  # no capture at the peer
    came = [each.payload_bytes for each in timeline.segments if each.arrived_ns is not None]
    largest = max(came, default=0)
    lost = [each for each in timeline.segments if each.payload_bytes > largest]
    return largest if len(lost) > _NEVER_CAME else None


# ---- the sum -------------------------------------------------------------------------------------


def shares(found: Conversation, waited: Iterable[Wait]) -> dict[str, float]:
    """For each cause how many ms of the time in which the client waited, each moment once.

    Args:
        found: the connection.
        waited: its waits().
    """
    asked = merged(spans(found))
    total: dict[str, float] = defaultdict(float)
    painted: list[Interval] = []
    by_cause: dict[str, list[Interval]] = defaultdict(list)
    for each in waited:
        by_cause[each.cause].append((each.start_ns, each.end_ns))
    for cause in ORDER:
        fresh = without(merged(by_cause.pop(cause, [])), painted)
        total[cause] += _ms(_within(fresh, asked))
        painted = merged([*painted, *fresh])
    nexts = {
        side: sorted(each.time_ns for each in timeline.writes or timeline.segments)
        for side, timeline in found.timelines.items()
    }
    for start, end in without(asked, painted):
        total[_whose_turn(nexts, end)] += (end - start) / 1e6
    _by_kernel(found, total)
    return {cause: ms for cause, ms in total.items() if ms > 0}


def spans(found: Conversation) -> list[Interval]:
    """When the client waited: the handshake, and each message until its answer has been read."""
    client, server = found.timelines.get("client"), found.timelines.get("server")
    result = [handshake] if (handshake := found.handshake_ns) else []
    if client is not None and client.writes:
        return [*result, *client.message_spans_ns().values()]
    for timeline in (client, server):
        if timeline is not None and timeline.segments:
            last = max(each.acked_ns or each.time_ns for each in timeline.segments)
            result.append((timeline.start_ns, last))
    return result


def requests(found: Conversation) -> int:
    """The number of messages that the client sent."""
    client = found.timelines.get("client")
    return client.messages if client else 0


def _whose_turn(nexts: Mapping[str, Sequence[int]], until_ns: int) -> str:
    """Nothing was on its way: whoever goes on next was what the other waited for."""
    found = []
    for side, times in nexts.items():
        at = bisect.bisect_left(times, until_ns - 1_000_000)
        if at < len(times):
            found.append((times[at], side))
    return min(found)[1] if found else "client"


def _by_kernel(found: Conversation, total: dict[str, float]) -> None:
    """The kernel's own count of the send buffer being in the way, which no packet shows."""
    for socket in found.sockets.values():
        limited_ms = max((call.sndbuf_limited_us for call in socket.calls), default=0) / 1000
        for cause in ("unknown", "in-flight"):
            moved = min(max(limited_ms - total["send-buffer"], 0), total[cause])
            total["send-buffer"] += moved
            total[cause] -= moved


# ---- intervals -----------------------------------------------------------------------------------


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as intervals that neither meet nor overlap, in order."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        elif end > start:
            result.append((start, end))
    return result


def without(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The moments of some that are not among others; both merged."""
    rest: list[Interval] = []
    i = 0
    for start, end in some:
        while i < len(others) and others[i][1] <= start:
            i += 1
        at, j = start, i
        while j < len(others) and others[j][0] < end:
            if others[j][0] > at:
                rest.append((at, others[j][0]))
            at = max(at, others[j][1])
            j += 1
        if at < end:
            rest.append((at, end))
    return rest


def _within(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    return without(some, without(some, others))


def _ms(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals) / 1e6
