"""Detect a flow-control window of a protocol above TCP, such as HTTP/2, SSH or a message queue."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tcplab.explain.joining import other
from tcplab.explain.stalls import Wait
from tcplab.timeline import Segment, Timeline
from tcplab.timeline.parts import Ack

#: Maximum size of a message with which a peer grants more window. Two HTTP/2 frames in a TLS record
#: take 56 bytes.
_GRANT_BYTES: Final = 256
#: A sender that was waiting for a message continues within this time after it.
_SOON_NS: Final = 3_000_000
#: Shorter pauses cannot be distinguished from the program's work between two writes.
_PAUSE_NS: Final = 2_000_000
#: This many pauses, with this many full segments between them, make a pattern.
_PAUSES: Final = 3
_BURST_SEGMENTS: Final = 4


def protocol_window(side: str, timeline: Timeline) -> Iterator[Wait]:
    """Yield the pauses of a sender that a protocol's own window causes, if there are enough.

    During such a pause the peer's TCP window has room, the kernel holds no data, and the program
    writes as soon as a short message arrives. A client that waits for an answer before its next
    request behaves similarly. But such a client has read the whole answer, while the message of a
    peer that grants more window acknowledges less than the sender had sent.
    """
    if not timeline.writes or timeline.mss_bytes is None:
        return
    grants = [ack for ack in timeline.acks if 0 < ack.payload_bytes <= _GRANT_BYTES]
    pauses = _pauses(timeline, grants, _SOON_NS)
    times = [segment.time_ns for segment in timeline.segments]
    early = [ack for ack in grants if _sent_by(timeline, times, ack.time_ns) > ack.ack]
    if len(pauses) < _PAUSES or len(early) < len(pauses) / 8:
        return
    starts = [before.end for before, _after in pauses]
    bursts = sorted(after - before for before, after in pairwise(starts))
    if bursts[len(bursts) // 2] < _BURST_SEGMENTS * timeline.mss_bytes:
        return
    # Once the pattern is known, a program that was slow to continue was waiting, too.
    pauses = _pauses(timeline, grants, 1 << 62)
    in_flight = sorted(before.end - timeline.last_ack(before.time_ns).ack for before, _ in pauses)
    facts = {
        "reader": other(side),
        "times": len(pauses),
        "in_flight": in_flight[len(in_flight) // 2],
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
        if after.time_ns - before.time_ns < _PAUSE_NS or (after.waited_ms or 0) * 1e6 > _SOON_NS:
            continue
        at = bisect.bisect_right(grants, after.time_ns, key=lambda ack: ack.time_ns)
        since_ns = max(before.time_ns, after.time_ns - soon_ns)
        granted = at and grants[at - 1].time_ns >= since_ns
        if granted and _room(timeline, before) >= (timeline.mss_bytes or 0):
            pauses.append((before, after))
    return pauses


def _room(timeline: Timeline, segment: Segment) -> int:
    last = timeline.last_ack(segment.time_ns)
    return last.ack + last.window - segment.end


def _sent_by(timeline: Timeline, times: Sequence[int], time_ns: int) -> int:
    at = bisect.bisect_left(times, time_ns)
    return timeline.segments[at - 1].end if at else 0
