"""Record each packet at the link, as it entered and as it left or was dropped."""

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tcplab.capture.capture import STILL_RUNNING, Capture
from tcplab.capture.recording import HEADERS_ONLY
from tcplab.lab import Link
from tcplab.segments.pcap import CaptureLossWarning

#: One row per event of :func:`queue_events`. The event is "came" (with the length of the queue at
#: that moment), "left" or "dropped". The direction is 0 from client to server and 1 from server to
#: client. The link has set CE in a marked packet.
QUEUE_EVENTS: Final = np.dtype(
    [
        ("time_ns", np.int64),
        ("direction", np.uint8),
        ("event", "U7"),
        ("marked", np.bool_),
        ("queue_packets", np.int32),
    ]
)

_COMMENT: Final = re.compile(
    rb"(in|out); (dropped=\w+; )?(marked=ce; )?(?:queue_packets=(\d+) |due_ns=)"
)


def queue_events(capture: Capture) -> npt.NDArray[Any]:
    """Return the length of the link's queue over time, from a recording made at the link.

    There is a row for each packet that enters, leaves or is dropped. A packet that leaves does not
    report the queue, so queue_packets is -1 in its row.
    """
    table = capture.table
    rows = []
    # The packet is padded to four bytes, and the comment is the first option after it.
    comments = table.offset + (table.captured_bytes + 3) // 4 * 4 + 4
    places = (comments.tolist(), table.interface.tolist(), table.time_ns.tolist())
    for at, interface, time_ns in zip(*places, strict=True):
        if match := _COMMENT.match(table.data, at):
            way, dropped, marked, packets = match.groups()
            event = "dropped" if dropped else "came" if way == b"in" else "left"
            direction = interface if way == b"in" else 1 - interface
            rows.append((time_ns, direction, event, marked is not None, int(packets or -1)))
    events = np.array(rows, QUEUE_EVENTS)
    return events[np.argsort(events["time_ns"], kind="stable")]


@contextmanager
def record_wire(link: Link, *, snaplen: int = HEADERS_ONLY) -> Iterator[Capture]:
    """Record at the link while the body of a with statement runs.

    The file has one interface per side. It contains each packet as it entered, and again as it left
    or was dropped from the queue. Each record has a packet comment, which Wireshark shows, with the
    queue length, the reason for a drop, or the lateness. The time between a packet's two records is
    its time in the link.

    At the end, warn with CaptureLossWarning if packets arrived while the link's receive ring was
    full. Those packets were neither forwarded nor recorded, and the link's counters list them as
    dropped for "ring".
    """
    file = tempfile.NamedTemporaryFile(prefix="tcplab-", suffix=".pcapng", delete=False)  # noqa: SIM115
    try:
        link.command(f"capture {snaplen} {file.name}")
    except BaseException:
        file.close()
        raise
    finally:
        os.unlink(file.name)  # noqa: PTH108  (the wire has it open, so no name is needed)
    capture = Capture(f"/proc/{os.getpid()}/fd/{file.fileno()}", file=file)
    capture._why_empty = STILL_RUNNING
    try:
        yield capture
    finally:
        link.command("capture off")  # the answer comes when the file is complete
        capture._why_empty = None
        if capture.drops:
            warnings.warn(
                f"{capture.drops} packets came while the wire's receive ring was full: it neither"
                " forwarded nor recorded them (a lower rate or a less busy machine helps)",
                CaptureLossWarning,
                stacklevel=3,
            )
