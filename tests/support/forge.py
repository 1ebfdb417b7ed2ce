"""Captures and packets made byte by byte, so that a test knows what a reader must return.

Nothing here is shared with the code under test. Scapy builds the packets.
"""

import dataclasses
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ETHERNET = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """A captured packet. `original_bytes` is its length on the link if the capture truncated it."""

    data: bytes
    time_ns: int = 0
    original_bytes: int | None = None
    interface: int = 0
    flags: int | None = None

    @property
    def length(self) -> int:
        return len(self.data) if self.original_bytes is None else self.original_bytes


def pcap(
    frames: Sequence[Frame],
    *,
    order: str = "<",
    nanoseconds: bool = False,
    link_type: int = ETHERNET,
) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)]
    unit = 1 if nanoseconds else 1000
    for frame in frames:
        seconds, rest = divmod(frame.time_ns, 10**9)
        parts.append(struct.pack(order + "II", seconds, rest // unit))
        parts.append(struct.pack(order + "II", len(frame.data), frame.length))
        parts.append(frame.data)
    return b"".join(parts)


# ---- pcapng ----


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section_header(order: str = "<") -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(
    order: str = "<",
    *,
    link_type: int = ETHERNET,
    snaplen: int = 0,
    resolution: int | None = 9,
    name: str = "",
) -> bytes:
    options = b""
    if name:
        options += option(order, 2, name.encode())
    if resolution is not None:
        options += option(order, 9, bytes([resolution]))
    if options:
        options += option(order, 0, b"")
    return block(order, 1, struct.pack(order + "HHI", link_type, 0, snaplen) + options)


def enhanced(frame: Frame, order: str = "<", ticks: int | None = None) -> bytes:
    """Return an enhanced packet block; its time is in ns unless ticks are given."""
    ticks = frame.time_ns if ticks is None else ticks
    body = struct.pack(
        order + "IIIII",
        frame.interface,
        ticks >> 32 & 0xFFFFFFFF,
        ticks & 0xFFFFFFFF,
        len(frame.data),
        frame.length,
    )
    body += frame.data + bytes(-len(frame.data) % 4)
    if frame.flags is not None:
        body += option(order, 2, struct.pack(order + "I", frame.flags)) + option(order, 0, b"")
    return block(order, 6, body)


def statistics(order: str = "<", *, received: int | None = None, **lost: int) -> bytes:
    """Return an interface statistics block, in which if_drop and os_drop count lost packets."""
    counts = {4: received, 5: lost.get("if_drop"), 7: lost.get("os_drop")}
    options = b"".join(
        option(order, code, struct.pack(order + "Q", count))
        for code, count in counts.items()
        if count is not None
    )
    return block(order, 5, struct.pack(order + "III", 0, 0, 0) + options + bytes(4))


def pcapng(frames: Sequence[Frame], *, order: str = "<", **options: Any) -> bytes:
    """Return a pcapng file with one interface."""
    parts = [section_header(order), interface(order, **options)]
    return b"".join([*parts, *(enhanced(frame, order) for frame in frames)])


# ---- TCP ----


class Talk:
    """A TCP conversation written packet by packet; each packet advances the time by step_ns."""

    def __init__(
        self,
        *,
        isn: tuple[int, int] = (1000, 5000),
        ipv6: bool = False,
        step_ns: int = 1_000_000,
    ) -> None:
        self.isn = isn
        self.ipv6 = ipv6
        self.time_ns = 1_700_000_000 * 10**9
        self.step_ns = step_ns
        self.frames: list[Frame] = []

    def segment(
        self,
        side: int,
        flags: str,
        seq: int,
        ack: int = 0,
        size: int = 0,
        *,
        window: int = 512,
        options: Sequence[Any] = (),
        ports: tuple[int, int] = (40000, 80),
        step_ns: int | None = None,
    ) -> None:
        """Add a segment from side 0 (the client) or 1; seq and ack are relative numbers."""
        from scapy.layers.inet import IP, TCP
        from scapy.layers.inet6 import IPv6
        from scapy.layers.l2 import Ether

        self.time_ns += self.step_ns if step_ns is None else step_ns
        names = ("2001:db8::1", "2001:db8::2") if self.ipv6 else ("192.0.2.1", "192.0.2.2")
        ip: Any = (IPv6 if self.ipv6 else IP)(src=names[side], dst=names[1 - side])
        tcp = TCP(
            sport=ports[side],
            dport=ports[1 - side],
            seq=(self.isn[side] + seq) % 2**32,
            ack=(self.isn[1 - side] + ack) % 2**32 if "A" in flags else 0,
            flags=flags,
            window=window,
            options=list(options),
        )
        link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        packet = link / ip / tcp / (b"x" * size)
        self.frames.append(Frame(bytes(packet), self.time_ns))

    def handshake(self, *, options: tuple[Sequence[Any], Sequence[Any]] = ((), ())) -> None:
        self.segment(0, "S", 0, options=options[0])
        self.segment(1, "SA", 0, 1, options=options[1])
        self.segment(0, "A", 1, 1)

    def save(self, path: Path) -> Path:
        path.write_bytes(pcapng(self.frames))
        return path
