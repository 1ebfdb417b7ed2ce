"""Decode the most common packets of a capture together, which is faster than one by one."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcplab.segments.pcap import ETHERNET, PacketTable
from tcplab.segments.table import ACK, DTYPE, FIN, RST, SYN, TCP, Array, BoolArray

#: Ethernet, IPv4 and TCP with two NOPs and timestamps (RFC 7323, appendix A).
_HEADERS: Final = 66
_OPTIONS: Final = (1, 1, 8, 10)


def decode_plain(packets: PacketTable, start: int, stop: int) -> tuple[BoolArray, Array]:
    """Return which of the packets have these headers, and the rows of a batch, valid for those."""
    rows = np.zeros(stop - start, DTYPE)
    plain = (packets.captured_bytes[start:stop] >= _HEADERS) & (
        packets.link_types()[start:stop] == ETHERNET
    )
    offsets = np.where(plain, packets.offset[start:stop], 0)
    data = np.frombuffer(packets.data, np.uint8)
    if len(data) < _HEADERS:
        return np.zeros(stop - start, np.bool_), rows
    head = data[offsets[:, None] + np.arange(_HEADERS)].astype(np.int64)

    def word(at: int, size: int = 2) -> Array:
        value = head[:, at]
        for i in range(1, size):
            value = value * 256 + head[:, at + i]
        return value

    total = word(16)
    wire = packets.original_bytes[start:stop].astype(np.int64)
    payload = np.where(total > 0, 14 + total, wire) - _HEADERS
    plain &= (word(12) == 0x0800) & (head[:, 14] == 0x45) & (word(20) & 0x3FFF == 0)
    plain &= (head[:, 23] == TCP) & (head[:, 46] >> 4 == 8) & (payload >= 0)
    plain &= (head[:, 54:58] == _OPTIONS).all(axis=1)
    flags = word(46) & 0x1FF
    quiet = flags & (SYN | FIN | RST) == 0
    columns = {
        "packet": np.arange(start, stop),
        "protocol": TCP,
        "ip_id": word(18),
        "src_port": word(34),
        "dst_port": word(36),
        "seq": word(38, 4),
        "ack": word(42, 4),
        "flags": flags,
        "window": word(48),
        "payload_bytes": np.maximum(payload, 0),
        "is_pure_ack": quiet & (flags & ACK != 0) & (payload == 0),
        "is_zero_window": quiet & (word(48) == 0),
        "gso_count": payload == 0,
        "wscale": -1,
        "window_shift": -1,
        "has_timestamps": True,
        "ts_val": word(58, 4),
        "ts_ecr": word(62, 4),
    }
    for name, values in columns.items():
        rows[name] = values
    return plain, rows
