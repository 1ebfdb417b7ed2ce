"""Divide the time that a connection's client waited among the causes."""

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from tcplab.explain.causes import CAUSES
from tcplab.explain.intervals import Interval, merged, shared_out, total_ms, within, without
from tcplab.explain.joining import NEVER_NS, Conversation, other
from tcplab.explain.stalls import Wait, stalls
from tcplab.models import Reason
from tcplab.programs import SocketCalls
from tcplab.timeline import Hold, Segment, Timeline
from tcplab.timeline.parts import ENDS_MESSAGE, time_of

#: Causes by priority. A moment to which several causes apply counts for the first of them.
#: Avoidable causes come before causes that merely occur at the same time.
ORDER: Final = tuple(CAUSES["order"]["causes"].split())
_OF_REASON: Final = {
    Reason.RETRANSMISSION: "loss",
    Reason.WINDOW_LIMITED: "receive-window",
    Reason.SNDBUF_LIMITED: "send-buffer",
    Reason.RATE_LIMITED: "link-rate",
    Reason.CWND_LIMITED: "congestion-window",
    Reason.DEFERRED: "congestion-window",
    Reason.UNKNOWN: "unknown",
}
#: A segment that leaves within this time after an ACK was waiting for that ACK.
_SOON_NS: Final = 3_000_000
#: This many waits for a delayed ACK make a pattern, even if the program is not recorded.
_PATTERN: Final = 3
#: A message of at least this many full segments counts as a transfer.
_TRANSFER_SEGMENTS: Final = 10
#: Bytes sent this many times in large segments that never arrive indicate a black hole.
_NEVER_CAME: Final = 3
#: Messages are written in turn if this share of them is. The machine may delay a call or a packet.
_IN_TURN: Final = 0.9
#: Linux starts slow start again after a pause longer than the RTO, which is at least 200 ms.
_IDLE_NS: Final = 200_000_000
#: It halves the congestion window at least once.
_HALVED: Final = 0.6


def waits(conversation: Conversation) -> Iterator[Wait]:
    """Yield the connection's waits, which include the handshake and the time of data in flight."""
    if (handshake := conversation.handshake_ns) is not None:
        repeated = conversation.overflows and len(conversation.syns("client")) > 1
        facts = {"times": conversation.overflows}
        usual = "in-flight" if conversation.is_fast_open else "handshake"
        cause = "accept-queue" if repeated else usual
        yield Wait(*handshake, cause, "client", facts=facts)
    for side, timeline in conversation.timelines.items():
        yield from _Sender(conversation, side, timeline).waits()
        if not timeline.writes:
            gaps = by_segments(timeline, conversation.rtt_ns - int((timeline.rtt_ms or 0) * 1e6))
            yield from (Wait(*interval, "nagle-delayed-ack", side) for interval in gaps)
            for interval in closed_windows(timeline):
                yield Wait(*interval, "receive-window", side)
        in_flight: dict[str, list[Interval]] = {"handshake": [], "in-flight": []}
        for sent in timeline.segments:
            setting_up = conversation.is_tls and sent.message == 1
            cause = "handshake" if setting_up else "in-flight"
            in_flight[cause].append((sent.time_ns, timeline.arrival_ns(sent)))
        for cause, intervals in in_flight.items():
            yield from (Wait(*interval, cause, side) for interval in merged(intervals))
    yield from stalls(conversation)


def behind_others(waited: Sequence[Sequence[Wait]]) -> list[list[Wait]]:
    """Return the waits of all connections, some of them for the queue that other data made."""
    queued = [
        (number, wait.side, wait.interval)
        for number, several in enumerate(waited)
        for wait in several
        if wait.cause == "link-rate"
    ]
    result = []
    for number, several in enumerate(waited if queued else ()):
        others = {
            side: merged(
                interval for i, its_side, interval in queued if (i != number and its_side == side)
            )
            for side in ("client", "server")
        }
        result.append([_behind(wait, others[wait.side]) for wait in several])
    return result or [*map(list, waited)]


def _behind(wait: Wait, queue: Sequence[Interval]) -> Wait:
    if not wait.is_strange or total_ms(within([wait.interval], queue)) < 0.5 * wait.ms:
        return wait
    return replace(wait, cause="link-rate", is_behind=True)


class _Sender:
    """Decide for each wait of one sender what caused it."""

    def __init__(self, conversation: Conversation, side: str, timeline: Timeline) -> None:
        self._conversation, self._side, self._timeline = conversation, side, timeline
        self._hole = black_hole_bytes(conversation, side)
        passed = f"larger than {self._hole} bytes" if self._hole else "with data"
        self._facts: Mapping[str, Mapping[str, object]] = {
            "mtu-black-hole": {"which": passed},
            "accept-queue": {"times": conversation.overflows},
        }
        self._open_ns = (conversation.handshake_ns or (0, 0))[1]
        self._transfers = _transfers(timeline)
        self._starts = {write.message: write.time_ns for write in reversed(timeline.writes)}
        socket = conversation.sockets.get(side)
        self._unread = _unread(conversation, other(side))
        self._uploads = _uploads(conversation) if side == "server" else []
        fixed = socket is not None and socket.fixed("sndbuf") is not None
        # The kernel also charges its own overhead, so a full buffer may hold only a quarter of its
        # size in data.
        self._full_bytes = socket.sndbuf_bytes // 4 if socket is not None and fixed else 1 << 62

    def waits(self) -> Iterator[Wait]:
        """Yield the sender's holds with their causes."""
        # If several segments share a hold, the first of them was at the head of the queue.
        owners = {
            (hold.start_ns, hold.end_ns, hold.reason): segment
            for segment in reversed(self._timeline.segments)
            for hold in segment.holds
        }
        following = {hold.start_ns: hold for hold in self._timeline.holds}
        for hold in self._timeline.holds:
            segment = owners.get((hold.start_ns, hold.end_ns, hold.reason)) or self._next(hold)
            known = hold
            if hold.reason is Reason.UNKNOWN and segment is None:
                # No segment left at the end of this hold. If another hold starts at that moment,
                # its reason applies.
                known = following.get(hold.end_ns, hold)
            if cause := self._cause(known, segment):
                if cause in ("congestion-window", "unknown") and self._is_ahead(hold):
                    cause = "receive-window"
                strange = hold.where == "wire" and hold.reason is Reason.UNKNOWN
                facts = self._facts.get(cause, {})
                left = [(hold.start_ns, hold.end_ns)]
                if cause.startswith("nagle"):
                    left = without(left, _during(self._uploads, hold))
                for interval in left:
                    yield Wait(*interval, cause, self._side, segment, facts, strange)

    def _is_ahead(self, hold: Hold) -> bool:
        """Return whether the peer's program left data unread for at least half of a wait."""
        wait = [(hold.start_ns, hold.end_ns)]
        return total_ms(within(_during(self._unread, hold), wait)) >= 0.5 * total_ms(wait)

    def _next(self, hold: Hold) -> Segment | None:
        """Return the segment that left when a wait in the kernel ended, or None."""
        segments = self._timeline.segments
        at = bisect.bisect_left(segments, hold.end_ns, key=time_of)
        if hold.where != "kernel" or at == len(segments):
            return None
        return segments[at] if segments[at].time_ns - hold.end_ns < _SOON_NS else None

    def _cause(self, hold: Hold, segment: Segment | None) -> str:
        """Return the cause of a wait, or "" if the wait does not count."""
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
            return "in-flight" if hold.where == "wire" else self._clocked_out(segment)
        if hold.reason is Reason.CWND_LIMITED:
            return self._by_the_window(segment)
        if hold.reason is Reason.WINDOW_LIMITED and hold.start_ns < self._open_ns:
            return "handshake"  # TCP Fast Open without a cookie
        return _OF_REASON[hold.reason]

    def _nagle(self, segment: Segment | None) -> str:
        released = segment.released_by if segment else None
        late = released is not None and self._timeline.acks[released].reason
        if late is Reason.ACK_DELAYED_BY_PEER:
            return "nagle-delayed-ack"
        # The last part of a transfer waits for the whole transfer, so Nagle's algorithm costs
        # nothing. A program that pushes small messages also writes much before it reads.
        at = 0 if segment is None else segment.number - 2
        before = self._timeline.segments[at].payload_bytes if at >= 0 else 0
        is_rest = segment is not None and segment.message in self._transfers
        is_rest = is_rest and before >= (self._timeline.mss_bytes or 0)
        return "in-flight" if is_rest else "nagle"

    def _sent_again(self, segment: Segment | None) -> str:
        """Return the cause of a retransmission, or "" if it was needless and does not count."""
        if self._hole is not None:
            return "mtu-black-hole"
        overflowed = "accept-queue" if self._conversation.overflows else ""
        if segment is None or not self._conversation.has_both_captures:
            return overflowed or "loss"
        return overflowed if self._had_arrived(segment) else "loss"

    def _had_arrived(self, segment: Segment) -> bool:
        """Return whether an earlier copy of some of its bytes had reached the peer."""
        copies, largest = self._arrived
        first = bisect.bisect_left(copies, segment.offset - largest, key=lambda copy: copy.offset)
        last = bisect.bisect_right(copies, segment.offset, key=lambda copy: copy.offset)
        return any(
            copy.end > segment.offset and copy.time_ns < segment.time_ns
            for copy in copies[first:last]
        )

    @cached_property
    def _arrived(self) -> tuple[list[Segment], int]:
        arrived = [one for one in self._timeline.segments if one.arrived_ns is not None]
        largest = max((one.payload_bytes for one in arrived), default=0)
        return sorted(arrived, key=lambda one: one.offset), largest

    def _clocked_out(self, segment: Segment | None) -> str:
        """Return which limit an ACK lifted for a full segment, or "unknown".

        The peer's window had room, so the limit was the congestion window or a fixed send buffer.
        """
        mss_bytes = self._timeline.mss_bytes
        if segment is None or mss_bytes is None or segment.payload_bytes < mss_bytes:
            return "unknown"
        at = bisect.bisect_right(self._timeline.acks, segment.time_ns, key=time_of)
        acks = self._timeline.acks[max(at - 2, 0) : at]
        if not acks or segment.time_ns - acks[-1].time_ns > _SOON_NS:
            return "unknown"
        acked = acks[0].ack if len(acks) > 1 else 0
        if segment.offset - acked >= self._full_bytes:
            return "send-buffer"
        return self._by_the_window(segment)

    def _by_the_window(self, segment: Segment | None) -> str:
        begin_ns = None if segment is None else self._starts.get(segment.message)
        if begin_ns is None:
            return "congestion-window"
        at = bisect.bisect_left(self._timeline.segments, begin_ns, key=time_of)
        rtt_ns = int((self._timeline.rtt_ms or 0) * 1e6)
        idle_ns = begin_ns - self._timeline.segments[at - 1].time_ns if at else 0
        paused = idle_ns > _IDLE_NS + rtt_ns
        if paused:
            until = bisect.bisect_left(self._timeline.segments, begin_ns + rtt_ns, key=time_of)
            in_flight, largest = self._in_flight
            paused = max(in_flight[at:until], default=0) <= _HALVED * largest[at - 1]
        return "slow-start-after-idle" if paused else "congestion-window"

    @cached_property
    def _in_flight(self) -> tuple[list[int], list[int]]:
        """The number of bytes in flight once each segment has left, and the largest so far."""
        line = self._timeline
        in_flight = [one.end - line.last_ack(one.time_ns).ack for one in line.segments]
        return in_flight, [*accumulate(in_flight, max)]


def _during(intervals: Sequence[Interval], hold: Hold) -> Sequence[Interval]:
    first = bisect.bisect_left(intervals, hold.start_ns, key=lambda interval: interval[1])
    return intervals[first : bisect.bisect_left(intervals, hold.end_ns, key=lambda one: one[0])]


def _uploads(conversation: Conversation) -> list[Interval]:
    """Return when the client's own transfers go on, so that it does not wait for an answer."""
    if (client := conversation.timelines.get("client")) is None:
        return []
    full = (one for one in client.segments if one.payload_bytes >= (client.mss_bytes or 1 << 62))
    sent = [(segment.time_ns, client.arrival_ns(segment)) for segment in full]
    held = [(one.start_ns, one.end_ns) for one in client.holds if one.reason in _OF_REASON]
    return merged([*sent, *held])


def _transfers(timeline: Timeline) -> set[int]:
    """Return the messages that are transfers, whose last part Nagle's algorithm may hold."""
    sizes: dict[int, int] = defaultdict(int)
    for write in timeline.writes:
        sizes[write.message] += write.bytes
    least = _TRANSFER_SEGMENTS * (timeline.mss_bytes or 0)
    return {message for message, size in sizes.items() if size >= least}


def by_segments(timeline: Timeline, sender_rtt_ns: int) -> list[Interval]:
    """Return the Nagle × delayed ACK waits of a sender whose program is not recorded.

    The pattern is a small segment, its ACK by a timer, and another small segment as soon as the
    sender has that ACK. One or two of these may be chance. `sender_rtt_ns` is the round-trip time
    from the point of the capture to the sender.
    """
    intervals = []
    segments, acks = timeline.segments, [ack for ack in timeline.acks if ack.newly_acked_bytes]
    late = [a.reason is Reason.ACK_DELAYED_BY_PEER and not a.payload_bytes for a in acks]
    at = np.searchsorted([ack.ack for ack in acks], [segment.end for segment in segments])
    for place in np.flatnonzero(np.array([*late, False])[at[:-1]]).tolist():
        before, after = segments[place : place + 2]
        small = max(before.payload_bytes, after.payload_bytes) < (timeline.mss_bytes or 1 << 16)
        again = Reason.RETRANSMISSION in (before.reason, after.reason)
        later_ns = after.time_ns - acks[at[place]].time_ns
        soon = later_ns >= 0 and abs(later_ns - max(sender_rtt_ns, 0)) <= _SOON_NS
        if small and soon and not again:
            intervals.append((before.time_ns, after.time_ns))
    return intervals if len(intervals) >= _PATTERN else []


def closed_windows(timeline: Timeline) -> list[Interval]:
    """Return when a sender whose program is not recorded lacked room in the peer's window.

    The segment must leave as soon as an ACK makes room.
    """
    segments, acks = timeline.segments, timeline.acks
    soon_ns = int((timeline.rtt_ms or 0) * 1e6) + _SOON_NS
    mss_bytes = timeline.mss_bytes or 1 << 62
    needed, left_ns = np.array(
        [(one.offset + min(one.payload_bytes, mss_bytes), one.time_ns) for one in segments],
        np.int64,
    ).T
    ends = np.array([0, *(ack.ack + ack.window for ack in acks)], np.int64)
    acks_ns = np.array([-(1 << 62), *(ack.time_ns for ack in acks)], np.int64)
    last = np.searchsorted(acks_ns, left_ns, "right") - 1
    opened = (ends[last] >= needed) & (ends[last - 1] < needed) & (last > 1)
    opened &= left_ns - acks_ns[last] <= soon_ns
    intervals = []
    for number in np.flatnonzero(opened).tolist():
        if not number or segments[number].reason is Reason.RETRANSMISSION:
            continue
        first = int(last[number]) - 1
        while first > 1 and ends[first - 1] < needed[number]:
            first -= 1
        start_ns = max(segments[number - 1].time_ns, int(acks_ns[first]))
        intervals.append((start_ns, segments[number].time_ns))
    return intervals


def is_behind(conversation: Conversation, reader: str, waited: Sequence[Interval]) -> bool:
    """Return whether a reader left data unread for at least half of the time in `waited`."""
    calls = conversation.sockets[reader].calls
    reads = [call.time_ns for call in calls if call.name == "read"]
    if not reads:
        return not any(call.read for call in calls)
    shut = merged(waited) or [(reads[0], reads[-1])]
    return total_ms(within(_unread(conversation, reader), shut)) >= 0.5 * total_ms(shut)


def black_hole_bytes(conversation: Conversation, side: str) -> int | None:
    """Return the largest payload that passed an MTU black hole, or None if there is none.

    After an ICMP message, a sender resends in smaller segments; in a black hole, unchanged ones.
    """
    if not conversation.has_both_captures:
        return None
    segments = conversation.timelines[side].segments
    arrived = (segment.payload_bytes for segment in segments if segment.arrived_ns is not None)
    largest = max(arrived, default=0)
    sent = Counter(segment.offset for segment in segments if segment.payload_bytes > largest)
    if max(sent.values(), default=0) < _NEVER_CAME:
        return None
    # On a path that was cut off, small packets would not have passed either.
    passed = conversation.rows.sent_by(side)
    later = ~passed.carries_data & (passed["time_ns"] > segments[0].time_ns)
    return largest if largest or later.any() else None


# ---- the sum -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Division:
    """The client's waiting time on one connection, in which each moment has one cause."""

    intervals: Mapping[str, Sequence[Interval]]
    #: (from, to, ms): time whose cause the packets do not show, but the kernel's counts do
    moved: Sequence[tuple[str, str, float]]

    def ms(self) -> dict[str, float]:
        """Return the time in ms for each cause."""
        total = {cause: total_ms(several) for cause, several in self.intervals.items()}
        return {cause: ms for cause, ms in moved(total, self.moved).items() if ms > 0}


def moved(total: Mapping[str, float], moves: Iterable[tuple[str, str, float]]) -> dict[str, float]:
    """Return the total with time moved from one cause to another, as far as there is any."""
    result = defaultdict(float, total)
    for source, cause, ms in moves:
        some = min(ms, result[source])
        result[source] -= some
        result[cause] += some
    return result


def divided(conversation: Conversation, waited: Iterable[Wait]) -> Division:
    """Divide the client's waiting time among the causes, counting each moment once."""
    waiting = merged(spans(conversation))
    if conversation.only:  # without ACKs, no reason for a wait is known
        return Division({"unknown": waiting}, ())
    by_cause: dict[str, list[Interval]] = {cause: [] for cause in ORDER}
    for wait in waited:
        by_cause[wait.cause].append(wait.interval)
    total, rest = shared_out(by_cause, waiting)
    nexts = {
        side: sorted(event.time_ns for event in timeline.writes or timeline.segments)
        for side, timeline in conversation.timelines.items()
    }
    # A side with bytes to read does not wait for the other one.
    unread = {side: _unread(conversation, side) for side in ("client", "server")}
    has_some, rest = shared_out(unread, rest)
    for side, intervals in has_some.items():
        total[side] += intervals
    for interval, side in zip(rest, _whose_turns(nexts, rest), strict=True):
        total[side].append(interval)
    result = {cause: merged(several) for cause, several in total.items()}
    return Division(result, _by_kernel(conversation, result))


def _unread(conversation: Conversation, side: str) -> list[Interval]:
    """Return when a recorded side had bytes that it had not read."""
    sender = conversation.timelines.get(other(side))
    reads = [event for event in conversation.logs.get(side, ()) if event.name == "read"]
    if sender is None or not reads:
        return []
    events = [(sender.arrival_ns(segment), segment.end, 0) for segment in sender.segments]
    read = 0
    for event in reads:
        read += event.bytes
        events.append((event.time_ns, 0, read))
    events.append((max(conversation.end_ns, *(time_ns for time_ns, *_ in events)), 0, 0))
    came = taken = 0
    result = []
    for (time_ns, end, read), (until_ns, *_) in pairwise(sorted(events)):
        came, taken = max(came, end), max(taken, read)
        if came > taken:
            result.append((time_ns, until_ns))
    return merged(result)


def spans(conversation: Conversation) -> list[Interval]:
    """Return the periods in which the client waited, within the time that is explained.

    It waits for the handshake, for a server that speaks first, and from each message until it reads
    the answer or gives up. Without a log of the client, the time of all data counts.
    """
    client, server = conversation.timelines.get("client"), conversation.timelines.get("server")
    result = [handshake] if (handshake := conversation.handshake_ns) else []
    given_up_ns = conversation.given_up_ns
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
        if not answered and given_up_ns is not None:
            messages[last] = messages[last][0], max(messages[last][1], given_up_ns)
        return within(merged([*result, *messages.values()]), [conversation.looked_at_ns])
    if handshake and client is None and server is None and given_up_ns is not None:
        result.append((handshake[1], given_up_ns))
    edges: list[int] = []
    for timeline in (client, server):
        if timeline is not None and timeline.segments:
            end_ns = max(segment.acked_ns or segment.time_ns for segment in timeline.segments)
            if timeline is server:  # a client that only reads waits until it has read
                reads = (e.time_ns for e in conversation.logs.get("client", ()) if e.name == "read")
                end_ns = max(end_ns, *reads, end_ns)
            edges += [timeline.start_ns, end_ns]
    result += [(min(edges), max(edges))] if edges else []
    return within(merged(result), [conversation.looked_at_ns])


def requests(conversation: Conversation) -> int:
    """Return the number of messages that the client sent."""
    client = conversation.timelines.get("client")
    return client.messages if client else 0


def in_turn(conversation: Conversation) -> int:
    """Return the number of messages if the client wrote each with nothing in flight, or else 0.

    Each of them has to cost a round trip, so they must also have taken that long together.
    """
    client = conversation.timelines.get("client")
    if client is None or not client.writes:
        return 0
    began_ns = [write.time_ns for write in client.writes if write.in_message == 1]
    acked_ns = sorted(segment.acked_ns or 1 << 63 for segment in client.segments)
    sent_ns = [segment.time_ns for segment in client.segments]
    alone = sum(
        bisect.bisect_left(sent_ns, time_ns) <= bisect.bisect_right(acked_ns, time_ns)
        for time_ns in began_ns
    )
    took_ms = total_ms(within(merged(spans(conversation)), [(began_ns[0], 1 << 63)]))
    lasted = took_ms >= _IN_TURN * len(began_ns) * (client.rtt_ms or 0)
    return len(began_ns) if lasted and alone >= _IN_TURN * len(began_ns) else 0


def _whose_turns(nexts: Mapping[str, Sequence[int]], waited: Sequence[Interval]) -> Iterator[str]:
    """Yield each wait's awaited side, whose event comes next. If none does, it is the server.

    A wait ends when a packet leaves, and on a busy machine its write began milliseconds before.
    """
    starts, ends = np.array(waited, np.int64).reshape(-1, 2).T
    since = ends - np.clip((ends - starts) // 2, 1_000_000, 5_000_000)
    turns = {}
    for side in ("client", "server"):
        times = np.array([*nexts.get(side, ()), NEVER_NS])
        turns[side] = times[np.searchsorted(times[:-1], since)]
    is_client = (turns["client"] <= turns["server"]) & (turns["client"] < NEVER_NS)
    return (("server", "client")[turn] for turn in is_client.tolist())


def limited_us(socket: SocketCalls, count: str) -> int:
    """Return the latest value of a counter of limited time, such as "rwnd_limited_us"."""
    return max((getattr(call, count) for call in socket.calls), default=0)


def _by_kernel(
    conversation: Conversation, intervals: Mapping[str, Sequence[Interval]]
) -> list[tuple[str, str, float]]:
    """Return the moves of unexplained time, or time in flight, to limits that the kernel counted.

    With a receive buffer of fixed size, the congestion window's time moves, too: losses hide how
    far the peer's window was used.
    """
    total = defaultdict(float, {cause: total_ms(some) for cause, some in intervals.items()})
    moves = []
    for side, socket in conversation.sockets.items():
        reader = conversation.sockets.get(other(side))
        is_fixed = reader is not None and reader.fixed("rcvbuf") is not None
        counts = (
            ("send-buffer", ("unknown", "in-flight"), "sndbuf_limited_us"),
            ("receive-window", ("unknown", "congestion-window")[: 1 + is_fixed], "rwnd_limited_us"),
        )
        for cause, sources, count in counts:
            limited_ms = limited_us(socket, count) / 1000
            for source in sources:
                ms = min(max(limited_ms - total[cause], 0), total[source])
                total[cause] += ms
                total[source] -= ms
                moves.append((source, cause, ms))
    return moves
