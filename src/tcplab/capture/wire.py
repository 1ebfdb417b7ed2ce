"""Recordings made by the wire itself: each packet as it entered, and as it left or was dropped."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tcplab.capture.capture import Capture
from tcplab.capture.recording import HEADERS_ONLY
from tcplab.segments.pcap import CaptureLossWarning

if TYPE_CHECKING:
    from tcplab.lab import Link


#: One row per event of :func:`queue_events`: "came" with the queue that the packet found, "left",
#: or "dropped" with the reason. direction: 0 client to server, 1 back.
QUEUE_EVENTS: Final = np.dtype(
    [
        ("time_ns", np.int64),
        ("direction", np.uint8),
        ("event", "U7"),
        ("reason", "U8"),
        ("marked", np.bool_),
        ("queue_packets", np.int32),
        ("queue_bytes", np.int64),
        ("late_ns", np.int64),
    ]
)

_COMMENT: Final = re.compile(
    rb"(in|out); (?:dropped=(\w+); )?(marked=ce; )?"
    rb"(?:queue_packets=(\d+) queue_bytes=(\d+)|due_ns=-?\d+ late_ns=(-?\d+))"
)


def queue_events(capture: Capture) -> npt.NDArray[Any]:
    """The queue of the wire over time, packet by packet, from a recording made by the wire.

    Returns:
        An array of QUEUE_EVENTS in the order of time. A packet that left found its end of the queue
        when it came; where queue_packets is -1, the wire did not say.
    """
    table = capture.table
    data = table.data.tobytes()
    rows = []
    places = zip(
        table.offset.tolist(),
        table.captured_bytes.tolist(),
        table.interface.tolist(),
        table.time_ns.tolist(),
        strict=True,
    )
    for offset, kept, interface, time_ns in places:
        # The comment is the first option behind the packet, which is padded to four bytes.
        found = _COMMENT.match(data, offset + (kept + 3 & ~3) + 4)
        if found is None:
            continue
        way, reason, marked, packets, size, late = found.groups()
        event = "dropped" if reason else "came" if way == b"in" else "left"
        rows.append(
            (
                time_ns,
                interface if way == b"in" else 1 - interface,
                event,
                (reason or b"").decode(),
                marked is not None,
                int(packets or -1),
                int(size or -1),
                int(late or 0),
            )
        )
    events = np.array(rows, QUEUE_EVENTS)
    return events[np.argsort(events["time_ns"], kind="stable")]


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
