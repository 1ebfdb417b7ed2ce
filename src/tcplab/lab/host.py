"""Define the hosts, which run commands and open sockets and files, and the network they share."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

from tcplab.errors import LabError, ParameterError
from tcplab.lab.binaries import environment, find_command, is_program

if TYPE_CHECKING:
    from tcplab.capture import Capture, Sniffed

Command = Sequence[str | os.PathLike[str]]

_collectors: list[dict[str, None]] = []


@contextmanager
def started_commands() -> Iterator[dict[str, None]]:
    """Collect the commands that hosts start in the body, such as "server$ tcpsink --port 0".

    A command is collected once, even if only its port or the folder of a temporary file differs.
    """
    collected: dict[str, None] = {}
    _collectors.append(collected)
    try:
        yield collected
    finally:
        # remove() would take an outer collector that has the same commands.
        _collectors[:] = [other for other in _collectors if other is not collected]


def _shown(words: Sequence[str]) -> str:
    """Return a command with PORT in place of a port, and without folders of temporary files."""
    shown = []
    for before, word in zip(["", *words], words, strict=False):
        is_port = before in ("-p", "--port") or re.fullmatch(r"\d+(\.\d+){3}|\S*:\S*", before)
        if is_port and re.fullmatch(r"\d{4,5}", word):
            shown.append("PORT")
        elif word.startswith(tempfile.gettempdir()):
            shown.append(Path(word).name)
        else:
            shown.append(word)
    return shlex.join(shown)


class Host:
    """One end of the link, which runs commands, opens sockets, and reads and sets sysctls.

    In a Lab, every host can resolve the names of all hosts, such as "client" and "server". The
    interface is the one that leads to the link or, in a Pair, to the other host.
    """

    def __init__(self, network: Network, name: str, address: str, interface: str) -> None:
        self.network = network
        self.name = name
        self.address = address
        self.interface = interface

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address} of {self.network!r}>"

    def start(
        self, argv: Command, *, privileged: bool | None = None, text: bool = True, **popen: Any
    ) -> subprocess.Popen[Any]:
        """Start a command on this host as the user that runs Python, and return its Popen object.

        Args:
            argv: the command, which is looked up among the course's programs, then on PATH
            privileged: keep CAP_NET_RAW and CAP_NET_ADMIN over the laboratory's network. By
                default, the course's programs keep them in a Lab, because choosing a congestion
                control outside tcp_allowed_congestion_control requires CAP_NET_ADMIN
            text: use text streams in UTF-8 instead of byte streams
            **popen: as for subprocess.Popen. Stdin is /dev/null by default, and env is added to
                this process's environment
        """
        arguments = [os.fspath(word) for word in argv]
        if not arguments:
            raise ParameterError("argv is empty; give a command such as ['hostname']")
        for collected in _collectors:
            collected[f"{self.name}$ {_shown(arguments)}"] = None
        variables = environment() | (popen.pop("env", None) or {})
        arguments[0] = find_command(arguments[0], variables["PATH"])
        if privileged is None:
            privileged = self.network.grants_privileges and is_program(arguments[0])
        popen.setdefault("stdin", subprocess.DEVNULL)
        prefix, fds = self.network.entrance(self, privileged)
        pass_fds = (*popen.pop("pass_fds", ()), *fds)
        process = subprocess.Popen(
            [*prefix, *arguments],
            env=variables,
            text=text,
            encoding="utf-8" if text else None,
            pass_fds=pass_fds,
            start_new_session=True,
            **popen,
        )
        self.network.register(process)
        return process

    def run(
        self,
        argv: Command,
        *,
        timeout_s: float = 60.0,
        check: bool = True,
        privileged: bool | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this host and wait for it; return its output and exit status.

        Raise LabError if it does not end in time, or with `check` if it fails.
        """
        process = self.start(
            argv, privileged=privileged, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        shown = " ".join(os.fspath(word) for word in argv)
        with process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise LabError(
                    f"'{shown}' on {self.name} did not end within timeout_s={timeout_s:g}"
                ) from None
            finally:
                if process.poll() is None:  # after a timeout, or the user's Ctrl-C
                    process.kill()
        self.network.check()
        if check and process.returncode != 0:
            raise LabError(f"'{shown}' on {self.name} {ending(process.returncode, err)}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        """Open a socket of any family (AF_PACKET, AF_NETLINK, …) on this host, for this process."""
        return self.network.open_socket(self, family, kind, proto)

    def read(self, path: str) -> str:
        """Return the text of a file as this host sees it, such as /proc/net/netstat."""
        with self.network.open_file(self, path, os.O_RDONLY) as file:
            return file.read().decode(errors="replace")

    def sysctl(self, name: str, value: str | None = None) -> str:
        """Return a sysctl of this host ("net.ipv4.tcp_rmem"). If `value` is given, set it first."""
        path = "/proc/sys/" + name.replace(".", "/")
        if not path.startswith("/proc/sys/net/") or ".." in path:
            raise LabError(f"sysctl {name!r}: a host has only those that begin with 'net.'")
        try:
            if value is not None:
                with self.network.open_file(self, path, os.O_WRONLY) as file:
                    file.write(value.encode() + b"\n")
            return " ".join(self.read(path).split())
        except (OSError, LabError) as error:
            wish = name if value is None else f"{name} = {value!r}"
            raise LabError(f"sysctl {wish} on {self.name}: {error}") from None

    def capture(self, **options: Any) -> AbstractContextManager[Capture]:
        """Record the packets on this host's interface; see tcplab.capture.record."""
        from tcplab.capture import record

        return record(self, **options)

    def sniff(self, **options: Any) -> AbstractContextManager[Sniffed]:
        """Pass the packets on this host's interface to scapy; see tcplab.capture.sniff."""
        from tcplab.capture import sniff

        return sniff(self, **options)

    def scapy_socket(self) -> Any:
        """Open a scapy SuperSocket on this host; see tcplab.capture.scapy_socket."""
        from tcplab.capture import scapy_socket

        return scapy_socket(self)


class Network(ABC):
    """Two connected hosts; the base class of Lab and Loopback. Closing it ends its commands."""

    client: Host
    server: Host
    rtt_ms: float  #: Round-trip time of the link, or 0 if there is no link
    mtu: int  #: MTU of the interfaces between the hosts, in bytes
    offload: bool  #: True if segmentation and checksum offloads are on
    #: Congestion control of the programs on the hosts, independent of the machine's default.
    congestion: str = "cubic"
    #: True if the course's programs have CAP_NET_RAW and CAP_NET_ADMIN over the hosts' network
    #: namespaces by default.
    grants_privileges: ClassVar[bool] = False

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[Any]] = set()
        self._failure: str | None = None
        self._closed = False
        #: Packets lost by recorders on the hosts, or None before the first recorder has ended.
        self.capture_drops: int | None = None
        #: Number of recorded packets that made no segment, by kind, such as "ARP".
        self.capture_left_out: Counter[str] = Counter()

    def register(self, process: subprocess.Popen[Any]) -> None:
        """Register a process to be killed when the network is closed."""
        # The set keeps a process until it has ended, so that close() can kill and reap it even if
        # the caller has dropped it.
        ended = {running for running in self._processes if running.poll() is not None}
        self._processes = (self._processes - ended) | {process}

    def _kill_commands(self) -> None:
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def check(self) -> None:
        """Raise LabError if the network is closed or broken."""
        if self._closed:
            raise LabError("the laboratory is closed; make a new Lab()")
        if self._failure:
            raise LabError(self._failure)

    @abstractmethod
    def close(self) -> None:
        """End every command that was started. Closing it again has no effect."""

    @abstractmethod
    def entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        """Return the words that start a command on a host, and the file descriptors they need."""

    @abstractmethod
    def open_socket(self, host: Host, family: int, kind: int, proto: int) -> socket.socket:
        """Open a socket in the host's network namespace."""

    @abstractmethod
    def open_file(self, host: Host, path: str, flags: int) -> IO[bytes]:
        """Open a file as the host sees it, with the flags of os.open()."""

    @abstractmethod
    def spare_address(self, host: Host) -> str:
        """Return an address that leads to the host but is unknown to its kernel."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two hosts that are connected by a path other than the link; see :meth:`Lab.direct`."""

    client: Host
    server: Host
    congestion: str = "cubic"  #: congestion control of the programs


def ending(code: int, stderr: str) -> str:
    """Describe how a command ended, including the last line of its standard error."""
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed (exit {code})"
    lines = stderr.strip().splitlines()
    return f"{how}: {lines[-1]}" if lines else how
