"""Many small writes: data that left in small segments, one after the other, for nobody's good."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcplab.explain.joining import Conversation
from tcplab.models import Reason
from tcplab.timeline import Segment, Timeline

#: A shorter run of small segments is a message in parts, and a pause of this length a reason of
#: the program's own to send what it has: nobody would want to wait longer for more.
_RUN: Final = 20
_PAUSE_NS: Final = 1_000_000
#: So many segments have to be too many, and at least so large a share of the sender's.
_TOO_MANY: Final = 100
_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class SmallSegments:
    """Small segments of one sender, with no pause between them."""

    side: str  #: "client", "server"
    writes: int  #: Number of writes that they carry; 0 if its program is not recorded
    segments: int  #: How many
    payload_bytes: int  #: Data in all of them
    full: int  #: How many full segments would have carried it
    header_bytes: int  #: Ethernet, IP and TCP, of each


def small_segments(found: Conversation) -> Iterator[SmallSegments]:
    """Senders of a connection that fill no segment though the data for it is there.

    Nagle's algorithm would have filled them, so it is off, and so is the cork.
    """
    for side, timeline in found.timelines.items():
        if (mss_bytes := timeline.mss_bytes) is None:
            continue
        runs = [run for run in _runs(timeline, mss_bytes) if len(run) >= _RUN]
        count = sum(map(len, runs))
        sizes = [sum(each.payload_bytes for each in run) for run in runs]
        full = sum(math.ceil(size / mss_bytes) for size in sizes)
        if count - full >= max(_TOO_MANY, _SHARE * len(timeline.segments)):
            writes = {number for run in runs for each in run for number in each.writes}
            yield SmallSegments(side, len(writes), count, sum(sizes), full, _header(found, side))


def _runs(timeline: Timeline, mss_bytes: int) -> Iterator[Sequence[Segment]]:
    """Small segments of a message, each ready within _PAUSE_NS after the one before."""
    known = timeline.nodelay or any(mark.name == "nodelay" for mark in timeline.marks)
    if timeline.nodelay is False and not known:
        return
    run: list[Segment] = []
    for each in timeline.segments:
        small = each.payload_bytes < mss_bytes and each.reason is not Reason.RETRANSMISSION
        if run and not (small and _follows(run[-1], each, known)):
            yield run
            run = []
        if small:
            run.append(each)
    yield run


def _follows(before: Segment, after: Segment, nodelay: bool) -> bool:
    ready_ns = after.time_ns - round((after.waited_ms or 0) * 1e6)
    if after.message != before.message or ready_ns - before.time_ns > _PAUSE_NS:
        return False
    # By the segments alone: with Nagle's algorithm only one small segment is in flight.
    return nodelay or before.acked_ns is None or before.acked_ns > after.time_ns


def _header(found: Conversation, side: str) -> int:
    rows = found.rows[found.rows["direction"] == (side == "server")]
    rows = rows[rows["payload_bytes"] > 0]
    return int(np.median(rows["wire_bytes"].astype(int) - rows["payload_bytes"]))
