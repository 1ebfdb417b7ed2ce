"""Detect series of small segments that could have been full ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tcplab.explain.joining import Conversation
from tcplab.models import Reason
from tcplab.timeline import Segment, Timeline

#: A shorter run of small segments is a message in several parts.
_RUN: Final = 20
#: A program that pauses for longer is right to send at once, because waiting would add delay.
_PAUSE_NS: Final = 1_000_000
#: At least this many segments must be unnecessary, and at least this share of all the sender's
#: segments.
_TOO_MANY: Final = 100
_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class SmallSegments:
    """Small segments of one sender, without a pause between them."""

    side: str  #: "client" or "server"
    writes: int  #: Number of writes whose bytes the segments carry, or 0 without a log
    segments: int
    payload_bytes: int  #: Number of data bytes in all segments
    full: int  #: Number of full segments that could have carried the data


def small_segments(conversation: Conversation) -> Iterator[SmallSegments]:
    """Yield the small segments of each sender that sends many of them although more data is ready.

    Nagle's algorithm or a cork would have filled the segments, so both must be off.
    """
    for side, timeline in conversation.timelines.items():
        if (mss_bytes := timeline.mss_bytes) is None:
            continue
        runs = [run for run in _runs(timeline, mss_bytes) if len(run) >= _RUN]
        count = sum(map(len, runs))
        sizes = [sum(segment.payload_bytes for segment in run) for run in runs]
        full = sum(math.ceil(size / mss_bytes) for size in sizes)
        if count - full >= max(_TOO_MANY, _SHARE * len(timeline.segments)):
            writes = {number for run in runs for segment in run for number in segment.writes}
            yield SmallSegments(side, len(writes), count, sum(sizes), full)


def _runs(timeline: Timeline, mss_bytes: int) -> Iterator[Sequence[Segment]]:
    """Yield runs of small segments of a message, each written within _PAUSE_NS of the previous."""
    known = timeline.nodelay or any(mark.name == "nodelay" for mark in timeline.marks)
    if timeline.nodelay is False and not known:
        return
    run: list[Segment] = []
    for segment in timeline.segments:
        small = segment.payload_bytes < mss_bytes and segment.reason is not Reason.RETRANSMISSION
        if run and not (small and _follows(run[-1], segment, known)):
            yield run
            run = []
        if small:
            run.append(segment)
    yield run


def _follows(before: Segment, after: Segment, nodelay: bool) -> bool:
    ready_ns = after.time_ns - round((after.waited_ms or 0) * 1e6)
    if after.message != before.message or ready_ns - before.time_ns > _PAUSE_NS:
        return False
    # If TCP_NODELAY is unknown, two small segments in flight show that Nagle's algorithm is off.
    return nodelay or before.acked_ns is None or before.acked_ns > after.time_ns
