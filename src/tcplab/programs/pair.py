"""Run a listening and a connecting program, and read the JSON reports of both."""

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
from tcplab.lab import Host, Network, Pair
from tcplab.lab.host import Command, ending

AnyNetwork = Network | Pair

DEADLINE_S: Final = 30.0
TIMEOUT_S: Final = 120.0
#: Time for a program that has just lost its peer to report the loss.
_GRACE_S: Final = 0.5
#: The states of a listening socket and of an ended connection in /proc/net/tcp (tcp_states.h).
LISTEN: Final = "0A"
_TIME_WAIT: Final = "06"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The conditions of a run other than the data sent."""

    #: CPU for both programs, or a pair (client, server) of CPUs; None leaves the choice to the
    #: scheduler
    cpu: int | tuple[int | None, int | None] | None = None
    #: Congestion control of both ends; None for the network's, "" for programs that have none
    congestion: str | None = None
    deadline_s: float = DEADLINE_S  #: Time without progress after which each program gives up

    @classmethod
    def on_one_cpu(cls) -> Self:
        """Put both ends on one CPU, because the time to wake another would hide TCP's behaviour."""
        return cls(cpu=min(os.sched_getaffinity(0)))

    def server_options(self, network: AnyNetwork) -> list[str]:
        """Return the arguments that all listening programs take."""
        return [*self._options(network, 1), "--bind", network.server.address]

    def client_options(self, network: AnyNetwork) -> list[str]:
        """Return the arguments that all connecting programs take."""
        return self._options(network, 0)

    def _options(self, network: AnyNetwork, end: int) -> list[str]:
        cpu = self.cpu[end] if isinstance(self.cpu, tuple) else self.cpu
        congestion = network.congestion if self.congestion is None else self.congestion
        return arguments(
            json=True, cpu=cpu, congestion=congestion or None, deadline=self.deadline_s
        )


class Running:
    """A program that runs on a host until the with statement ends."""

    def __init__(self, host: Host, argv: Command, **start: Any) -> None:
        self.name = Path(argv[0]).name
        self._process: subprocess.Popen[str] = host.start(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **start
        )

    @property
    def pid(self) -> int:
        """The ID of the lab_exec process, which starts the program and waits for it."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        with self._process:
            pass

    def port(self) -> int:
        """Wait until the program has announced its port, and return the port."""
        line = self._first_line()
        if not line:
            raise LabError(self.failure(None) or f"{self.name} ended without listening")
        try:
            return int(json.loads(line)["listening"])
        except (ValueError, KeyError, TypeError):
            raise LabError(f"{self.name} printed {line.strip()!r} instead of its port") from None

    def _first_line(self) -> str:
        """Return the first line of the output, read byte by byte.

        A buffered readline() would take more from the pipe, which communicate() would then miss.
        """
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
            line += byte
        return line.decode(errors="replace")

    def lines(self) -> Iterator[str]:
        """Return the lines of the standard output as the program writes them."""
        assert self._process.stdout is not None
        return iter(self._process.stdout)

    def output(self, timeout_s: float = TIMEOUT_S) -> str:
        """Wait until the program has ended, and return its standard output."""
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name} did not end within timeout_s={timeout_s:g}") from None
        if self._process.returncode:
            raise LabError(self._describe(err))
        return out

    def report(self, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Return the JSON object that the program prints last; see :func:`last_object`."""
        try:
            return last_object(self.output(timeout_s))
        except ValueError:
            raise LabError(f"{self.name} printed no result (a JSON object, with --json)") from None

    def ended(self) -> bool:
        """Return whether the program has ended."""
        return self._process.poll() is not None

    def failure(self, within_s: float | None = 0.0) -> str:
        """Return the message of a program that has failed or fails within this time, or ""."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return ""
        err = self._process.stderr
        return self._describe("" if err is None or err.closed else err.read()) if code else ""

    def _describe(self, stderr: str) -> str:
        how = ending(self._process.returncode, stderr)
        return f"{self.name} {how.replace(f': {self.name}: ', ': ', 1)}"


def run_pair(
    network: AnyNetwork, server: Command, client: Command, timeout_s: float = TIMEOUT_S
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a listening program on the server and a connecting one on the client.

    Return the report of the client and that of the server. An argument "{port}" of the client is
    replaced by the port that the server announces.
    """
    with Running(network.server, server) as listener:
        port = str(listener.port())
        argv = [port if word == "{port}" else word for word in client]
        with Running(network.client, argv) as connector:
            try:
                sent = connector.report(timeout_s)
            except LabError as error:
                # A failure of the server is often the cause.
                cause = listener.failure(_GRACE_S)
                raise LabError(f"{error}; {cause}" if cause else str(error)) from None
        if isinstance(network, Network):
            network.check()
        return sent, listener.report(timeout_s)


@contextmanager
def held_port(host: Host) -> Iterator[int]:
    """Reserve a free TCP port for a program that cannot report which port it listens on.

    Only a listener that names the port and sets SO_REUSEADDR or SO_REUSEPORT can use it, as servers
    usually do.
    """
    with host.socket() as holder:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("", 0))
        yield holder.getsockname()[1]


def await_listener(host: Host, port: int, ended: Callable[[], bool], within_s: float) -> bool:
    """Wait until a program listens on a TCP port; return False if it ends or takes too long."""
    end = time.monotonic() + within_s
    while LISTEN not in tcp_states(host, port):
        if ended() or time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def await_end(network: AnyNetwork, port: int, within_s: float) -> None:
    """Wait until both ends of the connections to the server's port have sent their last segment."""
    end = time.monotonic() + within_s
    over = {LISTEN, _TIME_WAIT}
    while time.monotonic() < end and not (
        tcp_states(network.server, port) <= over and tcp_states(network.client, port, 1) <= over
    ):
        time.sleep(0.005)


def tcp_states(host: Host, port: int, end: int = 0) -> set[str]:
    """Return the states of a host's TCP sockets that have this port (proc_net_tcp.rst).

    The port is that of the socket itself, or that of its peer if `end` is 1.
    """
    states = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = host.read(table).splitlines()[1:]
        except LabError:  # this kernel has no IPv6
            continue
        for line in lines:
            _slot, *addresses, state = line.split()[:4]
            if addresses[end].endswith(f":{port:04X}"):
                states.add(state)
    return states


def last_object(text: str) -> dict[str, Any]:
    """Parse the last line as a JSON object; add the lines before it as "earlier_lines"."""
    *earlier, last = text.strip().splitlines() or [""]
    try:
        parsed = json.loads(last)
    except RecursionError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ValueError(f"{last[:300]!r} is not an object")
    return {**parsed, "earlier_lines": earlier}


def arguments(**values: Any) -> list[str]:
    """Return arguments such as -c 50 --lowat 9 --gro for c=50, lowat=9, gro=True, mss=None."""
    argv: list[str] = []
    for name, value in values.items():
        option = f"-{name}" if len(name) == 1 else "--" + name.replace("_", "-")
        if value is True:
            argv.append(option)
        elif value is not None and value is not False:
            argv += [option, str(value)]
    return argv


def buffer_size(size_bytes: int | None) -> str:
    """Return the argument of the option -b; "auto" leaves the size to the kernel."""
    return "auto" if size_bytes is None else str(size_bytes)
