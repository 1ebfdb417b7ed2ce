"""Read the pcapng that the wire writes, according to the format's specification alone.

This reader is independent of the package's own reader, so that a mistake in either shows.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet block of a recording made at the link."""

    side: int  #: side of the link, 0 or 1
    inbound: bool  #: True if the host on that side sent the packet
    time_ns: int
    data: bytes
    length: int
    comment: str
    id: int

    def value(self, name: str) -> int:
        match = re.search(rf"\b{name}=(-?\d+)", self.comment)
        assert match, f"no {name} in {self.comment!r}"
        return int(match[1])

    @property
    def dropped(self) -> str | None:
        match = re.search(r"\bdropped=(\w+)", self.comment)
        return match[1] if match else None


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    data = path.read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length >= 12, f"a block of {length} bytes at {at}"
        assert length % 4 == 0, f"a block of {length} bytes at {at}"
        assert struct.unpack_from("<I", data, at + length - 4) == (length,)
        yield kind, data[at + 8 : at + length - 4]
        at += length
    assert at == len(data)


def options(body: bytes) -> dict[int, bytes]:
    values = {}
    at = 0
    while at + 4 <= len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if code == 0:
            break
        values[code] = body[at + 4 : at + 4 + length]
        at += 4 + -(-length // 4) * 4
    return values


def packets(path: Path) -> list[Packet]:
    recorded = []
    for kind, body in blocks(path):
        if kind != PACKET:
            continue
        side, high, low, kept, length = struct.unpack_from("<IIIII", body)
        extra = options(body[20 + -(-kept // 4) * 4 :])
        (flags,) = struct.unpack("<I", extra[2])
        (number,) = struct.unpack("<Q", extra[5])
        data, time_ns = body[20 : 20 + kept], high << 32 | low
        recorded.append(Packet(side, flags == 1, time_ns, data, length, extra[1].decode(), number))
    return recorded


def statistics(path: Path) -> dict[int, tuple[int, int]]:
    """Return the packets received and missed by the kernel, for each side."""
    counts = {}
    for kind, body in blocks(path):
        if kind == STATISTICS:
            extra = options(body[12:])
            (side,) = struct.unpack_from("<I", body)
            counts[side] = struct.unpack("<Q", extra[4]) + struct.unpack("<Q", extra[5])
    return counts
