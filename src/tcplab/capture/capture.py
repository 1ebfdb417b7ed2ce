"""Provide the packets of a capture file to scapy, numpy and Wireshark."""

from __future__ import annotations

import os
import shutil
import weakref
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from tcplab.capture.packets import packets_of
from tcplab.errors import CaptureError
from tcplab.segments import SegmentArray, from_packets
from tcplab.segments.pcap import PacketTable, read_packets, total, warn_of_gaps

if TYPE_CHECKING:
    from scapy.plist import PacketList

STILL_RUNNING: Final = "the recording is still running; its packets are available after it ends"


class Capture:
    """The packets of a capture file, for scapy, numpy and Wireshark.

    The Capture of a recording holds no packets until the recording ends. Its file has no name.
    Other programs can open its `path` under /proc until a with statement closes it.
    """

    def __init__(self, path: str | os.PathLike[str], *, file: IO[bytes] | None = None) -> None:
        self.path = Path(path)
        self._file = file  # keeps the nameless file of a recording open
        if file is not None:
            weakref.finalize(self, file.close)
        self._table: PacketTable | None = None
        self._why_empty: str | None = None
        self._segments: SegmentArray | None = None
        self._left_out: Counter[str] = Counter()  # a recording shares its network's counter

    def __repr__(self) -> str:
        if self._why_empty is not None:
            return f"<Capture: {self._why_empty}>"
        lost = "not known" if self.drops is None else self.drops
        return f"<Capture {self.path}: {len(self)} packets, drops: {lost}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file, which deletes a recording."""
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def table(self) -> PacketTable:
        """Offsets, lengths and times of the packets, as arrays with one element per packet."""
        if self._why_empty is not None:
            raise CaptureError(self._why_empty)
        if self._table is None:
            self._table = read_packets(self.path)
        return self._table

    @property
    def drops(self) -> int | None:
        """Number of packets that the recorder lost, or None if the file has no count."""
        return total(interface.drops for interface in self.table.interfaces)

    @property
    def segments(self) -> SegmentArray:
        """The TCP and UDP segments as one numpy structured array; see tcplab.segments."""
        if self._segments is None:
            self._segments = from_packets(self.table)
            self._left_out.update(self._segments.left_out)
        return self._segments

    def packets(self) -> PacketList:
        """Return the packets as a scapy PacketList; scapy dissects about 5,000 per second."""
        return packets_of(self.table)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save a permanent copy of the file as `path`, and return the path."""
        self.table  # noqa: B018  (raises if there is nothing to save yet)
        try:
            shutil.copyfile(self.path, path)
        except OSError as error:
            raise CaptureError(f"saving to {os.fspath(path)}: {error.strerror or error}") from None
        return Path(path)


def open_capture(path: str | os.PathLike[str]) -> Capture:
    """Open a pcap or pcapng file, in either byte order, with any time resolution.

    Warn with CaptureLossWarning if the file reports lost packets, and with CaptureTruncatedWarning
    if it is cut short or damaged.
    """
    capture = Capture(path)
    warn_of_gaps(capture.table, path, stacklevel=2)
    return capture
