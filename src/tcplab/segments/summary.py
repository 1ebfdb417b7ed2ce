"""Summarize the segments of a capture by connections, sizes, headers and retransmissions.

`capinfos` and `tshark -z conv,tcp` report more. This summary counts the headers of every segment
that a super-segment becomes on the wire, and the retransmissions that the array marks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from tcplab.segments.left_out import in_words as left_out_in_words
from tcplab.segments.table import SegmentArray
from tcplab.tables import Column, Table

_COMMON_SIZES: Final = 8
_SIZES: Final = (
    Column("size", "data (bytes)", "d"),
    Column("segments", "segments", "d"),
    Column("share", "share (%)", ".1f"),
)
_CONNECTIONS: Final = (
    Column("number", "#", "d"),
    Column("ends", "connection"),
    Column("segments", "segments", "d"),
    Column("payload_bytes", "data (bytes)", "d"),
    Column("header_bytes", "headers (bytes)", "d"),
    Column("pure_acks", "pure ACKs", "d"),
    Column("retransmissions", "retransmissions", "d"),
)


def summary(segments: SegmentArray) -> str:
    """Return the totals, a table of connections and a table of sizes of a capture or selection."""
    duration_s = float(np.ptp(segments["time_ns"])) / 1e9 if len(segments) else 0.0
    connections = _connections(segments)
    payload, headers, again = (
        sum(row[column] for row in connections)
        for column in ("payload_bytes", "header_bytes", "retransmissions")
    )
    share = 100 * headers / max(payload + headers, 1)
    text = (
        f"{len(segments)} segments in {duration_s:.6f} s: {payload} bytes of data,"
        f" {share:.1f} % headers, {again} retransmissions\n\n"
        f"{Table(_CONNECTIONS, connections, 'Connections')}\n\n"
        f"{Table(_SIZES, _sizes(segments), 'Most frequent sizes')}"
    )
    left_out = segments.left_out
    return f"{text}\n\n{left_out_in_words(left_out)}" if left_out else text


def _connections(segments: SegmentArray) -> list[dict[str, Any]]:
    rows = []
    for number in np.unique(np.asarray(segments["connection"])).tolist():
        connection = segments.of(number)
        ends = {"client": str(segments.connections[number]), "server": "  and back"}
        for sender, text in ends.items():
            if len(sent := connection.sent_by(sender)):
                rows.append({"number": number, "ends": text} | _direction(sent))
    return rows


def _direction(sent: SegmentArray) -> dict[str, int]:
    payload = sent["payload_bytes"].astype(np.int64)
    # A UDP fragment's header announces more data than the packet holds.
    headers = np.maximum(sent["wire_bytes"] - payload, 0) * np.maximum(sent["gso_count"], 1)
    return {
        "segments": len(sent),
        "payload_bytes": int(payload.sum()),
        "header_bytes": int(headers.sum()),
        "pure_acks": int(sent["is_pure_ack"].sum()),
        "retransmissions": int(sent["is_retransmission"].sum()),
    }


def _sizes(segments: SegmentArray) -> list[dict[str, Any]]:
    common = Counter(segments["payload_bytes"].tolist()).most_common(_COMMON_SIZES)
    return [
        {"size": size, "segments": count, "share": 100 * count / len(segments)}
        for size, count in sorted(common)
    ]
