"""Run an unmodified command in a laboratory, and record its calls and packets."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcplab.errors import LabError, ParameterError
from tcplab.lab import Host, Lab
from tcplab.lab.binaries import environment, find_command
from tcplab.lab.scratch import temporary_folder
from tcplab.programs.calls import CallLog, End, read_calls
from tcplab.programs.counters import tcp_counters
from tcplab.programs.pair import await_listener

if TYPE_CHECKING:
    from tcplab.capture import Capture

#: Time limit for a server to start listening.
LISTEN_S: Final = 30.0
#: Times to wait for the last packets after the client's end, for a command to end when asked, and
#: for the recorder to finish its log.
_SETTLE_S: Final = 0.05
_GRACE_S: Final = 0.3
_PATIENCE_S: Final = 3.0
#: A link that was late for a smaller share of the run changes no verdict.
_LATE_SHARE: Final = 0.05
#: Prefixes of loopback addresses.
LOOPBACK: Final = ("127.", "::1")
#: Pattern of calls with which servers give up root. They fail in a lab, which has only one user.
_CHANGES_USER: Final = re.compile(r"set(re|res|e)?[ug]id|(set|init)groups")
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CommandExchange:
    """The exchange of a client command and, if there was one, of its server command."""

    client: CallLog  #: The client's calls
    server: CallLog | None  #: The server's calls, or None if the server was not started here
    near: Capture | None  #: The capture at the client, or None if capturing is not allowed
    far: Capture | None  #: The capture at the server, or None if the server was not captured
    span_ns: tuple[int, int]  #: Times of the start and end of the client
    #: Rate of the link in 10^6 bit/s, infinite without a limit, or None
    rate_mbit: float | None = None
    notes: list[str] = field(default_factory=list)  #: Problems, and evidence that is missing
    output: str = ""  #: Standard output of the client
    #: Number of times an accept queue was full, on the server's host or, without one, on this host
    overflows: int = 0


def record_in_lab(
    lab: Lab, client: Sequence[str], server: Sequence[str] | None, *, timeout_s: float = 60.0
) -> CommandExchange:
    """Run a client and, if given, its server on the hosts of a laboratory, and record both."""
    with temporary_folder() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        notes: list[str] = []
        recordings = stack.enter_context(contextlib.ExitStack())
        near = recordings.enter_context(lab.client.capture())
        far = recordings.enter_context(lab.server.capture())
        port = ""
        serving = None
        if server is not None:
            serving = stack.enter_context(_command(lab.server, server, folder / "server"))
            port = str(_await_server(lab.server, serving, folder / "server", server[0]))
            _logger.info("the server listens on port %s", port)
        filled = (word.replace("{server}", lab.server.address) for word in client)
        argv = [word.replace("{port}", port) for word in filled]
        _logger.info("running %s, for at most %g s", client[0], timeout_s)
        before = tcp_counters(lab.server)
        span = run_client(lab.client, argv, folder / "client", timeout_s, notes)
        time.sleep(lab.rtt_ms / 500 + _SETTLE_S)
        recordings.close()
        notes += _lateness(lab, (span[1] - span[0]) / 1e6)
        if serving is not None:
            _end(serving)
        logs = read_calls(folder / "client"), server and read_calls(folder / "server")
        output = (folder / "client.out").read_text(errors="replace")
        rate = lab.link.parameters["client->server"].get("rate_mbit") or math.inf
        overflows = (tcp_counters(lab.server) - before)["ListenOverflows"]
    return CommandExchange(
        logs[0], logs[1] or None, near, far, span, rate, notes, output, overflows
    )


def _lateness(lab: Lab, run_ms: float) -> list[str]:
    """Return the link's warning if its late packets took a part of the run, or were missed."""
    late = lab.link.lateness()
    late_ms = max(late["wire_late_max_ms"], late["wire_packets"] / 100 * late["wire_late_p99_ms"])
    matters = late["wire_missed"] or late_ms >= _LATE_SHARE * run_ms
    return [late["wire_late"]] if matters and "wire_late" in late else []


# ---- the two commands ----------------------------------------------------------------------------


@contextlib.contextmanager
def _command(
    host: Host, command: Sequence[str], log: Path, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a command under the recorder of calls until the with statement ends."""
    known_command(command)
    with log.with_suffix(".out").open("w") as out, log.with_suffix(".err").open("w") as err:
        argv = ["calls", *options, str(log), "--", *command]
        process = host.start(argv, privileged=False, stdout=out, stderr=err)
    try:
        yield process
    finally:
        _end(process)


def known_command(command: Sequence[str]) -> None:
    """Raise ParameterError if a command does not exist."""
    try:
        find_command(command[0], environment()["PATH"])
    except LabError as error:
        raise ParameterError(str(error)) from None


def _end(process: subprocess.Popen[str]) -> None:
    """Ask a command to end, then make the recorder kill it, and at last kill the recorder."""
    for patience_s in (_GRACE_S, _PATIENCE_S):
        if process.poll() is None:
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return
    process.kill()
    process.wait()


def run_client(
    host: Host, command: Sequence[str], log: Path, timeout_s: float, notes: list[str]
) -> tuple[int, int]:
    """Run the client under the recorder until it ends; return its start and end times.

    Its output goes to files next to the log (.out, .err), and problems are added to `notes`.
    """
    start_ns = time.time_ns()
    with _command(host, command, log, "--first") as process:
        try:
            status = process.wait(timeout_s)
            if status:
                notes.append(f"{command[0]} failed (exit {status}){_last_words(log)}")
        except subprocess.TimeoutExpired:
            notes.append(f"{command[0]} was ended after {timeout_s:g} s (--timeout-s)")
        except KeyboardInterrupt:
            notes.append(f"{command[0]} was interrupted: this is what was recorded until then")
    return start_ns, time.time_ns()


def _last_words(log: Path) -> str:
    errors = log.with_suffix(".err").read_text(errors="replace").strip()
    hint = " (a laboratory has one user: tell the server not to change to another user or group)"
    last = f": {errors.splitlines()[-1]}" if errors else ""
    return last + hint * bool(_CHANGES_USER.search(errors))


# ---- readiness -----------------------------------------------------------------------------------


def _await_server(host: Host, process: subprocess.Popen[str], log: Path, name: str) -> int:
    """Return the server's first TCP port that the client can reach, or raise LabError."""
    end = time.monotonic() + LISTEN_S
    seen: list[End] = []
    while time.monotonic() < end:
        seen = [end for _time_ns, end in read_calls(log).listening] if log.exists() else []
        for address, port in seen:
            if not address.startswith(LOOPBACK) and await_listener(
                host, port, lambda: process.poll() is not None, LISTEN_S
            ):
                return port
        if process.poll() is not None:
            raise LabError(f"the server {name} ended without listening{_last_words(log)}")
        time.sleep(0.01)
    if seen:
        where = ", ".join(f"{address} port {port}" for address, port in seen)
        raise LabError(
            f"the server {name} listens on {where} only, which the client's host cannot reach:"
            f" tell it to bind {host.address} or 0.0.0.0"
        )
    raise LabError(
        f"the server {name} did not listen on a TCP port within {LISTEN_S:g} s: only TCP is"
        " explained"
    )
