"""Run the recorder capture.c on a host while an experiment runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import Final

from tcplab.capture.capture import STILL_RUNNING, Capture
from tcplab.errors import CaptureError
from tcplab.lab import Host
from tcplab.segments.pcap import warn_of_gaps

#: Bytes for Ethernet with two VLAN tags, IPv6, and TCP with all options: 122, rounded up.
HEADERS_ONLY: Final = 128


class Recording:
    """A recording of the packets on a host's interface, as made by :func:`record`."""

    def __init__(self, host: Host, snaplen: int, interface: str | None, ring_mib: int) -> None:
        self._host = host
        self._argv = [
            "capture",
            f"--snaplen={snaplen}",
            f"--ring-mib={ring_mib}",
            interface or host.interface,
        ]
        self._process: subprocess.Popen[str] | None = None
        self._capture: Capture | None = None

    def __enter__(self) -> Capture:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._stop(stacklevel=2)
            return
        # an error of the recorder must not hide the original error
        with contextlib.suppress(CaptureError):
            self._stop(stacklevel=2)

    def start(self) -> Capture:
        """Start recording, and return the Capture once packets are being recorded."""
        if self._process is not None:
            raise CaptureError("this recording was started before; make a new one with capture()")
        # A file without a name disappears when the last process that has it open ends, for whatever
        # reason.
        file = tempfile.TemporaryFile(prefix="tcplab-")  # noqa: SIM115  (the Capture closes it)
        try:
            self._process = self._host.start(
                self._argv,
                privileged=True,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.PIPE,
            )
            assert self._process.stderr is not None
            first = self._process.stderr.readline()
            if not first.startswith('{"listening"'):
                self._end()
                raise CaptureError(first.strip() or "the recorder ended without a message")
        except BaseException:
            file.close()
            raise
        self._capture = Capture(f"/proc/{os.getpid()}/fd/{file.fileno()}", file=file)
        self._capture._why_empty = STILL_RUNNING
        self._capture._left_out = self._host.network.capture_left_out
        return self._capture

    def stop(self) -> Capture:
        """Stop recording once the file has everything the kernel saw; return the Capture."""
        return self._stop(stacklevel=2)

    def _stop(self, stacklevel: int) -> Capture:
        if self._process is None or self._capture is None:
            raise CaptureError("this recording has not been started")
        if self._capture._why_empty is None:
            return self._capture
        messages, code = self._end()
        if code != 0:
            last = (
                messages[-1] if messages else f"ended by signal {-code}; was the laboratory closed?"
            )
            self._capture._why_empty = f"the recording failed: {last}"
            raise CaptureError(self._capture._why_empty)
        self._capture._why_empty = None
        warn_of_gaps(
            self._capture.table,
            self._capture.path,
            advice=" (a smaller snaplen or a larger ring_mib helps)",
            stacklevel=stacklevel + 1,
        )
        network = self._host.network
        network.capture_drops = (network.capture_drops or 0) + (self._capture.drops or 0)
        return self._capture

    def _end(self) -> tuple[list[str], int]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        messages = process.stderr.read().strip().splitlines()
        process.stderr.close()
        return messages, process.returncode


def record(
    host: Host, *, snaplen: int = HEADERS_ONLY, interface: str | None = None, ring_mib: int = 64
) -> Recording:
    """Record the packets on a host's interface while the body of a with statement runs::

        with record(lab.client) as capture:
            ...
        print(capture.drops, capture.segments["payload_bytes"])

    The body runs once recording has started, and the file contains everything that the kernel saw
    before the body ended. At the end, warn with CaptureLossWarning if the kernel had to drop
    packets. To record across several notebook cells, use ``recording = record(host)``,
    ``.start()``, ``.stop()``.

    Args:
        snaplen: bytes kept of each packet, 1 to 262144. The headers need 128. The original length
            is always recorded
        interface: the interface, if not the one that leads to the link
        ring_mib: MiB of kernel memory for packets that the recorder has not written yet
    """
    return Recording(host, snaplen, interface, ring_mib)
