"""Locate the packets in pcap and pcapng files, with their lengths and times.

Files may have either byte order and any time resolution, and may be cut short or damaged. The
packets' contents are decoded elsewhere, by scapy (tcplab.capture) and by tcplab.segments.

Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, draft-ietf-opsawg-pcaplinktype.
"""

import contextlib
import dataclasses
import os
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tcplab.errors import CaptureError

Int64Array = npt.NDArray[np.int64]
UInt32Array = npt.NDArray[np.uint32]

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

    name: str  #: The name in the file, or "" if the file has none; pcap files never have one
    #: The link type, which defines a packet's first header: 1 for Ethernet, 101 for raw IP, 113 or
    #: 276 for Linux cooked, 0 for loopback
    link_type: int
    received: int | None = None  #: Packets passed to the recorder, or None if not counted
    drops: int | None = None  #: Packets that it or the system dropped, or None if not counted


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PacketTable:
    """The packets of a capture file as arrays, one element per packet in the file's order."""

    data: bytes  #: All bytes of the file
    offset: Int64Array  #: Offset in data of the packet's first byte
    captured_bytes: UInt32Array  #: Number of captured bytes, all of them within data
    original_bytes: UInt32Array  #: The packet's length on the link
    time_ns: Int64Array  #: Time since 1970-01-01 UTC; 0 if the file has no time
    interface: UInt32Array  #: Index into interfaces
    outbound: npt.NDArray[np.int8]  #: 1 if the packet left the interface, 0 if it came in, else -1
    interfaces: tuple[Interface, ...]
    truncated: str | None  #: Why and where reading stopped before the end of the file, or None

    def __len__(self) -> int:
        return len(self.offset)

    def link_types(self) -> Int64Array:
        """Return the link type of each packet, as int64."""
        by_interface = np.array([i.link_type for i in self.interfaces] or [0], np.int64)
        return by_interface[self.interface]

    def bytes_of(self, packet: int) -> bytes:
        """Return the captured bytes of one packet."""
        start = int(self.offset[packet])
        return self.data[start : start + int(self.captured_bytes[packet])]


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts, or None if none of them is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def warn_of_gaps(
    packets: PacketTable, path: str | os.PathLike[str], *, advice: str = "", stacklevel: int = 1
) -> None:
    """Warn if packets are missing or the file ends early; `advice` says how to avoid losses."""
    if drops := total(interface.drops for interface in packets.interfaces):
        text = f"{drops} packets are missing from the capture: the recorder fell behind{advice}"
        warnings.warn(text, CaptureLossWarning, stacklevel=stacklevel + 1)
    if packets.truncated:
        text = f"{os.fspath(path)}: {packets.truncated}"
        warnings.warn(text, CaptureTruncatedWarning, stacklevel=stacklevel + 1)


def read_packets(path: str | os.PathLike[str]) -> PacketTable:
    """Locate the packets in a pcap or pcapng file, or raise CaptureError.

    A file that ends early or is damaged is read up to that point; see PacketTable.truncated.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CaptureError(f"{os.fspath(path)}: {error.strerror}") from None
    return packets_in(data, os.fspath(path))


def packets_in(data: bytes, name: str) -> PacketTable:
    """Locate the packets in the bytes of a pcap or pcapng file, called `name` in messages."""
    if len(data) < 24:
        raise CaptureError(f"{name}: not a capture: it has {len(data)} bytes")
    magic = data[:4]
    interfaces: list[Interface] = []
    if magic == _SECTION:
        return _table(data, _pcapng_packets(data, name, interfaces), interfaces)
    for order in "<", ">":
        if unit_ns := _PCAP_UNITS_NS.get(struct.unpack(order + "I", magic)[0]):
            (network,) = struct.unpack_from(order + "I", data, 20)
            # The high bits describe a frame check sequence, so they are masked out.
            interfaces.append(Interface("", network & 0xFFFF))
            return _table(data, _pcap_packets(data, order, unit_ns), interfaces)
    if magic[:2] == b"\x1f\x8b":
        raise CaptureError(f"{name}: compressed with gzip; run gunzip first")
    raise CaptureError(
        f"{name}: not a capture: it begins {magic.hex(' ')}, not as pcap or pcapng do"
    )


#: Offset in the file, captured and original length, time in ns, interface and direction.
_Packet = tuple[int, int, int, int, int, int]


class Damage(Exception):  # noqa: N818  (it ends the reading of blocks and packets)
    """The next packet or block cannot be read. The arguments are the reason and its offset."""


def _table(data: bytes, packets: Iterator[_Packet], interfaces: list[Interface]) -> PacketTable:
    """Collect the packets up to the first damage."""
    found: list[_Packet] = []
    truncated = None
    try:
        for packet in packets:
            found.append(packet)
    except Damage as damage:
        why, at = damage.args
        place = f"after {len(found)} packets, at byte {at} of {len(data)}"
        truncated = f"reading stopped {why}, {place}"
    columns = np.array(found, np.int64).reshape(-1, 6).T
    return PacketTable(
        data=data,
        offset=columns[0],
        captured_bytes=columns[1].astype(np.uint32),
        original_bytes=columns[2].astype(np.uint32),
        time_ns=columns[3],
        interface=columns[4].astype(np.uint32),
        outbound=columns[5].astype(np.int8),
        interfaces=tuple(interfaces),
        truncated=truncated,
    )


#: Nanoseconds per unit of the fractional time, by magic number.
_PCAP_UNITS_NS: Final = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}


def _pcap_packets(data: bytes, order: str, unit_ns: int) -> Iterator[_Packet]:
    header, at, size = struct.Struct(order + "IIII").unpack_from, 24, len(data)
    while at < size:
        if at + 16 > size:
            raise Damage("in the header of a packet", at)
        seconds, fraction, captured, original = header(data, at)
        if captured > MAX_PACKET_BYTES:
            why = f"at a packet of {captured} bytes, more than the {MAX_PACKET_BYTES} there can be"
            raise Damage(why, at)
        start, at = at + 16, at + 16 + captured
        if at > size:
            raise Damage("in the middle of a packet", start - 16)
        yield start, captured, original, seconds * 1_000_000_000 + fraction * unit_ns, 0, -1


# -- pcapng --

_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_SHB, _IDB, _PB, _SPB, _ISB, _EPB = 0x0A0D0D0A, 1, 2, 3, 5, 6
_BYTE_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_COMMENT: Final = 1  # opt_comment, an option that any block may have
_FIXED_BYTES: Final = {_SHB: 28, _IDB: 20, _ISB: 24, _EPB: 32}
_LAST_NS: Final = 2**63 - 1


def blocks(data: bytes) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield the offset, byte order, type and bytes of each block, without its second length.

    Raise Damage at a block that is cut short or invalid.
    """
    order = "<"
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise Damage("in the header of a block", at)
        if data[at : at + 4] == _SECTION:
            if (known := _BYTE_ORDERS.get(data[at + 8 : at + 12])) is None:
                raise Damage("at a section whose byte order is unknown", at)
            order = known
        kind, length = struct.unpack_from(order + "II", data, at)
        if length % 4 or not _FIXED_BYTES.get(kind, 12) <= length <= MAX_BLOCK_BYTES:
            raise Damage(f"at a block with the impossible length {length}", at)
        if at + length > len(data):
            raise Damage("in the middle of a block", at)
        if struct.unpack_from(order + "I", data, at + length - 4) != (length,):
            raise Damage("at a block whose two lengths differ", at)
        yield at, order, kind, data[at : at + length - 4]
        at += length


def _pcapng_packets(data: bytes, name: str, interfaces: list[Interface]) -> Iterator[_Packet]:
    """Yield the packets, and add the interfaces to the list when their blocks are read."""
    first = 0  # the first interface of the current section
    clocks: list[tuple[int, int]] = []
    for at, order, kind, block in blocks(data):
        if kind == _SHB:
            first = len(interfaces)
        elif kind == _IDB:
            options = _options(block, order, 16)
            (link_type,) = struct.unpack_from(order + "H", block, 8)
            title = options.get(2, b"").rstrip(b"\0").decode(errors="replace")
            interfaces.append(Interface(title, link_type))
            clocks.append(_clock(options, order))
        elif kind == _ISB:
            number = first + struct.unpack_from(order + "I", block, 8)[0]
            if number < len(interfaces):
                interfaces[number] = _counted(interfaces[number], _options(block, order, 20), order)
        elif kind in (_PB, _SPB):
            raise CaptureError(
                f"{name}: its packet blocks are of a rare kind; convert with editcap"
            )
        elif kind == _EPB:
            number, high, low, captured, original = struct.unpack_from(order + "5I", block, 8)
            if first + number >= len(interfaces):
                why = f"at a packet of interface {number}, which was not described before"
                raise Damage(why, at)
            if captured > len(block) - 28:
                raise Damage(f"at a packet of {captured} bytes in a block of {len(block) + 4}", at)
            per_second, offset_s = clocks[first + number]
            time_ns = (high << 32 | low) * 10**9 // per_second + offset_s * 10**9
            time_ns = max(-_LAST_NS, min(time_ns, _LAST_NS))  # a damaged file may have any time
            # In the lowest two bits of epb_flags, 1 means inbound and 2 outbound.
            flags = _options(block, order, 28 + (captured + 3 & ~3)).get(2, b"")
            way = struct.unpack(order + "I", flags)[0] & 3 if len(flags) == 4 else 0
            yield at + 28, captured, original, time_ns, first + number, (-1, 0, 1, -1)[way]


def _options(block: bytes, order: str, at: int) -> dict[int, bytes]:
    """Return the options of a block by code, up to the first invalid one."""
    options: dict[int, bytes] = {}
    while at + 4 <= len(block):
        code, length = struct.unpack_from(order + "HH", block, at)
        if code == 0 or at + 4 + length > len(block):
            break
        options[code] = block[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return options


def _clock(options: dict[int, bytes], order: str) -> tuple[int, int]:
    """Return the units per second (if_tsresol) and the offset in seconds (if_tsoffset)."""
    resolution = (options.get(9) or b"\6")[0]
    offset = options.get(14, b"")
    return (
        2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution,
        struct.unpack(order + "q", offset)[0] if len(offset) == 8 else 0,
    )


def _counted(interface: Interface, options: dict[int, bytes], order: str) -> Interface:
    longs = {code: value for code, value in options.items() if len(value) == 8}
    counts = {code: struct.unpack(order + "Q", value)[0] for code, value in longs.items()}
    # Option 5 counts packets dropped by the interface, and option 7 by the system.
    drops = total([counts.get(5), counts.get(7)])
    return dataclasses.replace(interface, received=counts.get(4), drops=drops)


def commented(pcapng: bytes, comments: Mapping[int, str]) -> bytes:
    """Return a pcapng file with comments added. The keys are packet numbers, from 0."""
    parts, packet, end = [], 0, 0
    with contextlib.suppress(Damage):  # a recorder that was killed leaves half a block
        for at, order, kind, block in blocks(pcapng):
            body, end = block[8:], at + len(block) + 4
            if kind == _EPB:
                if packet in comments:
                    captured = struct.unpack_from(order + "I", block, 20)[0]
                    options = 20 + captured + -captured % 4
                    text = comments[packet].encode()
                    # The comment comes last, because readers look for the packet's flags first.
                    body = body[:options] + body[options:].removesuffix(bytes(4))
                    body += struct.pack(order + "HH", _COMMENT, len(text)) + text
                    body += bytes(-len(text) % 4 + 4)
                packet += 1
            length = struct.pack(order + "I", len(body) + 12)
            parts.append(struct.pack(order + "I", kind) + length + body + length)
    return b"".join([*parts, pcapng[end:]])
