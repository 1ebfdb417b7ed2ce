"""Add reasons to a pcapng capture as packet comments (opt_comment), which Wireshark shows."""

from collections import defaultdict
from collections.abc import Iterable

from tcplab.capture import Capture
from tcplab.segments import SegmentArray
from tcplab.segments.pcap import commented
from tcplab.timeline import Timeline


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


def with_reasons(capture: Capture, timelines: Iterable[Timeline]) -> bytes:
    """Return a capture made by tcplab as a pcapng file with the reason of each data segment."""
    comments = {}
    for timeline in timelines:
        comments.update(reasons_of_packets(timeline, capture.segments))
    return commented(capture.path.read_bytes(), comments)
