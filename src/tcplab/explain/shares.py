"""Divide the time that a connection's client waited among the causes."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

from tcplab.explain.intervals import Interval, merged, total_ms, within, without
from tcplab.explain.joining import Conversation
from tcplab.explain.protocol_window import protocol_window
from tcplab.explain.stalls import stalls
from tcplab.models import Reason
from tcplab.programs import SocketCalls
from tcplab.timeline import Hold, Segment, Timeline
from tcplab.timeline.parts import ENDS_MESSAGE

#: Causes by priority. A moment to which several causes apply counts for the first of them.
#: Avoidable causes come before causes that merely occur at the same time.
ORDER: Final = (
    "deadlock",
    "no-end",
    "defer-accept",
    "nagle-delayed-ack",
    "nagle",
    "forgotten-cork",
    "mtu-black-hole",
    "accept-queue",
    "loss",
    "small-reads",
    "pacing-rate",
    "receive-window",
    "send-buffer",
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


@dataclass(frozen=True, slots=True)
class Wait:
    """A period in which a connection waited for one reason."""

    start_ns: int
    end_ns: int
    cause: str  #: One of ORDER
    side: str  #: "client" or "server", the side whose bytes waited
    segment: Segment | None = None  #: The segment that waited, if it is known
    is_strange: bool = False  #: True for a wait on the link that its own data do not explain
    is_behind: bool = False  #: True for a wait on the link behind data of another connection


def waits(conversation: Conversation) -> list[Wait]:
    """Return the connection's waits, which include the handshake and the time of data in flight."""
    result = []
    if (handshake := conversation.handshake_ns) is not None:
        repeated = conversation.overflows and len(conversation.syns("client")) > 1
        result.append(Wait(*handshake, "accept-queue" if repeated else "handshake", "client"))
    for side, timeline in conversation.timelines.items():
        sender = _Sender(conversation, side, timeline)
        # If several segments share a hold, the first of them was at the head of the queue.
        owners = {
            (hold.start_ns, hold.end_ns, hold.reason): segment
            for segment in reversed(timeline.segments)
            for hold in segment.holds
        }
        following = {hold.start_ns: hold for hold in timeline.holds}
        for hold in timeline.holds:
            segment = owners.get((hold.start_ns, hold.end_ns, hold.reason)) or sender.next(hold)
            known = hold
            if hold.reason is Reason.UNKNOWN and segment is None:
                # No segment left at the end of this hold. If another hold starts at that moment,
                # its reason applies.
                known = following.get(hold.end_ns, hold)
            if cause := sender.cause(known, segment):
                if cause in ("congestion-window", "unknown") and sender.is_ahead(hold):
                    cause = "receive-window"
                strange = hold.where == "wire" and hold.reason is Reason.UNKNOWN
                wait = Wait(hold.start_ns, hold.end_ns, cause, side, segment, strange)
                result.append(wait)
        if not timeline.writes:
            gaps = by_segments(timeline, conversation.rtt_ns - int((timeline.rtt_ms or 0) * 1e6))
            result += [Wait(*interval, "nagle-delayed-ack", side) for interval in gaps]
            result += [
                Wait(*interval, "receive-window", side) for interval in closed_windows(timeline)
            ]
        if (window := protocol_window(timeline)) is not None:
            result += [Wait(*interval, "protocol-window", side) for interval in window.pauses_ns]
        half_ns = int((timeline.rtt_ms or 0) * 5e5)
        for sent in timeline.segments:
            end_ns = sent.arrived_ns or sent.time_ns + half_ns
            setting_up = conversation.is_tls and sent.message == 1
            cause = "handshake" if setting_up else "in-flight"
            result.append(Wait(sent.time_ns, end_ns, cause, side, sent))
    result += [Wait(*stall.interval, stall.cause, stall.side) for stall in stalls(conversation)]
    return result


def behind_others(waited: Sequence[Sequence[Wait]]) -> list[list[Wait]]:
    """Return the waits of all connections, some of them for the queue that other data made."""
    queues = [
        {
            side: merged(
                (wait.start_ns, wait.end_ns)
                for wait in several
                if (wait.cause, wait.side) == ("link-rate", side)
            )
            for side in ("client", "server")
        }
        for several in waited
    ]
    result = []
    for number, several in enumerate(waited):
        others = {
            side: merged(
                interval
                for i, by_side in enumerate(queues)
                if i != number
                for interval in by_side[side]
            )
            for side in ("client", "server")
        }
        result.append([_behind(wait, others[wait.side]) for wait in several])
    return result


def _behind(wait: Wait, queue: Sequence[Interval]) -> Wait:
    whole = [(wait.start_ns, wait.end_ns)]
    if not wait.is_strange or total_ms(within(whole, queue)) < 0.5 * total_ms(whole):
        return wait
    return replace(wait, cause="link-rate", is_behind=True)


class _Sender:
    """Decide for each wait of one sender what caused it."""

    def __init__(self, conversation: Conversation, side: str, timeline: Timeline) -> None:
        self._conversation, self._side, self._timeline = conversation, side, timeline
        self._hole = black_hole_bytes(conversation, side)
        self._transfers = _transfers(timeline)
        self._ack_times = [ack.time_ns for ack in timeline.acks]
        socket = conversation.sockets.get(side)
        reader = conversation.sockets.get("server" if side == "client" else "client")
        self._away = [] if reader is None else _away(reader)
        fixed = socket is not None and socket.fixed("sndbuf") is not None
        # The kernel also charges its own overhead, so a full buffer may hold only a quarter of its
        # size in data.
        self._full_bytes = socket.sndbuf_bytes // 4 if socket is not None and fixed else 1 << 62

    def is_ahead(self, hold: Hold) -> bool:
        """Return whether the peer's program left data unread for at least half of a wait."""
        first = bisect.bisect_left(self._away, hold.start_ns, key=lambda away: away[1])
        last = bisect.bisect_left(self._away, hold.end_ns, key=lambda away: away[0])
        wait = [(hold.start_ns, hold.end_ns)]
        return total_ms(within(self._away[first:last], wait)) >= 0.5 * total_ms(wait)

    def next(self, hold: Hold) -> Segment | None:
        """Return the segment that left when a wait in the kernel ended, or None."""
        segments = self._timeline.segments
        at = bisect.bisect_left(segments, hold.end_ns, key=lambda segment: segment.time_ns)
        if hold.where != "kernel" or at == len(segments):
            return None
        return segments[at] if segments[at].time_ns - hold.end_ns < _SOON_NS else None

    def cause(self, hold: Hold, segment: Segment | None) -> str:
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
        copies, offset = self._arrived, segment.offset
        first = bisect.bisect_left(copies, offset - self._largest, key=lambda copy: copy.offset)
        last = bisect.bisect_right(copies, offset, key=lambda copy: copy.offset)
        return any(
            copy.end > offset and copy.time_ns < segment.time_ns for copy in copies[first:last]
        )

    @cached_property
    def _arrived(self) -> list[Segment]:
        arrived = (one for one in self._timeline.segments if one.arrived_ns is not None)
        return sorted(arrived, key=lambda one: one.offset)

    @cached_property
    def _largest(self) -> int:
        return max((one.payload_bytes for one in self._arrived), default=0)

    def _clocked_out(self, segment: Segment | None) -> str:
        """Return which limit an ACK lifted for a full segment, or "unknown".

        The peer's window had room, so the limit was the congestion window or a fixed send buffer.
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
        if segment is None or segment.message not in self._starts:
            return "congestion-window"
        begin_ns = self._starts[segment.message]
        at = bisect.bisect_left(
            self._timeline.segments, begin_ns, key=lambda segment: segment.time_ns
        )
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
    acks = [ack for ack in timeline.acks if ack.newly_acked_bytes]
    for before, after in pairwise(timeline.segments):
        at = bisect.bisect_left(acks, before.end, key=lambda ack: ack.ack)
        if at == len(acks) or acks[at].payload_bytes or not _are_small(timeline, before, after):
            continue
        later_ns = after.time_ns - acks[at].time_ns
        soon = later_ns >= 0 and abs(later_ns - max(sender_rtt_ns, 0)) <= _SOON_NS
        if acks[at].reason is Reason.ACK_DELAYED_BY_PEER and soon:
            intervals.append((before.time_ns, after.time_ns))
    return intervals if len(intervals) >= _PATTERN else []


def _are_small(timeline: Timeline, *segments: Segment) -> bool:
    full = timeline.mss_bytes or 1 << 16
    return all(
        segment.payload_bytes < full and segment.reason is not Reason.RETRANSMISSION
        for segment in segments
    )


def closed_windows(timeline: Timeline) -> list[Interval]:
    """Return when a sender whose program is not recorded lacked room in the peer's window.

    A period starts when the previous segment has left and an ACK leaves too little room for the
    next one. It ends at the ACK that makes room, if the segment then leaves immediately.
    """
    soon_ns = int((timeline.rtt_ms or 0) * 1e6) + _SOON_NS
    intervals = []
    for before, segment in pairwise(timeline.segments):
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
            start_ns = max(before.time_ns, timeline.acks[first].time_ns)
            intervals.append((start_ns, segment.time_ns))
    return intervals


def is_behind(reader: SocketCalls, waited: Sequence[Interval]) -> bool:
    """Return whether a reader was busy elsewhere for at least half of the time in `waited`."""
    reads = [call for call in reader.calls if call.name == "read"]
    if not reads:
        return not any(call.read for call in reader.calls)
    away = _away(reader)
    shut = merged(waited) or [(reads[0].time_ns, reads[-1].time_ns)]
    return bool(away) and total_ms(within(away, shut)) >= 0.5 * total_ms(shut)


def _away(reader: SocketCalls) -> list[Interval]:
    """Return when a program did something else while it had data to read.

    A read that finds data returns immediately. If the next read finds data too, the program did
    something else in between. A first read that finds data came late as well.
    """
    reads = [call for call in reader.calls if call.name == "read"]
    away = [
        (call.time_ns, after.time_ns)
        for call, after in pairwise(reads)
        if call.unread and after.unread
    ]
    if reads and reads[0].unread:
        away.append((reader.seen_ns, reads[0].time_ns))
    return merged(away)


def black_hole_bytes(conversation: Conversation, side: str) -> int | None:
    """Return the largest payload that passed an MTU black hole, or None if there is none.

    This needs a capture at the peer. After an ICMP message, a sender resends its bytes in smaller
    segments. In a black hole it resends them unchanged.
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
    return largest if largest or conversation.passed_later(side, segments[0].time_ns) else None


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
    total: dict[str, list[Interval]] = defaultdict(list)
    painted: list[Interval] = []
    by_cause: dict[str, list[Interval]] = defaultdict(list)
    for wait in waited:
        by_cause[wait.cause].append((wait.start_ns, wait.end_ns))
    for cause in ORDER:
        fresh = without(merged(by_cause.pop(cause, [])), painted)
        total[cause] += within(fresh, waiting)
        painted = merged([*painted, *fresh])
    nexts = {
        side: sorted(event.time_ns for event in timeline.writes or timeline.segments)
        for side, timeline in conversation.timelines.items()
    }
    rest = without(waiting, painted)
    # A side with bytes to read does not wait for the other one.
    for side in ("client", "server"):
        has_some = within(rest, _unread(conversation, side))
        total[side] += has_some
        rest = without(rest, has_some)
    for start, end in rest:
        total[_whose_turn(nexts, end)].append((start, end))
    result = {cause: merged(several) for cause, several in total.items()}
    return Division(result, _by_kernel(conversation, result))


def _unread(conversation: Conversation, side: str) -> list[Interval]:
    """Return when a recorded side had bytes that it had not read."""
    sender = conversation.timelines.get("server" if side == "client" else "client")
    reads = [event for event in conversation.logs.get(side, ()) if event.name == "read"]
    if sender is None or not reads:
        return []
    half_ns = int((sender.rtt_ms or 0) * 5e5)
    events = [
        (segment.arrived_ns or segment.time_ns + half_ns, segment.end, 0)
        for segment in sender.segments
    ]
    read = 0
    for event in reads:
        read += event.bytes
        events.append((event.time_ns, 0, read))
    came = taken = 0
    result, since_ns = [], None
    for time_ns, end, read in sorted(events):
        came, taken = max(came, end), max(taken, read)
        if came > taken and since_ns is None:
            since_ns = time_ns
        elif came <= taken and since_ns is not None:
            result.append((since_ns, time_ns))
            since_ns = None
    if since_ns is not None:
        result.append((since_ns, max(conversation.end_ns, since_ns)))
    return merged(result)


def spans(conversation: Conversation) -> list[Interval]:
    """Return the periods in which the client waited, within the time that is explained.

    These periods are the handshake, the time until a server that speaks first does so, and the time
    from each message until its answer has been read or the client gave up. Without a log of the
    client, the time of all data counts.
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
    for timeline in (client, server):
        if timeline is not None and timeline.segments:
            end_ns = max(segment.acked_ns or segment.time_ns for segment in timeline.segments)
            if timeline is server:  # a client that only reads waits until it has read
                reads = (e.time_ns for e in conversation.logs.get("client", ()) if e.name == "read")
                end_ns = max(end_ns, *reads, end_ns)
            result.append((timeline.start_ns, end_ns))
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


def _whose_turn(nexts: Mapping[str, Sequence[int]], until_ns: int) -> str:
    """Return the awaited side, whose event comes next. If none does, it is the server."""
    turns = []
    for side, times in nexts.items():
        at = bisect.bisect_left(times, until_ns - 1_000_000)
        if at < len(times):
            turns.append((times[at], side))
    return min(turns)[1] if turns else "server"


def limited_us(socket: SocketCalls, count: str) -> int:
    """Return the latest value of a counter of limited time, such as "rwnd_limited_us"."""
    return max((getattr(call, count) for call in socket.calls), default=0)


def _by_kernel(
    conversation: Conversation, intervals: Mapping[str, Sequence[Interval]]
) -> list[tuple[str, str, float]]:
    """Return the moves of time to the limits for which the kernel counted it.

    The time was unexplained or in flight. With a receive buffer of fixed size, the time of the
    congestion window is moved as well. Losses hide how far the peer's window was used, but the
    kernel knows it.
    """
    total = defaultdict(float, {cause: total_ms(some) for cause, some in intervals.items()})
    moves = []
    for side, socket in conversation.sockets.items():
        reader = conversation.sockets.get("server" if side == "client" else "client")
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
