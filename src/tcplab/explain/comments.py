"""Add reasons to a pcapng capture as packet comments (opt_comment), which Wireshark shows."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tcplab.capture import Capture
from tcplab.segments import FROM_CLIENT, FROM_SERVER, SegmentArray
from tcplab.segments.pcap import byte_order, comment_option
from tcplab.timeline import Timeline

_ENHANCED = 6  # type of the Enhanced Packet Block in pcapng (draft-ietf-opsawg-pcapng)


def reasons_of_packets(timeline: Timeline, rows: SegmentArray) -> dict[int, str]:
    """Map the numbers of data packets (from 0) to the reasons why they left.

    The timeline and the rows may come from captures at different hosts.
    """
    sender, _arrow, peer = timeline.connection.partition(" -> ")
    directions = {f"tcp {sender} -> {peer}": FROM_CLIENT, f"tcp {peer} -> {sender}": FROM_SERVER}
    packets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, known in enumerate(rows.connections):
        if (direction := directions.get(str(known))) is None:
            continue
        sent_rows = rows[(rows["connection"] == number) & (rows["direction"] == direction)]
        for row in sent_rows[sent_rows["payload_bytes"] > 0]:
            packets[int(row["seq"]), int(row["payload_bytes"])].append(int(row["packet"]))
    reasons = {}
    for segment, text in zip(timeline.segments, timeline.sentences(), strict=False):
        if waiting := packets[segment.offset + 1, segment.payload_bytes]:
            # In the peer's capture, a lost segment and its retransmission are a single packet.
            reasons[waiting.pop(0) if len(waiting) > 1 else waiting[0]] = text
    return reasons


def commented(pcapng: bytes, comments: Mapping[int, str]) -> bytes:
    """Return a pcapng file with comments added. The keys are packet numbers, from 0."""
    order = byte_order(pcapng)
    parts, at, packet = [], 0, 0
    while at + 12 <= len(pcapng):
        kind, length = struct.unpack_from(order + "II", pcapng, at)
        block = pcapng[at : at + length]
        if kind == _ENHANCED:
            if text := comments.get(packet):
                captured = struct.unpack_from(order + "I", block, 20)[0]
                options = 28 + captured + -captured % 4
                comment = comment_option(order, text.encode())
                # The comment comes last, because readers look for the packet's flags first.
                others = block[options:-4].removesuffix(bytes(4))
                body = block[8:options] + others + comment + bytes(4)
                new = len(body) + 12
                block = struct.pack(order + "II", kind, new) + body + struct.pack(order + "I", new)
            packet += 1
        parts.append(block)
        at += length
    return b"".join([*parts, pcapng[at:]])


def with_reasons(capture: Capture, timelines: Iterable[Timeline]) -> bytes:
    """Return a capture made by tcplab as a pcapng file with the reason of each data segment."""
    comments = {}
    for timeline in timelines:
        comments.update(reasons_of_packets(timeline, capture.segments))
    return commented(capture.path.read_bytes(), comments)
