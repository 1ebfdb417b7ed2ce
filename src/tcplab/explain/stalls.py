"""Find waits that the calls of both programs and the handshake show, whatever the packets did."""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_high
from typing import Final

from tcplab.explain.intervals import Interval, merged, total_ms
from tcplab.explain.joining import Conversation, other
from tcplab.models import Reason
from tcplab.programs import SocketCalls
from tcplab.programs.calls import HANDS_OVER, SocketCall
from tcplab.timeline import Segment, Timeline
from tcplab.timeline.parts import Ack, time_of

#: Both programs must have waited this long for the end of the recording.
_STUCK_NS: Final = 300_000_000
#: A read is small if it takes at most this many bytes, and a tenth of those that are there.
_SMALL_BYTES: Final = 64
_OF_UNREAD: Final = 10
#: This many small reads, each soon after the one before, are a habit of the program.
_MANY: Final = 1000
_SOON_NS: Final = 10_000_000
#: Segments count as paced if the gap between them is this close to the time that the rate allows.
_PACED: Final = (0.5, 2.0)
#: A sender is limited by a rate that it set if it sends at this share of the rate or faster.
_OF_RATE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Wait:
    """A period in which a connection waited for one reason."""

    start_ns: int
    end_ns: int
    cause: str  #: One of shares.ORDER
    side: str  #: "client" or "server", the side whose bytes or program waited
    segment: Segment | None = None  #: The segment that waited, if it is known
    #: Numbers for the evidence of the cause in causes.toml
    facts: Mapping[str, object] = field(default_factory=dict)
    is_strange: bool = False  #: True for a wait on the link that its own data do not explain
    is_behind: bool = False  #: True for a wait on the link behind data of another connection

    @property
    def interval(self) -> Interval:
        return self.start_ns, self.end_ns

    @property
    def ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


def stalls(conversation: Conversation) -> Iterator[Wait]:
    """Yield the waits of a connection that its calls and handshake show."""
    yield from _deferred(conversation)
    yield from _stuck(conversation)
    for side, socket in conversation.sockets.items():
        yield from _small_reads(side, socket)
        if (timeline := conversation.timelines.get(side)) is not None:
            yield from _paced(side, socket, timeline)
            yield from _granted(side, timeline, conversation.timelines.get(other(side)))


# ---- programs that wait for each other -----------------------------------------------------------


def _stuck(conversation: Conversation) -> Iterator[Wait]:
    """Yield the wait of two programs that write, or that read, until the recording ends."""
    if len(conversation.sockets) < 2:
        return
    end_ns = min(conversation.end_ns, *_ends(conversation))
    calls = {
        side: [call for call in socket.calls if call.time_ns < end_ns]
        for side, socket in conversation.sockets.items()
    }
    if not all(calls.values()):
        return
    last = {side: several[-1] for side, several in calls.items()}
    sent = dict.fromkeys(calls, 0)
    for side, timeline in conversation.timelines.items():
        sent[side] = max((s.end for s in timeline.segments if s.time_ns < end_ns), default=0)
    unread = {side: sent[other(side)] - call.read for side, call in last.items()}
    times = [call.time_ns for call in last.values()]
    for timeline in conversation.timelines.values():
        fresh = (s.time_ns for s in timeline.segments if s.reason is not Reason.RETRANSMISSION)
        times.append(max(fresh, default=0))
    interval = max(time_ns for time_ns in times if time_ns < end_ns), end_ns
    if end_ns == 1 << 63 or end_ns - interval[0] < _STUCK_NS:
        return
    if all(call.name in HANDS_OVER and unread[side] > 0 for side, call in last.items()):
        yield Wait(*interval, "deadlock", "client", facts=unread)
    elif _waits_for_the_end(calls, unread, sent["client"]):
        yield Wait(*interval, "no-end", "server", facts={"sent": sent["client"]})


def _waits_for_the_end(
    calls: dict[str, list[SocketCall]], unread: dict[str, int], sent: int
) -> bool:
    """Return whether the server reads on, although the client sent all that it had to send.

    A client that polls may make no call to read.
    """
    asked = [call for call in calls["client"] if call.name in HANDS_OVER]
    answers = [call for call in calls["server"] if call.name in HANDS_OVER]
    if not asked or (answers and answers[-1].time_ns > asked[-1].time_ns):
        return False
    wrote = asked[-1]
    # A read takes what was there when it began, and ends. So the server's read waits only if there
    # was nothing.
    idle = unread["server"] == 0 and unread["client"] <= calls["client"][-1].unread
    return idle and calls["server"][-1].name == "read" and wrote.written + wrote.asked_bytes <= sent


def _ends(conversation: Conversation) -> list[int]:
    """Return when the client ended the connection. What its server does later is no wait."""
    sent = conversation.rows.sent_by("client")
    closes = [call for call in conversation.sockets["client"].calls if call.name == "close"]
    ends = sent["time_ns"][sent.is_fin | sent.is_rst]
    return [int(ends.min(initial=1 << 62)), *(one.time_ns for one in closes)]


# ---- options -------------------------------------------------------------------------------------


def _deferred(conversation: Conversation) -> Iterator[Wait]:
    """Yield the wait for a repeated SYN-ACK under TCP_DEFER_ACCEPT (tcp(7))."""
    answers = conversation.syns("server")["time_ns"].tolist()
    server = conversation.sockets.get("server")
    option = server.fixed("defer_accept") if server is not None else None
    if option and len(answers) > 1:
        facts = {"option": option, "times": len(answers)}
        yield Wait(answers[0], answers[-1], "defer-accept", "server", facts=facts)


def _paced(side: str, socket: SocketCalls, timeline: Timeline) -> Iterator[Wait]:
    """Yield the pauses of a sender whose program limits its rate by SO_MAX_PACING_RATE."""
    rate = socket.fixed("max_pacing_rate")
    segments = timeline.segments
    if not rate or rate == -1:
        return  # no limit
    rate &= 0xFFFFFFFF
    gaps = []
    for before, after in pairwise(segments):
        gap_ns = after.time_ns - before.time_ns
        allowed_ns = before.payload_bytes * 1e9 / rate
        if _PACED[0] * allowed_ns <= gap_ns <= _PACED[1] * allowed_ns + 1e6:
            gaps.append((before.time_ns, after.time_ns))
    paced = merged(gaps)
    sent = sum(s.payload_bytes for s in segments)
    if sent * 1000 / rate >= _OF_RATE * total_ms(paced):
        facts = {"rate": rate, "count": len(gaps)}
        yield from (Wait(*interval, "pacing-rate", side, facts=facts) for interval in paced)


# ---- small reads ---------------------------------------------------------------------------------


def _small_reads(side: str, socket: SocketCalls) -> Iterator[Wait]:
    """Yield the time in which a program takes few of the bytes that it could read."""
    small: list[SocketCall] = []
    taken = 0
    for call, after in pairwise(socket.calls):
        size = after.read - call.read
        few = 0 < size <= _SMALL_BYTES and call.unread >= _OF_UNREAD * size
        if call.name == "read" and few:
            small.append(call)
            taken += size
    if len(small) < _MANY:
        return
    facts = {
        "taken": taken,
        "count": len(small),
        "size": f"{taken / len(small):.0f} byte{'s' * (taken >= 1.5 * len(small))}",
        "unread": max(call.unread for call in small),
    }
    times = pairwise(call.time_ns for call in [*small, socket.calls[-1]])
    for interval in merged((start, end) for start, end in times if end - start <= _SOON_NS):
        yield Wait(*interval, "small-reads", side, facts=facts)


# ---- a window of the protocol above TCP ----------------------------------------------------------

#: Maximum size of a message with which a peer grants more window. Two HTTP/2 frames in a TLS record
#: take 56 bytes.
_GRANT_BYTES: Final = 256
#: A sender that was waiting for a message continues within this time after it.
_GRANT_SOON_NS: Final = 3_000_000
#: Shorter pauses cannot be distinguished from the program's work between two writes.
_PAUSE_NS: Final = 2_000_000
#: This many pauses, with this many full segments between them, make a pattern.
_PAUSES: Final = 3
_BURST_SEGMENTS: Final = 4


def _granted(side: str, timeline: Timeline, peer: Timeline | None) -> Iterator[Wait]:
    """Yield the pauses of a sender that a protocol's own window causes, if there are enough.

    During such a pause the peer's TCP window has room, the kernel holds no data, and the program
    writes as soon as a short message arrives. A client that waits for an answer before its next
    request behaves similarly. But such a client has read the whole answer, while the message of a
    peer that grants more window acknowledges less than the sender had sent. A request that is sent
    again does so, too.
    """
    if not timeline.writes or timeline.mss_bytes is None:
        return
    grants = [ack for ack in timeline.acks if 0 < ack.payload_bytes <= _GRANT_BYTES]
    pauses = _pauses(timeline, grants, _GRANT_SOON_NS)
    sent = peer.segments if peer is not None else ()
    again = {one.arrived_ns for one in sent if one.reason is Reason.RETRANSMISSION}
    fresh = [ack for ack in grants if ack.time_ns not in again]
    early = [ack for ack in fresh if _sent_by(timeline, ack.time_ns) > ack.ack]
    if len(pauses) < _PAUSES or len(early) < len(pauses) / 8:
        return
    starts = [before.end for before, _after in pauses]
    bursts = [after - before for before, after in pairwise(starts)]
    if median_high(bursts) < _BURST_SEGMENTS * timeline.mss_bytes:
        return
    # Once the pattern is known, a program that was slow to continue was waiting, too.
    pauses = _pauses(timeline, grants, 1 << 62)
    in_flight = [before.end - timeline.last_ack(before.time_ns).ack for before, _ in pauses]
    facts = {
        "reader": other(side),
        "times": len(pauses),
        "in_flight": median_high(in_flight),
        "room": min(_room(timeline, before) for before, _after in pauses),
    }
    for before, after in pauses:
        yield Wait(before.time_ns, after.time_ns, "protocol-window", side, facts=facts)


def _pauses(
    timeline: Timeline, grants: Sequence[Ack], soon_ns: int
) -> list[tuple[Segment, Segment]]:
    """Return the segments around each pause that a short message ended, with room in the window."""
    pauses = []
    for before, after in pairwise(timeline.segments):
        held_ns = (after.waited_ms or 0) * 1e6
        if after.time_ns - before.time_ns < _PAUSE_NS or held_ns > _GRANT_SOON_NS:
            continue
        at = bisect.bisect_right(grants, after.time_ns, key=time_of)
        since_ns = max(before.time_ns, after.time_ns - soon_ns)
        granted = at and grants[at - 1].time_ns >= since_ns
        if granted and _room(timeline, before) >= (timeline.mss_bytes or 0):
            pauses.append((before, after))
    return pauses


def _room(timeline: Timeline, segment: Segment) -> int:
    last = timeline.last_ack(segment.time_ns)
    return last.ack + last.window - segment.end


def _sent_by(timeline: Timeline, time_ns: int) -> int:
    at = bisect.bisect_left(timeline.segments, time_ns, key=time_of)
    return timeline.segments[at - 1].end if at else 0
