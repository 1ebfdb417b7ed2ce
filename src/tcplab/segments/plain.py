"""Decode the most common packets of a capture together, which is faster than one by one."""

from typing import Final

import numpy as np

from tcplab.segments.headers import End
from tcplab.segments.pcap import ETHERNET, PacketTable
from tcplab.segments.table import DTYPE, TCP, Array, BoolArray

#: Ethernet, IPv4 and TCP with two NOPs and timestamps (RFC 7323, appendix A).
_HEADERS: Final = 66
_OPTIONS: Final = (1, 1, 8, 10)


def ends_in(addresses: bytes) -> tuple[End, End]:
    """Return source and destination from two IPv4 addresses and two ports as in the headers."""
    source, target = addresses[:4], addresses[4:8]
    return (source, int.from_bytes(addresses[8:10])), (target, int.from_bytes(addresses[10:]))


def decode_plain(packets: PacketTable, start: int, stop: int) -> tuple[BoolArray, Array, Array]:
    """Return which of the packets have these headers, the rows of a batch, and its addresses.

    The rows, and the bytes of addresses and ports (see ends_in), are valid only for these packets.
    """
    rows = np.zeros(stop - start, DTYPE)
    plain = (packets.captured_bytes[start:stop] >= _HEADERS) & (
        packets.link_types()[start:stop] == ETHERNET
    )
    offsets = np.where(plain, packets.offset[start:stop], 0)
    data = np.frombuffer(packets.data, np.uint8)
    if len(data) < _HEADERS:
        return np.zeros(stop - start, np.bool_), rows, np.zeros(stop - start, "V12")
    octets = data[offsets[:, None] + np.arange(_HEADERS)]
    head = octets.astype(np.int64)

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
    columns = {
        "packet": np.arange(start, stop),
        "protocol": TCP,
        "ip_id": word(18),
        "src_port": word(34),
        "dst_port": word(36),
        "seq": word(38, 4),
        "ack": word(42, 4),
        "flags": word(46) & 0x1FF,
        "window": word(48),
        "payload_bytes": np.maximum(payload, 0),
        "wscale": -1,
        "window_shift": -1,
        "has_timestamps": True,
        "ts_val": word(58, 4),
        "ts_ecr": word(62, 4),
    }
    for name, values in columns.items():
        rows[name] = values
    return plain, rows, np.ascontiguousarray(octets[:, 26:38]).view("V12")[:, 0]
