"""Run the recorder capture.c on a host while an experiment runs."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tcplab.capture.capture import STILL_RUNNING, Capture
from tcplab.errors import CaptureError
from tcplab.lab import Host
from tcplab.segments.pcap import warn_of_gaps

#: Bytes for Ethernet with two VLAN tags, IPv6, and TCP with all options: 122, rounded up.
HEADERS_ONLY: Final = 128


@contextmanager
def record(
    host: Host, *, snaplen: int = HEADERS_ONLY, interface: str | None = None, ring_mib: int = 64
) -> Iterator[Capture]:
    """Record the packets on a host's interface while the body of a with statement runs::

        with record(lab.client) as capture:
            ...
        print(capture.drops, capture.segments["payload_bytes"])

    The body runs once recording has started, and the file contains everything that the kernel saw
    before the body ended. At the end, warn with CaptureLossWarning if the kernel had to drop
    packets.

    Args:
        snaplen: bytes kept of each packet, 1 to 262144. The headers need 128. The original length
            is always recorded
        interface: the interface, if not the one that leads to the link
        ring_mib: MiB of kernel memory for packets that the recorder has not written yet
    """
    argv = ["capture", f"--snaplen={snaplen}", f"--ring-mib={ring_mib}"]
    argv.append(interface or host.interface)
    # A file without a name disappears when the last process that has it open ends, for whatever
    # reason.
    file = tempfile.TemporaryFile(prefix="tcplab-")  # noqa: SIM115  (the Capture closes it)
    capture = Capture(f"/proc/{os.getpid()}/fd/{file.fileno()}", file=file)
    capture._why_empty = STILL_RUNNING
    capture._left_out = host.network.capture_left_out
    process = host.start(
        argv, privileged=True, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    if not first.startswith('{"listening"'):
        _end(process)
        raise CaptureError(first.strip() or "the recorder ended without a message")
    try:
        yield capture
    finally:
        capture._why_empty = _end(process)
    # An error of the recorder or a warning must not hide an error of the body.
    if capture._why_empty:
        raise CaptureError(capture._why_empty)
    advice = " (a smaller snaplen or a larger ring_mib helps)"
    warn_of_gaps(capture.table, capture.path, advice=advice, stacklevel=3)
    network = host.network
    network.capture_drops = (network.capture_drops or 0) + (capture.drops or 0)


def _end(process: subprocess.Popen[str]) -> str | None:
    """End a recorder once its file is complete; return the reason if it failed."""
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.close()
    with process:
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
        messages = process.stderr.read().strip().splitlines()
    if process.returncode == 0:
        return None
    signalled = f"ended by signal {-process.returncode}; was the laboratory closed?"
    return f"the recording failed: {messages[-1] if messages else signalled}"
