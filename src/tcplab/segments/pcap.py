"""Locate the packets in pcap and pcapng files, with their lengths and times.

Files may have either byte order and any time resolution, and may be cut short or damaged. The
packets' contents are decoded elsewhere, by scapy (tcplab.capture) and numpy (tcplab.segments).

Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, draft-ietf-opsawg-pcaplinktype.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import warnings
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tcplab.errors import CaptureError

Int64Array = npt.NDArray[np.int64]
UInt32Array = npt.NDArray[np.uint32]
ByteArray = npt.NDArray[np.uint8]

#: Link types that tcplab.segments decodes (registered in draft-ietf-opsawg-pcaplinktype).
NULL, ETHERNET, RAW, LOOP, SLL, IPV4, IPV6, SLL2 = 0, 1, 101, 108, 113, 228, 229, 276

# Limit of libpcap and Wireshark. A larger size means that the file is damaged.
MAX_PACKET_BYTES: Final = 262144
MAX_BLOCK_BYTES: Final = 16 << 20  # Wireshark's limit for any pcapng block


class CaptureLossWarning(UserWarning):
    """Warns that packets are missing from a capture, according to the recorder's count."""


class CaptureTruncatedWarning(UserWarning):
    """Warns that a capture file is cut short or damaged, so only its first packets are read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Interface:
    """An interface at which packets were recorded, as described in the file."""

    #: The name in the file, or "" if the file has none; pcap files never have one.
    name: str
    #: The link type, which defines a packet's first header: 1 for Ethernet, 101 for raw IP, 113 or
    #: 276 for Linux cooked, 0 for loopback.
    link_type: int
    #: Maximum number of bytes recorded per packet; 0 means no limit.
    snaplen_bytes: int
    #: Packets that the interface passed to the recorder, or None if the file has no count.
    received: int | None = None
    #: Packets that the interface or the system dropped, or None if the file has no count.
    drops: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PacketTable:
    """The packets of a capture file as arrays, one element per packet in the file's order."""

    #: All bytes of the file, uint8.
    data: ByteArray
    #: Offset in data of the packet's first byte, int64.
    offset: Int64Array
    #: Number of captured bytes, uint32. All of these bytes are within data.
    captured_bytes: UInt32Array
    #: The packet's length on the link, uint32.
    original_bytes: UInt32Array
    #: Time since 1970-01-01 UTC, int64; 0 if the file has no time.
    time_ns: Int64Array
    #: Index into interfaces, uint32.
    interface: UInt32Array
    #: 1 if the packet left through the interface, 0 if it came in, -1 if unknown; int8.
    outbound: npt.NDArray[np.int8]
    interfaces: tuple[Interface, ...]
    #: Why and where reading stopped before the end of the file, or None if it did not.
    truncated: str | None

    def __len__(self) -> int:
        return len(self.offset)

    def link_types(self) -> Int64Array:
        """Return the link type of each packet, as int64."""
        by_interface = np.array([i.link_type for i in self.interfaces] or [0], np.int64)
        return by_interface[self.interface]

    def bytes_of(self, packet: int) -> bytes:
        """Return the captured bytes of one packet."""
        start = int(self.offset[packet])
        return self.data[start : start + int(self.captured_bytes[packet])].tobytes()


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts, or None if none of them is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def warn_of_gaps(
    packets: PacketTable, path: str | os.PathLike[str], *, advice: str = "", stacklevel: int = 1
) -> None:
    """Warn if packets are missing or the file ends early; `advice` says how to avoid losses."""
    if drops := total(interface.drops for interface in packets.interfaces):
        warnings.warn(
            f"{drops} packets are missing from the capture: the recorder fell behind{advice}",
            CaptureLossWarning,
            stacklevel=stacklevel + 1,
        )
    if packets.truncated:
        warnings.warn(
            f"{os.fspath(path)}: {packets.truncated}",
            CaptureTruncatedWarning,
            stacklevel=stacklevel + 1,
        )


def read_packets(path: str | os.PathLike[str]) -> PacketTable:
    """Locate the packets in a pcap or pcapng file, or raise CaptureError.

    A file that ends early or is damaged is read up to that point; see PacketTable.truncated.
    """
    return _parse(_load(path), os.fspath(path))


def packets_in(data: bytes, name: str) -> PacketTable:
    """Locate the packets in the bytes of a pcap or pcapng file, called `name` in messages."""
    return _parse(np.frombuffer(data, np.uint8), name)


def _parse(data: ByteArray, name: str) -> PacketTable:
    if len(data) < 24:
        raise CaptureError(f"{name}: not a capture: it has {len(data)} bytes")
    magic = bytes(data[:4])
    if magic == b"\x0a\x0d\x0d\x0a":
        return _PcapngReader(data).read()
    for order in "<", ">":
        if kind := _PCAP_MAGIC.get(struct.unpack(order + "I", magic)[0]):
            return _read_pcap(data, order, *kind)
    if magic[:2] == b"\x1f\x8b":
        raise CaptureError(f"{name}: compressed with gzip; run gunzip first")
    raise CaptureError(
        f"{name}: not a capture: it begins {magic.hex(' ')}, not as pcap or pcapng do"
    )


def _load(path: str | os.PathLike[str]) -> ByteArray:
    """Read the whole file. Not mmap: a file that is overwritten meanwhile would raise SIGBUS."""
    try:
        with Path(path).open("rb") as file:
            return np.fromfile(file, np.uint8)
    except OSError as error:
        raise CaptureError(f"{os.fspath(path)}: {error.strerror}") from None


def integers(data: ByteArray, dtype: str) -> npt.NDArray[Any]:
    """Return an array whose element i is the integer that begins at byte i of the data."""
    count = max(len(data) - np.dtype(dtype).itemsize + 1, 0)
    return np.ndarray((count,), dtype, buffer=data.data, strides=(1,))


def _take(integers: npt.NDArray[Any], at: Int64Array) -> Int64Array:
    values: Int64Array = integers[at].astype(np.int64)
    return values


def _stopped(why: str, packets: int, position: int, size: int) -> str | None:
    if not why:
        return None
    return f"reading stopped {why}, after {packets} packets, at byte {position} of {size}"


# -- pcap --

#: Nanoseconds per unit of the fractional time, and size of a record header, by magic number.
_PCAP_MAGIC: Final = {
    0xA1B2C3D4: (1000, 16),
    0xA1B23C4D: (1, 16),
    0xA1B2CD34: (1000, 24),  # Kuznetzov's variant, still found in old traces
}


def _read_pcap(data: ByteArray, order: str, unit_ns: int, header_bytes: int) -> PacketTable:
    snaplen, network = struct.unpack_from(order + "II", data.data, 16)
    starts, truncated = _walk_pcap(data.data, order, header_bytes)
    u32 = integers(data, order + "u4")
    return PacketTable(
        data=data,
        offset=starts + header_bytes,
        captured_bytes=u32[starts + 8].astype(np.uint32),
        original_bytes=u32[starts + 12].astype(np.uint32),
        time_ns=_take(u32, starts) * 10**9 + _take(u32, starts + 4) * unit_ns,
        interface=np.zeros(len(starts), np.uint32),
        outbound=np.full(len(starts), -1, np.int8),
        # The high bits describe a frame check sequence, so they are masked out.
        interfaces=(Interface("", network & 0xFFFF, min(snaplen, MAX_PACKET_BYTES)),),
        truncated=truncated,
    )


def _walk_pcap(file: memoryview, order: str, header_bytes: int) -> tuple[Int64Array, str | None]:
    """Return the offsets of the record headers, and why the walk ended early, or None."""
    captured_bytes = struct.Struct(order + "8xI").unpack_from
    starts = array("q")
    size, position = len(file), 24
    why = ""
    while position < size:
        if position + header_bytes > size:
            why = "in the header of a packet"
            break
        (captured,) = captured_bytes(file, position)
        following = position + header_bytes + captured
        if captured > MAX_PACKET_BYTES:
            why = f"at a packet of {captured} bytes, more than the {MAX_PACKET_BYTES} there can be"
            break
        if following > size:
            why = "in the middle of a packet"
            break
        starts.append(position)
        position = following
    return np.array(starts, np.int64), _stopped(why, len(starts), position, size)


# -- pcapng --

_SHB, _IDB, _PB, _SPB, _ISB, _EPB = 0x0A0D0D0A, 1, 2, 3, 5, 6
_BYTE_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
COMMENT: Final = 1  # opt_comment, an option that any block may have
_PACKETS: Final = (_EPB, _SPB, _PB)
_FIXED_BYTES: Final = {_SHB: 28, _IDB: 20, _PB: 32, _SPB: 16, _ISB: 24, _EPB: 32}


def byte_order(pcapng: bytes) -> str:
    """Return the byte order of a pcapng file's first section as struct's "<" or ">"."""
    return _BYTE_ORDERS[pcapng[8:12]]


def comment_option(order: str, text: bytes) -> bytes:
    """Encode a comment of at most 65,535 bytes as an opt_comment, padded to 32 bits."""
    return struct.pack(order + "HH", COMMENT, len(text)) + text + bytes(-len(text) % 4)


class _Damage(Exception):  # noqa: N818  (it ends the walk and never leaves this module)
    """The next block cannot be read. The message gives the reason."""


class _PcapngReader:
    """Walk over the blocks of a pcapng file, and decode the packets of each section together."""

    def __init__(self, data: ByteArray) -> None:
        self.data = data
        self.file = data.data
        self.position = 0
        self.count = 0  # number of packets
        self.interfaces: list[Interface] = []
        self.clocks: list[tuple[int, int]] = []  # if_tsresol and if_tsoffset of each interface
        # The state of the current section consists of its byte order, its first interface, and the
        # positions of its packet blocks by type.
        self.order = "<"
        self.first_interface = 0
        self.starts = {kind: array("q") for kind in _PACKETS}
        # Columns of the sections read so far, in the order start, offset, captured, original, time,
        # interface, outbound.
        self.columns: list[tuple[Int64Array, ...]] = [(np.zeros(0, np.int64),) * 7]

    def read(self) -> PacketTable:
        why = ""
        try:
            self._walk()
        except _Damage as damage:
            why = str(damage)
        self._end_section()
        starts, offset, captured, original, times, interface, outbound = map(
            np.concatenate, zip(*self.columns, strict=True)
        )
        order = np.argsort(starts, kind="stable")  # each type of block was decoded separately
        return PacketTable(
            data=self.data,
            offset=offset[order],
            captured_bytes=captured[order].astype(np.uint32),
            original_bytes=original[order].astype(np.uint32),
            time_ns=times[order],
            interface=interface[order].astype(np.uint32),
            outbound=outbound[order].astype(np.int8),
            interfaces=tuple(self.interfaces),
            truncated=_stopped(why, self.count, self.position, len(self.data)),
        )

    # -- blocks --

    def _walk(self) -> None:
        while self.position < len(self.file):
            kind, length = self._head()
            if kind in _PACKETS:
                self._check_packet(kind, length)
                self.starts[kind].append(self.position)
                self.count += 1
            elif kind == _IDB:
                self._interface(length)
            elif kind == _ISB:
                self._statistics(length)
            self.position += length

    def _unpack(self, form: str, at: int) -> tuple[Any, ...]:
        return struct.unpack_from(self.order + form, self.file, self.position + at)

    def _head(self) -> tuple[int, int]:
        """Check a block, begin a section if it is a section header; return its type and length."""
        left = len(self.file) - self.position
        if left < 12:
            raise _Damage("in the header of a block")
        kind, length = self._unpack("II", 0)
        if kind == _SHB:
            self._begin_section()
            kind, length = self._unpack("II", 0)
        if length % 4 or not _FIXED_BYTES.get(kind, 12) <= length <= MAX_BLOCK_BYTES:
            raise _Damage(f"at a block with the impossible length {length}")
        if length > left:
            raise _Damage("in the middle of a block")
        if self._unpack("I", length - 4) != (length,):
            raise _Damage("at a block whose two lengths differ")
        return kind, length

    def _begin_section(self) -> None:
        magic = bytes(self.file[self.position + 8 : self.position + 12])
        order = _BYTE_ORDERS.get(magic)
        if order is None:
            raise _Damage("at a section whose byte order is unknown")
        self._end_section()
        self.order, self.first_interface = order, len(self.interfaces)

    def _end_section(self) -> None:
        for kind, starts in self.starts.items():
            if starts:
                self.columns.append(self._columns(kind, np.array(starts, np.int64)))
        self.starts = {kind: array("q") for kind in _PACKETS}

    def _check_packet(self, kind: int, length: int) -> None:
        form = {_EPB: "I8xI", _PB: "H10xI", _SPB: ""}[kind]
        number, captured = self._unpack(form, 8) or (0, 0)
        if self.first_interface + number >= len(self.interfaces):
            raise _Damage(f"at a packet of interface {number}, which was not described before")
        if kind != _SPB and captured > length - 32:
            raise _Damage(f"at a packet of {captured} bytes in a block of {length}")

    def _interface(self, length: int) -> None:
        link_type, snaplen = self._unpack("HxxI", 8)
        options = self._options(16, length - 4)
        resolution, offset_s = options.get(9, b""), options.get(14, b"")
        self.clocks.append(
            (
                resolution[0] if resolution else 6,
                struct.unpack(self.order + "q", offset_s)[0] if len(offset_s) == 8 else 0,
            )
        )
        name = options.get(2, b"").rstrip(b"\0").decode(errors="replace")
        self.interfaces.append(Interface(name, link_type, min(snaplen, MAX_PACKET_BYTES)))

    def _statistics(self, length: int) -> None:
        number = self._unpack("I", 8)[0] + self.first_interface
        if number >= len(self.interfaces):
            return
        counts = {
            code: struct.unpack(self.order + "Q", value)[0]
            for code, value in self._options(20, length - 4).items()
            if len(value) == 8
        }
        self.interfaces[number] = dataclasses.replace(
            self.interfaces[number],
            received=counts.get(4),
            # Option 5 counts packets dropped by the interface, and option 7 by the system.
            drops=total([counts.get(5), counts.get(7)]),
        )

    def _options(self, at: int, end: int) -> dict[int, bytes]:
        """Return the options by code, up to the first invalid one."""
        options: dict[int, bytes] = {}
        while at + 4 <= end:
            code, length = self._unpack("HH", at)
            if code == 0 or at + 4 + length > end:
                break
            start = self.position + at + 4
            options[code] = bytes(self.file[start : start + length])
            at += 4 + length + -length % 4
        return options

    # -- packets --

    def _columns(self, kind: int, starts: Int64Array) -> tuple[Int64Array, ...]:
        """Return the columns (see self.columns) of the packet blocks of one type."""
        u32 = integers(self.data, self.order + "u4")
        u16 = integers(self.data, self.order + "u2")
        if kind == _SPB:
            original = _take(u32, starts + 8)
            interface = np.full(len(starts), self.first_interface, np.int64)
            room = _take(u32, starts + 4) - 16
            snaplen = self.interfaces[self.first_interface].snaplen_bytes or MAX_PACKET_BYTES
            captured = np.minimum(np.minimum(original, room), snaplen)
            nothing = np.zeros(len(starts), np.int64)
            return starts, starts + 12, captured, original, nothing, interface, nothing - 1
        interface = _take(u32 if kind == _EPB else u16, starts + 8) + self.first_interface
        captured, original = _take(u32, starts + 20), _take(u32, starts + 24)
        ticks = (_take(u32, starts + 12) << 32) | _take(u32, starts + 16)
        times = np.zeros(len(starts), np.int64)
        for number in np.unique(interface):
            same_interface = interface == number
            times[same_interface] = _nanoseconds(ticks[same_interface], *self.clocks[number])
        # epb_flags is recognized only as the first option. In its lowest two bits, 1 means inbound
        # and 2 outbound.
        option = starts + 28 + (captured + 3 & ~3)
        has_flags = option + 12 <= starts + _take(u32, starts + 4)
        option = np.where(has_flags, option, starts)
        has_flags &= (_take(u16, option) == 2) & (_take(u16, option + 2) == 4)
        flags = np.where(has_flags, _take(u32, option + 4), 0)
        outbound = np.array([-1, 0, 1, -1])[flags & 3]
        return starts, starts + 28, captured, original, times, interface, outbound


def _nanoseconds(ticks: Int64Array, resolution: int, offset_s: int) -> Int64Array:
    """Convert timestamps in units of if_tsresol to nanoseconds since 1970.

    if_tsresol is n for 10^-n s, or 128 + n for 2^-n s (draft-ietf-opsawg-pcapng, section 4.2). In a
    damaged file, a value too large for int64 wraps around.
    """
    exponent = resolution & 0x7F
    unsigned = ticks.astype(np.uint64)
    if resolution & 0x80:
        whole = unsigned >> np.uint64(min(exponent, 63))
        part = unsigned & np.uint64((1 << min(exponent, 63)) - 1)
        if exponent > 32:  # the product below must fit into 64 bits
            part, exponent = part >> np.uint64(min(exponent, 63) - 32), 32
        fraction = (part * np.uint64(10**9)) >> np.uint64(exponent)
        result = whole * np.uint64(10**9) + fraction
    elif exponent <= 9:
        result = unsigned * np.uint64(10 ** (9 - exponent))
    elif exponent <= 28:
        result = unsigned // np.uint64(10 ** (exponent - 9))
    else:  # 2^64 of these units last less than a nanosecond
        result = np.zeros_like(unsigned)
    wrapped = (offset_s * 10**9) % 2**64
    shifted: Int64Array = (result + np.uint64(wrapped)).astype(np.int64)
    return shifted
