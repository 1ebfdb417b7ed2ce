"""A command on this very machine and its own network, recorded as far as the machine allows."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcplab.errors import CaptureError, LabError
from tcplab.explain.recording import Recorded, known_command, run_client
from tcplab.lab import Host, Loopback, has_net_raw, program_path
from tcplab.lab.namespaces import read_file
from tcplab.programs.calls import read_calls

#: What a capture would have told.
_NO_PACKETS: Final = (
    "packets: when each left, why it waited, what was lost when. Calls and the kernel's counts"
    " alone tell how long the program waited, and not why"
)
_SETTLE_S: Final = 0.1


class _Machine(Loopback):
    """This machine; the recorder of packets may have its right from its file (setcap(8))."""

    def entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        """The command that starts others, and no descriptors."""
        return super().entrance(host, privileged and not _may_capture_by_file())


def record_here(
    client: Sequence[str], interface: str | None = None, timeout_s: float = 60.0
) -> Recorded:
    """Runs a command on this machine, records its calls, and its packets if that is allowed.

    Args:
        client: the command.
        interface: to capture on; that of the default route unless given.
        timeout_s: after this time it is ended.

    Raises:
        LabError: the command does not exist.
        CaptureError: the interface cannot be recorded.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tcplab-") as name,
        _Machine() as machine,
        contextlib.ExitStack() as stack,
    ):
        notes: list[str] = []
        near = None
        chosen = interface or _default_interface()
        host = Host(machine, "here", "", chosen)
        known_command(client)
        if _may_capture():
            near = host.capture()
            near.start()
            stack.callback(_quietly_stop, near)
        else:
            notes += [_NO_PACKETS, f"to allow capturing: {right_to_capture()}"]
        log = Path(name) / "client"
        span = run_client(host, client, log, timeout_s, notes)
        time.sleep(_SETTLE_S)
        capture = near.stop() if near is not None else None
        output = log.with_suffix(".out").read_text(errors="replace")
        return Recorded(read_calls(log), None, capture, None, span, None, notes, output)


def _quietly_stop(recording: object) -> None:
    with contextlib.suppress(CaptureError, LabError):
        recording.stop()  # type: ignore[attr-defined]


def right_to_capture() -> str:
    """The line that allows an ordinary user to record packets here."""
    return f"sudo setcap cap_net_raw+ep {program_path('capture')}"


def _may_capture() -> bool:
    return has_net_raw() or _may_capture_by_file()


def _may_capture_by_file() -> bool:
    try:
        return bool(os.getxattr(program_path("capture"), "security.capability"))
    except OSError:
        return False


def _default_interface() -> str:
    """The interface of the route to everywhere: /proc/net/route, whose columns route(8) shows."""
    for line in read_file("/proc/net/route").splitlines()[1:]:
        name, target, *_rest = line.split()
        if target == "00000000":
            return name
    return "lo"
