"""The runner of a pair of programs: one listens, the other connects, both report in JSON.

:func:`run_pair` is all that most calls need. :class:`Running` is one program of a pair, for callers
that do something while it runs, or that replace one of the two by a program of another kind.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tcplab.errors import LabError
from tcplab.lab import Command, Host, Network, Pair
from tcplab.lab.host import ending

AnyNetwork = Network | Pair

DEADLINE_S: Final = 30.0
TIMEOUT_S: Final = 120.0
#: Time in which a program that has just lost its peer says so itself.
_GRACE_S: Final = 0.5
#: A state of TCP in /proc/net/tcp: include/net/tcp_states.h.
LISTEN: Final = "0A"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Conditions of a run, which say nothing of the data that is sent."""

    #: Pins both programs to this CPU, or (client, server) to one each; None leaves them to the
    #: scheduler
    cpu: int | tuple[int | None, int | None] | None = None
    #: Congestion control of both ends; None for that of the network, "" for programs without one
    congestion: str | None = None
    port: int = 0  #: Where to listen; 0 for a free port
    deadline_s: float = DEADLINE_S  #: Each program gives up after this time without progress
    timeout_s: float = TIMEOUT_S  #: Limit of the whole run

    @classmethod
    def on_one_cpu(cls, **others: Any) -> Self:
        """Both ends on the first CPU allowed: the wake-up of another hides what TCP does."""
        return cls(cpu=min(os.sched_getaffinity(0)), **others)

    def server_options(self, network: AnyNetwork) -> list[str]:
        """The options that every listening program takes."""
        return [*self._options(network, 1), "--bind", network.server.address]

    def client_options(self, network: AnyNetwork) -> list[str]:
        """The options that every connecting program takes."""
        return self._options(network, 0)

    def _options(self, network: AnyNetwork, end: int) -> list[str]:
        cpu = self.cpu[end] if isinstance(self.cpu, tuple) else self.cpu
        congestion = network.congestion if self.congestion is None else self.congestion
        return long_options(
            json=True,
            cpu=cpu,
            congestion=congestion or None,
            deadline=self.deadline_s,
        )


class Running:
    """A program that was started on a host; killed at the end of the with statement.

    Args:
        host: where it runs.
        argv: its command line.
        **start: as for :meth:`Host.start`.

    Attributes:
        name: of the program, without its folder and arguments.
    """

    def __init__(self, host: Host, argv: Command, **start: Any) -> None:
        self.name = Path(argv[0]).name
        self._process: subprocess.Popen[str] = host.start(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **start
        )

    @property
    def pid(self) -> int:
        """Of the process; in a lab, of the one that entered it for the program."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        with self._process:
            pass

    def port(self) -> int:
        """The port on which it listens; waits until it does.

        Raises:
            LabError: it ended, or printed something else.
        """
        line = self._first_line()
        if not line:
            raise LabError(self._failure() or f"{self.name} ended without listening")
        try:
            return int(json.loads(line)["listening"])
        except (ValueError, KeyError, TypeError):
            raise LabError(f"{self.name} printed {line.strip()!r} instead of its port") from None

    def _first_line(self) -> str:
        """Byte by byte: communicate() would miss what a buffered readline() took beyond it."""
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
            line += byte
        return line.decode(errors="replace")

    def lines(self) -> Iterator[str]:
        """The lines of its standard output, as they come."""
        assert self._process.stdout is not None
        return iter(self._process.stdout)

    def output(self, timeout_s: float) -> str:
        """Its standard output; waits for the end.

        Raises:
            LabError: it failed, or took longer.
        """
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name} did not end within timeout_s={timeout_s:g}") from None
        if self._process.returncode:
            raise LabError(self._describe(err))
        return out

    def report(self, timeout_s: float) -> dict[str, Any]:
        """The JSON object that it prints last; see :func:`last_object`.

        Raises:
            LabError: it failed, took longer, or printed none.
        """
        try:
            return last_object(self.output(timeout_s))
        except ValueError:
            raise LabError(f"{self.name} printed no result (a JSON object, with --json)") from None

    def ended(self) -> bool:
        """True once it has."""
        return self._process.poll() is not None

    def failure(self, within_s: float = 0.0) -> str:
        """Its failure in words, if it has failed by now (or does within this time); else ""."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return ""
        return self._failure()

    def _failure(self) -> str:
        err = self._process.stderr
        text = "" if err is None or err.closed else err.read()
        return self._describe(text) if self._process.wait() else ""

    def _describe(self, stderr: str) -> str:
        how = ending(self._process.returncode, stderr)
        return f"{self.name} {how.replace(f': {self.name}: ', ': ', 1)}"


def run_pair(
    network: AnyNetwork,
    server: Command,
    client: Command,
    timeout_s: float = TIMEOUT_S,
    *,
    privileged: bool | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs a listening program on the server and a connecting one on the client.

    Args:
        network: where.
        server: the command that listens and announces its port.
        client: the command that connects; its argument "{port}" becomes the server's port.
        timeout_s: limit of the whole run.
        privileged: as for :meth:`Host.start`.

    Returns:
        The client's report and the server's.

    Raises:
        LabError: a program failed; of two that did, the message names both.
    """
    with Running(network.server, server, privileged=privileged) as listener:
        port = str(listener.port())
        argv = [port if word == "{port}" else word for word in client]
        with Running(network.client, argv, privileged=privileged) as connector:
            try:
                sent = connector.report(timeout_s)
            except LabError as error:
                # The server's failure is often the cause: "the client goes on after 10".
                cause = listener.failure(_GRACE_S)
                raise LabError(f"{error}; {cause}" if cause else str(error)) from None
        if isinstance(network, Network):
            network.check()
        return sent, listener.report(timeout_s)


@contextmanager
def held_port(host: Host) -> Iterator[int]:
    """A free TCP port for a program that can neither choose one nor report its choice.

    As long as it is held, the kernel does not give it to a program that asks for any free port, nor
    to an outgoing connection. A listener that sets SO_REUSEADDR or SO_REUSEPORT, as servers do, may
    take it.
    """
    with host.socket() as holder:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("", 0))
        yield holder.getsockname()[1]


def await_listener(host: Host, port: int, ended: Callable[[], bool], within_s: float) -> bool:
    """Waits until something listens on a TCP port, for programs that do not announce theirs.

    Args:
        host: where.
        port: which.
        ended: whether the program that should listen has ended.
        within_s: how long to wait.

    Returns:
        Whether something listens.
    """
    end = time.monotonic() + within_s
    while LISTEN not in tcp_states(host, port):
        if ended() or time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def tcp_states(host: Host, port: int) -> set[str]:
    """The states of the TCP sockets that have this port on a host, as the kernel writes them.

    Source: Documentation/networking/proc_net_tcp.rst.
    """
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = host.read(table).splitlines()[1:]
        except LabError:  # a kernel without IPv6
            continue
        for line in lines:
            _slot, local, _remote, state, *_rest = line.split()
            if local.endswith(f":{port:04X}"):
                found.add(state)
    return found


def last_object(text: str) -> dict[str, Any]:
    """The JSON object in the last line; the lines before are its "earlier_lines", as text.

    Raises:
        ValueError: there is none.
    """
    *earlier, last = text.strip().splitlines() or [""]
    try:
        found = json.loads(last)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{last[:300]!r} is no object")
    return {**found, "earlier_lines": earlier}


def long_options(**values: Any) -> list[str]:
    """{"rcvbuf": 4096, "discard": True, "mss": None} as --rcvbuf 4096 --discard."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def short_options(**values: Any) -> list[str]:
    """{"c": 5000, "t": None} as -c 5000."""
    words: list[str] = []
    for letter, value in values.items():
        if value is not None:
            words += [f"-{letter}", str(value)]
    return words


def buffer_size(size_bytes: int | None) -> str:
    """The argument of -b: "auto" leaves the size to the kernel."""
    return "auto" if size_bytes is None else str(size_bytes)
