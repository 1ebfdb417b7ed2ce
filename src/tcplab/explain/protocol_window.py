"""A window that a protocol above TCP keeps: HTTP/2, SSH, SFTP, the prefetch of a message queue."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tcplab.timeline import Segment, Timeline
from tcplab.timeline.parts import Ack

#: A message of the peer that grants more is short: two frames of HTTP/2 in a TLS record take 56.
_GRANT_BYTES: Final = 256
#: A sender that waited goes on so soon after the message that it waited for.
_SOON_NS: Final = 3_000_000
#: Shorter pauses are not told from what a program does between two writes.
_PAUSE_NS: Final = 2_000_000
#: So many pauses, of a sender that sends so many full segments between two, are a rule.
_PAUSES: Final = 3
_BURST_SEGMENTS: Final = 4


@dataclass(frozen=True, slots=True)
class ProtocolWindow:
    """The pauses of a sender whose program waits for its peer's leave to send."""

    pauses_ns: Sequence[tuple[int, int]]  #: From the last segment before to the first after it
    in_flight_bytes: int  #: Unacknowledged when the program stopped, usually
    room_bytes: int  #: What TCP's window took beyond that, at least


def protocol_window(timeline: Timeline) -> ProtocolWindow | None:
    """Return the pauses for which a protocol's own window is the reason; None without one.

    In a pause the peer's TCP window has room, the kernel holds nothing, and the program writes as
    soon as a short message has come. A server that waits for the next request looks the same. But
    who asks has read the whole answer before, and who grants has not: his message acknowledges
    less than was sent by then.
    """
    if not timeline.writes or timeline.mss_bytes is None:
        return None
    grants = [ack for ack in timeline.acks if 0 < ack.payload_bytes <= _GRANT_BYTES]
    pauses = [
        (before, after)
        for before, after in pairwise(timeline.segments)
        if _is_pause(timeline, grants, before, after)
    ]
    times = [each.time_ns for each in timeline.segments]
    early = [ack for ack in grants if _sent_by(timeline, times, ack.time_ns) > ack.ack]
    if len(pauses) < _PAUSES or len(early) < len(pauses) / 4:
        return None
    starts = [before.end for before, _after in pauses]
    bursts = sorted(after - before for before, after in pairwise(starts))
    if bursts[len(bursts) // 2] < _BURST_SEGMENTS * timeline.mss_bytes:
        return None
    in_flight = sorted(before.end - _last_ack(timeline, before).ack for before, _ in pauses)
    return ProtocolWindow(
        [(before.time_ns, after.time_ns) for before, after in pauses],
        in_flight[len(in_flight) // 2],
        min(_room(timeline, before) for before, _after in pauses),
    )


def _is_pause(timeline: Timeline, grants: Sequence[Ack], before: Segment, after: Segment) -> bool:
    """Whether the program wrote nothing between two segments until a short message had come."""
    if after.time_ns - before.time_ns < _PAUSE_NS or (after.waited_ms or 0) * 1e6 > _SOON_NS:
        return False
    at = bisect.bisect_right(grants, after.time_ns, key=lambda ack: ack.time_ns)
    if not at or grants[at - 1].time_ns < max(before.time_ns, after.time_ns - _SOON_NS):
        return False
    return _room(timeline, before) >= (timeline.mss_bytes or 0)


def _room(timeline: Timeline, segment: Segment) -> int:
    """Return the room that the peer's window left behind a segment as it was sent."""
    last = _last_ack(timeline, segment)
    return last.ack + last.window - segment.end


def _last_ack(timeline: Timeline, segment: Segment) -> Ack:
    at = bisect.bisect_right(timeline.acks, segment.time_ns, key=lambda ack: ack.time_ns)
    return timeline.acks[max(at - 1, 0)]


def _sent_by(timeline: Timeline, times: Sequence[int], time_ns: int) -> int:
    at = bisect.bisect_left(times, time_ns)
    return timeline.segments[at - 1].end if at else 0
