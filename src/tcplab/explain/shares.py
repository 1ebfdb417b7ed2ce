"""The time of a connection's requests, divided among what they waited for."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from tcplab.explain.joining import Conversation
from tcplab.explain.protocol_window import protocol_window
from tcplab.models import Reason
from tcplab.programs import SocketCalls
from tcplab.timeline import Hold, Segment, Timeline
from tcplab.timeline.parts import ENDS_MESSAGE

Interval = tuple[int, int]

#: Causes in the order in which a moment with several of them is counted: what somebody could have
#: avoided before what only passed meanwhile.
ORDER: Final = (
    "nagle-delayed-ack",
    "nagle",
    "forgotten-cork",
    "mtu-black-hole",
    "accept-queue",
    "loss",
    "receive-window",
    "send-buffer",
    "autocorked",
    "link-rate",
    "slow-start-after-idle",
    "congestion-window",
    "unknown",
    "handshake",
    "protocol-window",
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
#: Bytes that were sent so often in large segments, none of which came, have met a black hole.
_NEVER_CAME: Final = 3
#: Linux restarts slow start after a pause of the RTO, which is 200 ms or more.
_IDLE_NS: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class Wait:
    """A stretch in which a connection waited for one thing."""

    start_ns: int  #: When it began
    end_ns: int  #: When it ended
    cause: str  #: Of ORDER
    side: str  #: "client", "server": whose bytes waited
    segment: Segment | None = None  #: The segment that it held up, if it is known


def waits(found: Conversation) -> list[Wait]:
    """Return each stretch in which bytes of either sender waited, or were on their way."""
    result = []
    if (handshake := found.handshake_ns) is not None:
        repeated = found.overflows and len(found.syns("client")) > 1
        result.append(Wait(*handshake, "accept-queue" if repeated else "handshake", "client"))
    for side, timeline in found.timelines.items():
        sender = _Sender(found, side, timeline)
        # Of the segments that waited, the first was at the head of the queue.
        owners = {
            (hold.start_ns, hold.end_ns, hold.reason): each
            for each in reversed(timeline.segments)
            for hold in each.holds
        }
        following = {hold.start_ns: hold for hold in timeline.holds}
        for hold in timeline.holds:
            segment = owners.get((hold.start_ns, hold.end_ns, hold.reason)) or sender.next(hold)
            known = hold
            if hold.reason is Reason.UNKNOWN and segment is None:
                # Nothing left at its end; the next wait, which began there, has a known reason.
                known = following.get(hold.end_ns, hold)
            if cause := sender.cause(known, segment):
                result.append(Wait(hold.start_ns, hold.end_ns, cause, side, segment))
        if not timeline.writes:
            result += [Wait(*each, "nagle-delayed-ack", side) for each in by_segments(timeline)]
            result += [Wait(*each, "receive-window", side) for each in closed_windows(timeline)]
        if (window := protocol_window(timeline)) is not None:
            result += [Wait(*each, "protocol-window", side) for each in window.pauses_ns]
        half_ns = int((timeline.rtt_ms or 0) * 5e5)
        for each in timeline.segments:
            end_ns = each.arrived_ns or each.time_ns + half_ns
            setting_up = found.is_tls and each.message == 1
            cause = "handshake" if setting_up else "in-flight"
            result.append(Wait(each.time_ns, end_ns, cause, side, each))
    return result


class _Sender:
    """The causes of one sender's waits."""

    def __init__(self, found: Conversation, side: str, timeline: Timeline) -> None:
        self._found, self._side, self._timeline = found, side, timeline
        self._hole = black_hole_bytes(found, side)
        self._transfers = _transfers(timeline)
        self._ack_times = [ack.time_ns for ack in timeline.acks]
        socket = found.sockets.get(side)
        fixed = socket is not None and socket.fixed("sndbuf") is not None
        # The kernel counts its bookkeeping too: a full buffer holds from a quarter of it in data.
        self._full_bytes = socket.sndbuf_bytes // 4 if socket is not None and fixed else 1 << 62

    def next(self, hold: Hold) -> Segment | None:
        """Return the segment that left just when a wait in the kernel ended."""
        segments = self._timeline.segments
        at = bisect.bisect_left(segments, hold.end_ns, key=lambda each: each.time_ns)
        if hold.where != "kernel" or at == len(segments):
            return None
        return segments[at] if segments[at].time_ns - hold.end_ns < _SOON_NS else None

    def cause(self, hold: Hold, segment: Segment | None) -> str:
        """Return the cause of one stretch of waiting; "" if it counts for nothing."""
        if hold.reason is Reason.APPLICATION_IDLE:
            return ""
        if hold.reason is Reason.HELD_BY_NAGLE:
            return self._nagle(segment)
        if hold.reason in (Reason.CORKED, Reason.MSG_MORE):
            timed_out = segment is not None and segment.reason is Reason.CORK_TIMEOUT
            return "forgotten-cork" if timed_out else self._side
        if hold.reason is Reason.RETRANSMISSION:
            return self._sent_again(segment)
        if hold.reason is Reason.UNKNOWN:
            return self._clocked_out(segment)
        if hold.reason is Reason.CWND_LIMITED:
            return self._by_the_window(segment)
        return _OF_REASON[hold.reason]

    def _nagle(self, segment: Segment | None) -> str:
        released = segment.released_by if segment else None
        late = released is not None and self._timeline.acks[released].reason
        if late is Reason.ACK_DELAYED_BY_PEER:
            return "nagle-delayed-ack"
        # The rest of a transfer waits behind all of it.
        is_rest = segment is not None and segment.message in self._transfers
        return "in-flight" if is_rest else "nagle"

    def _sent_again(self, segment: Segment | None) -> str:
        """Return the cause of a repetition: a loss only if no copy came before it."""
        if self._hole is not None:
            return "mtu-black-hole"
        if segment is None or not self._found.has_both_captures:
            return "loss"
        earlier = (
            each
            for each in self._timeline.segments
            if each.offset <= segment.offset < each.end and each.time_ns < segment.time_ns
        )
        if not any(each.arrived_ns is not None for each in earlier):
            return "loss"
        return "accept-queue" if self._found.overflows else ""

    def _clocked_out(self, segment: Segment | None) -> str:
        """Full segments with room at the peer that leave just after an ACK.

        The ACK made room in the congestion window, or in a send buffer of fixed size.
        """
        mss_bytes = self._timeline.mss_bytes
        if segment is None or mss_bytes is None or segment.payload_bytes < mss_bytes:
            return "unknown"
        at = bisect.bisect_right(self._ack_times, segment.time_ns)
        if not at or segment.time_ns - self._ack_times[at - 1] > _SOON_NS:
            return "unknown"
        acked = self._timeline.acks[at - 2].ack if at > 1 else 0
        if segment.offset - acked >= self._full_bytes:
            return "send-buffer"
        return self._by_the_window(segment)

    def _by_the_window(self, segment: Segment | None) -> str:
        """The congestion window: grown from its start, or once more after a pause."""
        if segment is None or segment.message not in self._starts:
            return "congestion-window"
        begin_ns = self._starts[segment.message]
        at = bisect.bisect_left(self._timeline.segments, begin_ns, key=lambda each: each.time_ns)
        rtt_ns = int((self._timeline.rtt_ms or 0) * 1e6)
        idle_ns = begin_ns - self._timeline.segments[at - 1].time_ns if at else 0
        paused = idle_ns > _IDLE_NS + rtt_ns
        return "slow-start-after-idle" if paused else "congestion-window"

    @cached_property
    def _starts(self) -> dict[int, int]:
        starts: dict[int, int] = {}
        for write in self._timeline.writes:
            starts.setdefault(write.message, write.time_ns)
        return starts


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


def closed_windows(timeline: Timeline) -> list[Interval]:
    """Return when a sender whose program is not recorded had no room in the peer's window.

    From the ACK that leaves less room than the next segment takes to the one that makes it, if the
    segment then leaves at once.
    """
    soon_ns = int((timeline.rtt_ms or 0) * 1e6) + _SOON_NS
    found = []
    for segment in timeline.segments:
        if segment.reason is Reason.RETRANSMISSION:
            continue
        least = min(segment.payload_bytes, timeline.mss_bytes or segment.payload_bytes)
        needed = segment.offset + least
        last = bisect.bisect_right(timeline.acks, segment.time_ns, key=lambda ack: ack.time_ns) - 1
        if last < 0 or segment.time_ns - timeline.acks[last].time_ns > soon_ns:
            continue
        first = last
        while first and timeline.acks[first - 1].ack + timeline.acks[first - 1].window < needed:
            first -= 1
        if first < last and timeline.acks[last].ack + timeline.acks[last].window >= needed:
            found.append((timeline.acks[first].time_ns, segment.time_ns))
    return found


def is_behind(reader: SocketCalls, waited: Sequence[Interval]) -> bool:
    """Return whether a reader was busy elsewhere for half of the time in which its window was shut.

    A read that finds data returns at once; if there is data at the next read too, the reader was
    away between the two.
    """
    away = [
        (call.time_ns, after.time_ns)
        for call, after in pairwise(call for call in reader.calls if call.name == "read")
        if call.unread and after.unread
    ]
    shut = merged(waited)
    return _ms(_within(merged(away), shut)) >= 0.5 * _ms(shut)


def black_hole_bytes(found: Conversation, side: str) -> int | None:
    """Return the largest payload of a sender that came through, where larger ones never do.

    None where all is well, or nobody captured at the peer. After an ICMP message the sender repeats
    its bytes in smaller segments; in a black hole it repeats them as they are.
    """
    if not found.has_both_captures:
        return None
    segments = found.timelines[side].segments
    came = (each.payload_bytes for each in segments if each.arrived_ns is not None)
    largest = max(came, default=0)
    sent = Counter(each.offset for each in segments if each.payload_bytes > largest)
    if max(sent.values(), default=0) < _NEVER_CAME:
        return None
    # Not one path of many that was cut: what was small enough passed meanwhile.
    return largest if largest or found.passed_later(side, segments[0].time_ns) else None


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
    """Return when the client waited, as far as the packets were looked at.

    The handshake; a server that speaks first; each message until its answer has been read, or until
    the client gave up.
    """
    client, server = found.timelines.get("client"), found.timelines.get("server")
    result = [handshake] if (handshake := found.handshake_ns) else []
    writes = client.writes if client is not None else ()
    if server is not None and server.segments and handshake:
        first = server.segments[0]
        came_ns = first.arrived_ns or first.time_ns
        sent = client.segments[0].time_ns if client is not None and client.segments else came_ns + 1
        if came_ns < sent:
            result.append((handshake[1], came_ns))
    if client is not None and writes:
        messages = client.message_spans_ns()
        last = writes[-1].message
        answered = any(mark.message == last and mark.name in ENDS_MESSAGE for mark in client.marks)
        if not answered and (given_up_ns := found.given_up_ns) is not None:
            messages[last] = messages[last][0], max(messages[last][1], given_up_ns)
        return _within(merged([*result, *messages.values()]), [found.looked_at_ns])
    for timeline in (client, server):
        if timeline is not None and timeline.segments:
            end_ns = max(each.acked_ns or each.time_ns for each in timeline.segments)
            result.append((timeline.start_ns, end_ns))
    return _within(merged(result), [found.looked_at_ns])


def requests(found: Conversation) -> int:
    """The number of messages that the client sent."""
    client = found.timelines.get("client")
    return client.messages if client else 0


def _whose_turn(nexts: Mapping[str, Sequence[int]], until_ns: int) -> str:
    """Return the side that acts next: with nothing in flight, the other one waited for it.

    A client that waits and never gets an answer waited for the server.
    """
    found = []
    for side, times in nexts.items():
        at = bisect.bisect_left(times, until_ns - 1_000_000)
        if at < len(times):
            found.append((times[at], side))
    return min(found)[1] if found else "server"


def _by_kernel(found: Conversation, total: dict[str, float]) -> None:
    """Take the kernel's own counts of full buffers and windows, which no packet shows."""
    for socket in found.sockets.values():
        counts = (
            ("send-buffer", [call.sndbuf_limited_us for call in socket.calls]),
            ("receive-window", [call.rwnd_limited_us for call in socket.calls]),
        )
        for cause, limited_us in counts:
            limited_ms = max(limited_us, default=0) / 1000
            for source in ("unknown", "in-flight") if cause == "send-buffer" else ("unknown",):
                moved = min(max(limited_ms - total[cause], 0), total[source])
                total[cause] += moved
                total[source] -= moved


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
