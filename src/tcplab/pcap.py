"""Finds the packets in pcap and pcapng files: where each is, how long, and when it passed.

Files of either byte order and any time resolution, whole, cut short or damaged. scapy
(tcplab.capture) and numpy (tcplab.segments) read what the packets hold.

Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, draft-ietf-opsawg-pcaplinktype.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tcplab.errors import CaptureError

__all__ = [
    "CaptureLossWarning",
    "CaptureTruncatedWarning",
    "Interface",
    "Records",
    "read_records",
    "warn_of_gaps",
]

Int64Array = npt.NDArray[np.int64]
UInt32Array = npt.NDArray[np.uint32]
ByteArray = npt.NDArray[np.uint8]

#: Link types (the registry is draft-ietf-opsawg-pcaplinktype) that tcplab.segments dissects.
NULL, ETHERNET, RAW, LOOP, SLL, IPV4, IPV6, SLL2 = 0, 1, 101, 108, 113, 228, 229, 276
RAW_BSD, RAW_OPENBSD = 12, 14  # what old libpcap wrote for RAW

MAX_PACKET_BYTES: Final = 262144  # libpcap's and Wireshark's limit; more is a damaged file
MAX_BLOCK_BYTES: Final = 16 << 20  # Wireshark's limit for any pcapng block


class CaptureLossWarning(UserWarning):
    """Packets that passed are missing from the capture: the kernel counted them."""


class CaptureTruncatedWarning(UserWarning):
    """A capture file is cut short or damaged; the packets before the damage are read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Interface:
    """Where packets were recorded, as the file tells it.

    Attributes:
        name: its name, "" when the file does not say (pcap never does).
        link_type: what a packet begins with: 1 Ethernet, 101 raw IP, 113 or 276 Linux cooked,
            0 loopback.
        snaplen_bytes: how much of each packet was kept, 0 for all.
        received: packets that the interface showed to the recorder, None when not told.
        drops: packets of these that the recorder lost, None when not told.
    """

    name: str
    link_type: int
    snaplen_bytes: int
    received: int | None = None
    drops: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The packets of a capture file, one element of each array a packet, in the file's order.

    Attributes:
        data: uint8, the whole file.
        offset: int64, where in data the packet's first byte is.
        captured_bytes: uint32, how many bytes of it the file holds; all of them lie within data.
        original_bytes: uint32, how long it was.
        time_ns: int64, since 1970-01-01 UTC; 0 where the file has no time.
        interface: uint32, index into interfaces.
        outbound: int8, 1 when it left through the interface, 0 when it came in, -1 unknown.
        interfaces: where they were recorded.
        truncated: why reading stopped before the file's end, with the place; None at a proper end.
    """

    data: ByteArray
    offset: Int64Array
    captured_bytes: UInt32Array
    original_bytes: UInt32Array
    time_ns: Int64Array
    interface: UInt32Array
    outbound: npt.NDArray[np.int8]
    interfaces: tuple[Interface, ...]
    truncated: str | None

    def __len__(self) -> int:
        return len(self.offset)

    def link_types(self) -> Int64Array:
        """int64, the link type of each packet."""
        by_interface = np.array([i.link_type for i in self.interfaces] or [0], np.int64)
        return by_interface[self.interface]


def total(counts: Iterable[int | None]) -> int | None:
    """The sum of the counts that are known; None when none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def warn_of_gaps(records: Records, path: str | os.PathLike[str], *, stacklevel: int = 1) -> None:
    """Warns of packets that a capture lacks, and of a file that ends early.

    Args:
        records: of the file.
        path: named in the warning.
        stacklevel: as of warnings.warn, seen from the caller.
    """
    if drops := total(interface.drops for interface in records.interfaces):
        warnings.warn(
            f"{drops} packets are missing from the capture: the recorder fell behind (a"
            " smaller snaplen or a larger ring_mib helps)",
            CaptureLossWarning,
            stacklevel=stacklevel + 1,
        )
    if records.truncated:
        warnings.warn(
            f"{os.fspath(path)}: {records.truncated}",
            CaptureTruncatedWarning,
            stacklevel=stacklevel + 1,
        )


def read_records(path: str | os.PathLike[str]) -> Records:
    """Finds the packets of a pcap or pcapng file.

    A file that ends early or is damaged is read up to there: see Records.truncated.

    Raises:
        CaptureError: no such file, or it is neither pcap nor pcapng.
    """
    data = _load(path)
    magic = bytes(data[:4])
    if magic == b"\x0a\x0d\x0d\x0a":
        return _PcapngReader(data).read()
    for order in "<", ">":
        if kind := _PCAP_MAGIC.get(struct.unpack(order + "I", magic)[0]):
            return _read_pcap(data, order, *kind)
    if magic[:2] == b"\x1f\x8b":
        raise CaptureError(f"{os.fspath(path)}: compressed with gzip; run gunzip first")
    raise CaptureError(
        f"{os.fspath(path)}: not a capture: it begins {magic.hex(' ')}, not as pcap or pcapng do"
    )


def _load(path: str | os.PathLike[str]) -> ByteArray:
    """The bytes of a file. Not mapped: were it recorded anew, we would die of SIGBUS."""
    try:
        with Path(path).open("rb") as file:
            data = np.fromfile(file, np.uint8)
    except OSError as error:
        raise CaptureError(f"{os.fspath(path)}: {error.strerror}") from None
    if len(data) < 24:
        raise CaptureError(f"{os.fspath(path)}: not a capture: it has {len(data)} bytes")
    return data


# -- pcap --

#: magic number -> nanoseconds a unit of the fractional time, bytes of a record's header
_PCAP_MAGIC: Final = {
    0xA1B2C3D4: (1000, 16),
    0xA1B23C4D: (1, 16),
    0xA1B2CD34: (1000, 24),  # Kuznetzov's, still found in old traces
}


def _read_pcap(data: ByteArray, order: str, unit_ns: int, header_bytes: int) -> Records:
    snaplen, network = struct.unpack_from(order + "II", data.data, 16)
    u32 = integers(data, order + "u4")
    starts, stop = _pcap_starts(data, u32, order, header_bytes)
    times = _take(u32, starts) * 10**9 + _take(u32, starts + 4) * unit_ns
    return Records(
        data=data,
        offset=starts + header_bytes,
        captured_bytes=u32[starts + 8].astype(np.uint32),
        original_bytes=u32[starts + 12].astype(np.uint32),
        time_ns=times,
        interface=np.zeros(len(starts), np.uint32),
        outbound=np.full(len(starts), -1, np.int8),
        # The high bits tell of a frame check sequence.
        interfaces=(Interface("", network & 0xFFFF, min(snaplen, MAX_PACKET_BYTES)),),
        truncated=_where(stop, len(data), len(starts)),
    )


def _pcap_starts(
    data: ByteArray, u32: npt.NDArray[Any], order: str, header_bytes: int
) -> tuple[Int64Array, tuple[int, str]]:
    """Where each record begins; where reading stopped, and why."""
    size, position = len(data), 24
    view, unpack = data.data, struct.Struct(order + "8xI").unpack_from
    chunks: list[Int64Array] = []
    single: list[int] = []
    guess = _Guess()
    why = ""
    while position < size:
        if position + header_bytes > size:
            why = "in the header of a packet"
            break
        (captured,) = unpack(view, position)
        if captured > MAX_PACKET_BYTES:
            why = f"at a packet of {captured} bytes, more than the {MAX_PACKET_BYTES} there can be"
            break
        following = position + header_bytes + captured
        if following > size:
            why = "in the middle of a packet"
            break
        single.append(position)
        position = following
        if len(single) >= guess.patience:
            chunks.append(np.array(single, np.int64))
            single.clear()
            run = _guess_pcap(data, u32, order, header_bytes, position, guess.window)
            position = guess.accept(chunks, run, position)
    chunks.append(np.array(single, np.int64))
    return np.concatenate(chunks), (position, why)


def _guess_pcap(
    data: ByteArray,
    u32: npt.NDArray[Any],
    order: str,
    header_bytes: int,
    start: int,
    window: int,
) -> _Run:
    """Records from start on, found by their looks: the same day, a small length."""
    end = min(start + window, len(data) - header_bytes)
    if end <= start:
        return _NO_RUN
    # The high half of the seconds is that of the packet before for hours on end.
    high, low = (3, 2) if order == "<" else (0, 1)
    look = data[start:]
    count = end - start
    alike = look[high : high + count] == data[start + high]
    places = np.flatnonzero(alike)
    places = places[look[low:][places] == data[start + low]] + start
    captured = _take(u32, places + 8)
    places, captured = places[captured <= MAX_PACKET_BYTES], captured[captured <= MAX_PACKET_BYTES]
    return _follow(places, places + header_bytes + captured, start, len(data))


# -- pcapng --

_SHB, _IDB, _PB, _SPB, _ISB, _EPB = 0x0A0D0D0A, 1, 2, 3, 5, 6
_PACKETS: Final = (_EPB, _SPB, _PB)
_FIXED_BYTES: Final = {_SHB: 28, _IDB: 20, _PB: 32, _SPB: 16, _ISB: 24, _EPB: 32}


@dataclasses.dataclass(slots=True)
class _Section:
    """What the blocks of a section need to be read: its byte order, where its interfaces begin."""

    order: str
    first_interface: int


class _PcapngReader:
    """One pass over the blocks; the runs of packet blocks are found many at a time."""

    def __init__(self, data: ByteArray) -> None:
        self.data = data
        self.bytes = data.data
        self.section = _Section("<", 0)
        self.packets: dict[int, tuple[list[Int64Array], list[int]]] = {}  # of this section
        self.interfaces: list[Interface] = []
        self.clocks: list[tuple[int, int]] = []  # if_tsresol, if_tsoffset of each interface
        self.parts: list[tuple[_Section, int, Int64Array]] = []  # section, block type, starts
        self.count = 0

    def read(self) -> Records:
        stop = self._walk()
        columns = [self._columns(*part) for part in self.parts]
        if columns:
            starts, offset, captured, original, times, interface, outbound = map(
                np.concatenate, zip(*columns, strict=True)
            )
        else:
            starts = offset = captured = original = times = interface = np.zeros(0, np.int64)
            outbound = np.zeros(0, np.int64)
        if len(self.parts) > 1:  # packets of several types or sections: back into the file's order
            rank = np.argsort(starts, kind="stable")
            offset, captured, original = offset[rank], captured[rank], original[rank]
            times, interface, outbound = times[rank], interface[rank], outbound[rank]
        return Records(
            data=self.data,
            offset=offset,
            captured_bytes=captured.astype(np.uint32),
            original_bytes=original.astype(np.uint32),
            time_ns=times,
            interface=interface.astype(np.uint32),
            outbound=outbound.astype(np.int8),
            interfaces=tuple(self.interfaces),
            truncated=_where(stop, len(self.data), self.count),
        )

    # -- blocks --

    def _walk(self) -> tuple[int, str]:
        """Goes through the blocks; where that ended, and why if it was not the file's end."""
        position, size = 0, len(self.data)
        guess = _Guess()
        problem = ""
        while position < size and not problem:
            if problem := self._enter_section(position):
                break
            kind, length = struct.unpack_from(self.section.order + "II", self.bytes, position)
            if problem := self._problem(position, kind, length):
                break
            if kind in _PACKETS:
                chunks, single = self.packets.setdefault(kind, ([], []))
                single.append(position)
                self.count += 1
            elif kind == _IDB:
                self._interface(position, length)
            elif kind == _ISB:
                self._statistics(position, length)
            position += length
            if kind == _EPB and len(single) >= guess.patience:
                position = self._run(chunks, single, guess, position)
        self._finish_section()
        return position, problem

    def _run(
        self, chunks: list[Int64Array], single: list[int], guess: _Guess, position: int
    ) -> int:
        """Takes many packet blocks at once, if it finds them; the position after them."""
        chunks.append(np.array(single, np.int64))
        single.clear()
        run = self._guess_blocks(position, guess.window)
        self.count += len(run.starts)
        return guess.accept(chunks, run, position)

    def _enter_section(self, position: int) -> str:
        """Takes note of a new section, if one begins here; what is wrong with it."""
        head = self.bytes[position : position + 12].tobytes()
        if len(head) < 12:
            return "in the header of a block"
        if head[:4] == b"\x0a\x0d\x0d\x0a":
            order = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(head[8:])
            if order is None:
                return "at a section whose byte order cannot be told"
            self._finish_section()
            self.section = _Section(order, len(self.interfaces))
        return ""

    def _finish_section(self) -> None:
        for kind, (chunks, single) in self.packets.items():
            starts = np.concatenate([*chunks, np.array(single, np.int64)])
            self.parts.append((self.section, kind, starts))
        self.packets = {}

    def _problem(self, position: int, kind: int, length: int) -> str:
        """Why the block can't be read, if so."""
        if length % 4 or not _FIXED_BYTES.get(kind, 12) <= length <= MAX_BLOCK_BYTES:
            return f"at a block whose length, {length}, cannot be"
        if position + length > len(self.data):
            return "in the middle of a block"
        (again,) = struct.unpack_from(self.section.order + "I", self.bytes, position + length - 4)
        if again != length:
            return "at a block whose two lengths differ"
        return self._packet_problem(position, kind, length) if kind in _PACKETS else ""

    def _packet_problem(self, position: int, kind: int, length: int) -> str:
        form = self.section.order + {_EPB: "I8xI", _PB: "H10xI", _SPB: ""}[kind]
        number, captured = struct.unpack_from(form, self.bytes, position + 8) or (0, 0)
        if self.section.first_interface + number >= len(self.interfaces):
            return f"at a packet of interface {number}, which was not described before"
        if kind != _SPB and captured > length - 32:
            return f"at a packet of {captured} bytes in a block of {length}"
        return ""

    def _interface(self, position: int, length: int) -> None:
        link_type, snaplen = struct.unpack_from(
            self.section.order + "HxxI", self.bytes, position + 8
        )
        options = self._options(position + 16, position + length - 4)
        resolution, offset_s = options.get(9, b""), options.get(14, b"")
        self.clocks.append(
            (
                resolution[0] if resolution else 6,
                struct.unpack(self.section.order + "q", offset_s)[0] if len(offset_s) == 8 else 0,
            )
        )
        name = options.get(2, b"").rstrip(b"\0").decode(errors="replace")
        self.interfaces.append(Interface(name, link_type, min(snaplen, MAX_PACKET_BYTES)))

    def _statistics(self, position: int, length: int) -> None:
        (number,) = struct.unpack_from(self.section.order + "I", self.bytes, position + 8)
        number += self.section.first_interface
        if number >= len(self.interfaces):
            return
        options = self._options(position + 20, position + length - 4)
        counts = {
            code: struct.unpack(self.section.order + "Q", value)[0]
            for code, value in options.items()
            if len(value) == 8
        }
        lost = [
            counts[code] for code in (5, 7) if code in counts
        ]  # by the interface, by the system
        self.interfaces[number] = dataclasses.replace(
            self.interfaces[number], received=counts.get(4), drops=sum(lost) if lost else None
        )

    def _options(self, position: int, end: int) -> dict[int, bytes]:
        """Option code -> value; a damaged list ends where it makes no sense."""
        options: dict[int, bytes] = {}
        while position + 4 <= end:
            code, length = struct.unpack_from(self.section.order + "HH", self.bytes, position)
            if code == 0 or position + 4 + length > end:
                break
            options[code] = bytes(self.data[position + 4 : position + 4 + length])
            position += 4 + length + -length % 4
        return options

    def _guess_blocks(self, start: int, window: int) -> _Run:
        """Enhanced packet blocks from start on, found by their looks: the length is there twice."""
        size = min(window, len(self.data) - start) // 4
        words = self.data[start : start + 4 * size].view(self.section.order + "u4")
        places = np.flatnonzero(words[: max(size - 7, 0)] == _EPB)
        quarters = words[places + 1].astype(np.int64) >> 2
        fits = (quarters >= 8) & (places + quarters <= size)
        places, quarters = places[fits], quarters[fits]
        length = words[places + 1]
        interfaces = len(self.interfaces) - self.section.first_interface
        good = (words[places + quarters - 1] == length) & (length % 4 == 0)
        good &= (words[places + 2] < interfaces) & (words[places + 5] <= length - 32)
        places, quarters = places[good], quarters[good]
        return _follow(places * 4 + start, (places + quarters) * 4 + start, start, len(self.data))

    # -- packets --

    def _columns(self, section: _Section, kind: int, starts: Int64Array) -> tuple[Int64Array, ...]:
        """start, offset, captured, original, time, interface, outbound of one type's packets."""
        u32 = integers(self.data, section.order + "u4")
        u16 = integers(self.data, section.order + "u2")
        if kind == _SPB:
            original = _take(u32, starts + 8)
            interface = np.full(len(starts), section.first_interface, np.int64)
            room = _take(u32, starts + 4) - 16
            snaplen = self.interfaces[section.first_interface].snaplen_bytes or MAX_PACKET_BYTES
            captured = np.minimum(np.minimum(original, room), snaplen)
            nothing = np.zeros(len(starts), np.int64)
            return starts, starts + 12, captured, original, nothing, interface, nothing - 1
        interface = _take(u32 if kind == _EPB else u16, starts + 8) + section.first_interface
        captured, original = _take(u32, starts + 20), _take(u32, starts + 24)
        ticks = (_take(u32, starts + 12) << 32) | _take(u32, starts + 16)
        times = np.zeros(len(starts), np.int64)
        for number in np.unique(interface):
            of_it = interface == number
            times[of_it] = _nanoseconds(ticks[of_it], *self.clocks[number])
        # epb_flags is the first option, if any: bits 0-1 are 1 for inbound, 2 for outbound.
        option = starts + 28 + (captured + 3 & ~3)
        has_flags = option + 12 <= starts + _take(u32, starts + 4)
        option = np.where(has_flags, option, starts)
        has_flags &= (_take(u16, option) == 2) & (_take(u16, option + 2) == 4)
        flags = np.where(has_flags, _take(u32, option + 4), 0)
        outbound = np.array([-1, 0, 1, -1])[flags & 3]
        return starts, starts + 28, captured, original, times, interface, outbound


def _nanoseconds(ticks: Int64Array, resolution: int, offset_s: int) -> Int64Array:
    """Timestamps in units of if_tsresol, as nanoseconds since 1970.

    if_tsresol is n for 10^-n s, or 128 + n for 2^-n s (draft-ietf-opsawg-pcapng, section 4.2).
    A value that no int64 can hold, in a damaged file, wraps around.
    """
    exponent = resolution & 0x7F
    unsigned = ticks.astype(np.uint64)
    if resolution & 0x80:
        whole = unsigned >> np.uint64(min(exponent, 63))
        part = unsigned & np.uint64((1 << min(exponent, 63)) - 1)
        if exponent > 32:  # so that the product below fits
            part, exponent = part >> np.uint64(min(exponent, 63) - 32), 32
        fraction = (part * np.uint64(10**9)) >> np.uint64(exponent)
        result = whole * np.uint64(10**9) + fraction
    elif exponent <= 9:
        result = unsigned * np.uint64(10 ** (9 - exponent))
    elif exponent <= 28:
        result = unsigned // np.uint64(10 ** (exponent - 9))
    else:  # 2^64 of these units are less than a nanosecond
        result = np.zeros_like(unsigned)
    wrapped = (offset_s * 10**9) % 2**64
    shifted: Int64Array = (result + np.uint64(wrapped)).astype(np.int64)
    return shifted


# -- many records at a time --
#
# Where a record begins is known only from the one before: a walk that Python does at 10^6 a second.
# So we guess, and then prove: all places that look like a record are found at once, and those that
# the chain of lengths from a true record reaches are true. What the guess misses, the walk does.


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """Records that follow one another: where each begins, and where the one after them does."""

    starts: Int64Array
    following: int


_NO_RUN: Final = _Run(np.zeros(0, np.int64), 0)


@dataclasses.dataclass(slots=True)
class _Guess:
    """How much to bet on guessing: more after each success, so that a hostile file costs little."""

    patience: int = 16  # records to walk before the next guess
    window: int = 1 << 14  # bytes to look at

    def accept(self, chunks: list[Int64Array], run: _Run, position: int) -> int:
        """Takes a run over; the position after it."""
        if len(run.starts) == 0:
            self.patience, self.window = min(2 * self.patience, 1 << 14), 1 << 14
            return position
        chunks.append(run.starts)
        if run.following - position < self.window // 4:
            self.patience, self.window = 16, max(self.window // 4, 1 << 14)
        else:
            self.patience, self.window = 1, min(4 * self.window, 1 << 18)
        return run.following


def _follow(places: Int64Array, following: Int64Array, start: int, size: int) -> _Run:
    """The records that the chain from start reaches, as far as it stays among the places.

    Args:
        places: where something looks like a record, ascending.
        following: for each, where the next record would begin.
        start: where a record does begin.
        size: of the file; a record must end within it.
    """
    whole = following <= size
    places, following = places[whole], following[whole]
    if len(places) == 0 or places[0] != start:
        return _NO_RUN
    successor = np.searchsorted(places, following)
    known = successor < len(places)
    known[known] = places[successor[known]] == following[known]
    # Runs of neighbours are taken whole; in a file without look-alikes there is just one.
    jumps = np.flatnonzero(~known | (successor != np.arange(1, len(places) + 1)))
    chunks: list[Int64Array] = []
    at = 0
    while True:
        last = jumps[np.searchsorted(jumps, at)]
        chunks.append(places[at : last + 1])
        if not known[last]:
            return _Run(np.concatenate(chunks), int(following[last]))
        at = successor[last]


def integers(data: ByteArray, dtype: str) -> npt.NDArray[Any]:
    """A view of data as integers that begin at every byte: [i] is the integer at byte i."""
    count = max(len(data) - np.dtype(dtype).itemsize + 1, 0)
    return np.ndarray((count,), dtype, buffer=data.data, strides=(1,))


def _take(integers: npt.NDArray[Any], at: Int64Array) -> Int64Array:
    values: Int64Array = integers[at].astype(np.int64)
    return values


def _where(stop: tuple[int, str], size: int, packets: int) -> str | None:
    position, why = stop
    if not why:
        return None
    return f"reading stopped {why}, after {packets} packets, at byte {position} of {size}"
