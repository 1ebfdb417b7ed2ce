"""Recordings made by the wire itself: each packet as it entered, and as it left or was dropped."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tcplab.capture.capture import Capture
from tcplab.capture.recording import HEADERS_ONLY
from tcplab.pcap import CaptureLossWarning

if TYPE_CHECKING:
    from tcplab.lab import Link


@contextmanager
def record_wire(link: Link, *, snaplen: int = HEADERS_ONLY) -> Iterator[Capture]:
    """Records at the wire while the body of a with statement runs.

    The file has an interface for each side. A packet is there once as it entered and once as it
    left; of one that was dropped the second record carries the reason, and each carries the length
    of the queue, as packet comments that Wireshark shows. So segments made from it appear twice, a
    little apart in time: that distance is what the wire did to them.

    Args:
        link: of a laboratory: ``lab.link``.
        snaplen: bytes of each packet that are kept.

    Warns with CaptureLossWarning at the end if packets came while the wire's receive ring was full:
    these it neither forwarded nor recorded, and its counters have them as dropped for "ring".

    Raises:
        LabError: the wire cannot write the file, or has ended.
    """
    file = tempfile.NamedTemporaryFile(prefix="tcplab-", suffix=".pcapng", delete=False)  # noqa: SIM115
    try:
        link.command(f"capture {snaplen} {file.name}")
    except BaseException:
        file.close()
        raise
    finally:
        os.unlink(file.name)  # noqa: PTH108  (the wire has it open; nobody else needs a name)
    capture = Capture(f"/proc/{os.getpid()}/fd/{file.fileno()}", file=file)
    capture._why_empty = "the recording goes on; its packets are there when it has ended"
    try:
        yield capture
    finally:
        link.command("capture off")  # answered when the file is complete
        capture._why_empty = None
        if capture.drops:
            warnings.warn(
                f"{capture.drops} packets came while the wire's receive ring was full: it neither"
                " forwarded nor recorded them (a lower rate or a less busy machine helps)",
                CaptureLossWarning,
                stacklevel=3,
            )
