"""Add reasons to a pcapng capture as packet comments (opt_comment), which Wireshark shows."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from tcplab.capture import Capture
from tcplab.segments import SegmentArray
from tcplab.segments.pcap import Damage, blocks, comment_option
from tcplab.timeline import Timeline

_ENHANCED = 6  # type of the Enhanced Packet Block in pcapng (draft-ietf-opsawg-pcapng)


def reasons_of_packets(timeline: Timeline, rows: SegmentArray) -> dict[int, str]:
    """Map data packets (from 0), which either host captured, to the reasons why they left."""
    sender, _arrow, peer = timeline.connection.partition(" -> ")
    sides = {f"tcp {sender} -> {peer}": "client", f"tcp {peer} -> {sender}": "server"}
    packets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, known in enumerate(rows.connections):
        if side := sides.get(str(known)):
            sent = rows.of(number).data(side)
            columns = (sent[name].tolist() for name in ("seq", "payload_bytes", "packet"))
            for seq, size, packet in zip(*columns, strict=True):
                packets[seq, size].append(packet)
    reasons = {}
    for segment, text in zip(timeline.segments, timeline.sentences(), strict=False):
        if waiting := packets[segment.offset + 1, segment.payload_bytes]:
            # In the peer's capture, a lost segment and its retransmission are a single packet.
            reasons[waiting.pop(0) if len(waiting) > 1 else waiting[0]] = text
    return reasons


def commented(pcapng: bytes, comments: Mapping[int, str]) -> bytes:
    """Return a pcapng file with comments added. The keys are packet numbers, from 0."""
    parts, packet, end = [], 0, 0
    for at, order, kind, block in _whole_blocks(pcapng):
        body, end = block[8:], at + len(block) + 4
        if kind == _ENHANCED:
            if text := comments.get(packet):
                captured = struct.unpack_from(order + "I", block, 20)[0]
                options = 20 + captured + -captured % 4
                # The comment comes last, because readers look for the packet's flags first.
                others = body[options:].removesuffix(bytes(4))
                body = body[:options] + others + comment_option(order, text.encode()) + bytes(4)
            packet += 1
        length = len(body) + 12
        parts.append(struct.pack(order + "II", kind, length) + body)
        parts.append(struct.pack(order + "I", length))
    return b"".join([*parts, pcapng[end:]])


def _whole_blocks(pcapng: bytes) -> Iterator[tuple[int, str, int, bytes]]:
    with suppress(Damage):  # a recorder that was killed leaves half a block
        yield from blocks(pcapng)


def with_reasons(capture: Capture, timelines: Iterable[Timeline]) -> bytes:
    """Return a capture made by tcplab as a pcapng file with the reason of each data segment."""
    comments = {}
    for timeline in timelines:
        comments.update(reasons_of_packets(timeline, capture.segments))
    return commented(capture.path.read_bytes(), comments)
