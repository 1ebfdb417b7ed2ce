"""Record a command on this machine and its network, as far as the user is permitted to."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcplab.capture import Capture
from tcplab.explain.recording import CommandExchange, known_command, run_client
from tcplab.lab import Host, Loopback, has_net_raw, program_path
from tcplab.lab.namespaces import read_file
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import read_calls
from tcplab.programs.counters import tcp_counters

#: Evidence that is missing without a capture.
_NO_PACKETS: Final = (
    "packets: when each left, why it waited, and when packets were lost. Calls and the kernel's"
    " counts alone show how long the program waited, but not why"
)
_SETTLE_S: Final = 0.1


class _Machine(Loopback):
    """This machine, on which the capture program may have a file capability (setcap(8))."""

    def entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        return super().entrance(host, privileged and not _has_right())


def record_here(
    client: Sequence[str], interface: str | None = None, timeout_s: float = 60.0
) -> CommandExchange:
    """Run a command on this machine, and record its calls and, if permitted, its packets."""
    with temporary_folder() as name, _Machine() as machine, contextlib.ExitStack() as stack:
        notes: list[str] = []
        host = Host(machine, "here", "", interface or _default_interface())
        known_command(client)
        capture: Capture | None = None
        if has_net_raw() or _has_right():
            capture = stack.enter_context(host.capture())
        else:
            notes += [_NO_PACKETS, f"to allow capturing: {right_to_capture()}"]
        log = Path(name) / "client"
        before = tcp_counters(host)
        span = run_client(host, client, log, timeout_s, notes)
        time.sleep(_SETTLE_S)
        stack.close()
        output = log.with_suffix(".out").read_text(errors="replace")
        overflows = (tcp_counters(host) - before)["ListenOverflows"]
        return CommandExchange(
            read_calls(log), None, capture, None, span, None, notes, output, overflows
        )


def right_to_capture() -> str:
    """Return the command with which an administrator allows this user to capture packets here."""
    return f"sudo setcap cap_net_raw+ep {program_path('capture')}"


def _has_right() -> bool:
    try:
        return bool(os.getxattr(program_path("capture"), "security.capability"))
    except OSError:
        return False


def _default_interface() -> str:
    """Return the interface of the default route in /proc/net/route, or "lo" (see route(8))."""
    for line in read_file("/proc/net/route").splitlines()[1:]:
        name, target, *_rest = line.split()
        if target == "00000000":
            return name
    return "lo"
