"""Record a command on this machine and its network, as far as the user is permitted to."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tcplab.errors import CaptureError, LabError
from tcplab.explain.recording import Recorded, known_command, run_client
from tcplab.lab import Host, Loopback, has_net_raw, program_path
from tcplab.lab.namespaces import read_file
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import read_calls
from tcplab.programs.counters import tcp_counters

if TYPE_CHECKING:
    from tcplab.capture import Capture

#: Evidence that is missing without a capture.
_NO_PACKETS: Final = (
    "packets: when each left, why it waited, and when packets were lost. Calls and the kernel's"
    " counts alone show how long the program waited, but not why"
)
_SETTLE_S: Final = 0.1
#: Number of bytes recorded per packet, which is enough for the headers.
_HEADERS: Final = 128
#: Time to wait before dumpcap is stopped. The kernel hands packets to it in blocks, and the last
#: block would otherwise be lost.
_BLOCK_S: Final = 0.3


class _Machine(Loopback):
    """This machine, on which the capture program may have a file capability (setcap(8))."""

    def entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        """Return what Loopback does, but skip its check of privileges if `capture` has them."""
        return super().entrance(host, privileged and not _has_right(program_path("capture")))


def record_here(
    client: Sequence[str], interface: str | None = None, timeout_s: float = 60.0
) -> Recorded:
    """Run a command on this machine, and record its calls and, if permitted, its packets.

    The default interface is that of the default route.
    """
    with (
        temporary_folder() as name,
        _Machine() as machine,
        contextlib.ExitStack() as stack,
    ):
        notes: list[str] = []
        chosen = interface or _default_interface()
        host = Host(machine, "here", "", chosen)
        known_command(client)
        if (near := _recorder(host)) is not None:
            near.start()
            stack.callback(_quietly_stop, near)
        else:
            notes += [_NO_PACKETS, f"to allow capturing: {right_to_capture()}"]
        log = Path(name) / "client"
        before = tcp_counters(host)
        span = run_client(host, client, log, timeout_s, notes)
        time.sleep(_SETTLE_S)
        capture = near.stop() if near is not None else None
        output = log.with_suffix(".out").read_text(errors="replace")
        overflows = (tcp_counters(host) - before)["ListenOverflows"]
        return Recorded(read_calls(log), None, capture, None, span, None, notes, output, overflows)


class _Recorder(Protocol):
    """Anything that records the packets of an interface between start() and stop()."""

    def start(self) -> Capture:
        """Start recording, and return the capture once packets are being recorded."""

    def stop(self) -> Capture:
        """Stop recording, and return the capture."""


def _quietly_stop(recording: _Recorder) -> None:
    with contextlib.suppress(CaptureError, LabError):
        recording.stop()


# ---- the right to capture ------------------------------------------------------------------------


def _recorder(host: Host) -> _Recorder | None:
    """Return tcplab's recorder if it may capture, otherwise Wireshark's, or None."""
    if has_net_raw() or _has_right(program_path("capture")):
        return host.capture()
    if (path := _dumpcap()) is not None and os.access(path, os.X_OK):
        return _Dumpcap(host, path)
    return None


def right_to_capture() -> str:
    """Return the command with which an administrator allows this user to capture packets here."""
    path = _dumpcap()
    if path is not None and not os.access(path, os.X_OK):
        group = Path(path).group()
        return f"sudo usermod -aG {group} {getpass.getuser()} (for {path}; then log in again)"
    return f"sudo setcap cap_net_raw+ep {program_path('capture')}"


def _dumpcap() -> str | None:
    """Return the path of Wireshark's dumpcap if its file may capture, or None.

    The user need not be permitted to run it.
    """
    for folder in (*os.environ["PATH"].split(os.pathsep), "/usr/sbin"):
        path = Path(folder) / "dumpcap"
        if _has_right(path):
            return str(path)
    return None


def _has_right(path: str | Path) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


class _Dumpcap:
    """A recorder that runs Wireshark's dumpcap, which members of the wireshark group may run."""

    def __init__(self, host: Host, path: str) -> None:
        self._host, self._path = host, path
        self._process: subprocess.Popen[str] | None = None
        from tcplab.capture import Capture

        self._file = tempfile.TemporaryFile(prefix="tcplab-")  # noqa: SIM115  (the Capture closes it)
        self._capture = Capture(f"/proc/{os.getpid()}/fd/{self._file.fileno()}", file=self._file)

    def start(self) -> Capture:
        self._process = self._host.start(
            [self._path, "-q", "-i", self._host.interface, "-s", str(_HEADERS), "-w", "-"],
            stdout=self._file,
            stderr=subprocess.PIPE,
        )
        assert self._process.stderr is not None
        messages = []
        for line in self._process.stderr:
            if line.startswith("File:"):  # dumpcap prints this once its socket is open
                return self._capture
            messages.append(line.strip())
        raise CaptureError(" ".join(messages[1:3]) or "dumpcap ended without a message")

    def stop(self) -> Capture:
        """Stop recording, and return the capture. Calling it again only returns the capture."""
        assert self._process is not None
        if self._process.poll() is None:
            time.sleep(_BLOCK_S)
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
        assert self._process.stderr is not None
        self._process.stderr.close()
        return self._capture


def _default_interface() -> str:
    """Return the interface of the default route in /proc/net/route, or "lo" (see route(8))."""
    for line in read_file("/proc/net/route").splitlines()[1:]:
        name, target, *_rest = line.split()
        if target == "00000000":
            return name
    return "lo"
