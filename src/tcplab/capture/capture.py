"""A capture file and what can be done with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from tcplab.capture.packets import packets_of
from tcplab.errors import CaptureError
from tcplab.segments import SegmentArray, from_packets
from tcplab.segments.pcap import Interface, PacketTable, read_packets, total, warn_of_gaps

if TYPE_CHECKING:
    from scapy.plist import PacketList


class Capture:
    """Packets of a capture file, for scapy, numpy and Wireshark.

    Made by :func:`open_capture`, or by a recording, and then empty until the recording ends.

    Attributes:
        path: the file. That of a recording has no name: its path is one under /proc that other
            programs can open for as long as this object lives; :meth:`save` makes a lasting file.
    """

    def __init__(self, path: str | os.PathLike[str], *, file: IO[bytes] | None = None) -> None:
        self.path = Path(path)
        self._file = file  # keeps the nameless file of a recording
        if file is not None:
            weakref.finalize(self, file.close)
        self._table: PacketTable | None = None
        self._why_empty: str | None = None
        self._segments: SegmentArray | None = None
        self._left_out: Counter[str] = Counter()  # of the network that was recorded

    def __repr__(self) -> str:
        if self._why_empty is not None:
            return f"<Capture: {self._why_empty}>"
        lost = "not known" if self.drops is None else self.drops
        return f"<Capture {self.path}: {len(self)} packets, drops: {lost}>"

    def __len__(self) -> int:
        return len(self.table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def table(self) -> PacketTable:
        """The packets' places in the file, lengths and times: arrays, one element per packet."""
        if self._why_empty is not None:
            raise CaptureError(self._why_empty)
        if self._table is None:
            self._table = read_packets(self.path)
        return self._table

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces at which packets were recorded, with the counts that the file tells."""
        return self.table.interfaces

    @property
    def received(self) -> int | None:
        """Packets that the kernel showed to the recorder; None when the file does not say."""
        return total(interface.received for interface in self.interfaces)

    @property
    def drops(self) -> int | None:
        """Packets among those received that were lost; None when the file does not say."""
        return total(interface.drops for interface in self.interfaces)

    @property
    def truncated(self) -> str | None:
        """The place and the reason where reading stopped too early; None for a whole file."""
        return self.table.truncated

    @property
    def segments(self) -> SegmentArray:
        """The TCP and UDP segments as one numpy structured array: see tcplab.segments."""
        if self._segments is None:
            self._segments = from_packets(self.table)
            self._left_out.update(self._segments.left_out)
        return self._segments

    def packets(self, first: int = 0, count: int | None = None) -> PacketList:
        """The packets as a scapy PacketList; with `count`, so many from the packet `first` on.

        Scapy dissects 5 000 packets per second or so; :attr:`segments` is for more.
        """
        return packets_of(self.table, first, count)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copies the file to path, which is there to stay; the path.

        Raises:
            CaptureError: it could not be written.
        """
        self.table  # noqa: B018  (raises if there is nothing to save yet)
        try:
            shutil.copyfile(self.path, path)
        except (OSError, shutil.SameFileError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CaptureError(f"saving to {os.fspath(path)}: {reason}") from None
        return Path(path)

    def to_wireshark(self, path: str | os.PathLike[str] | None = None) -> Path:
        """A file that `wireshark PATH` opens: this one, or for a recording a copy in path.

        Without path a recording is copied to capture-1.pcapng, capture-2.pcapng, … in the working
        directory, whichever is free.
        """
        if path is not None:
            return self.save(path)
        if self._file is None:
            return self.path
        number = 1
        while True:
            with contextlib.suppress(FileExistsError):
                free = Path(f"capture-{number}.pcapng")
                free.touch(exist_ok=False)
                return self.save(free)
            number += 1

    def close(self) -> None:
        """Lets go of the file, and so removes that of a recording. May be called again."""
        if self._file is not None:
            self._file.close()


def open_capture(path: str | os.PathLike[str]) -> Capture:
    """Opens a capture file: pcap or pcapng, of either byte order, with µs, ns or other time stamps.

    Warns with CaptureLossWarning when the file says that packets were lost, and with
    CaptureTruncatedWarning when it ends in the middle of a packet.

    Raises:
        CaptureError: no such file, or it is not a capture.
    """
    capture = Capture(path)
    warn_of_gaps(capture.table, path, stacklevel=2)
    return capture
