"""The interface that a laboratory and plain loopback share."""

from __future__ import annotations

import socket
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

from tcplab.errors import LabError

if TYPE_CHECKING:
    from tcplab.lab.host import Host


class Network(ABC):
    """Two hosts that can talk: the base of Lab and Loopback, which ends what it started."""

    client: Host
    server: Host
    #: Round-trip time of the wire, 0 without one.
    rtt_ms: float
    #: Bytes, of the interfaces between the hosts.
    mtu: int
    #: Segmentation and checksum offloads are on.
    offload: bool
    #: Congestion control of the programs here, whatever the machine's default.
    congestion: str = "cubic"
    #: The course's programs get CAP_NET_RAW and CAP_NET_ADMIN over its network namespaces unless
    #: the caller says otherwise.
    grants_privileges: ClassVar[bool] = False

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[Any]] = set()
        self._failure: str | None = None
        self._closed = False
        #: Packets that the recorders on its hosts lost; None before any has ended.
        self.capture_drops: int | None = None
        #: Packets of recordings that made no segment, since they are neither TCP nor UDP.
        self.capture_left_out: Counter[str] = Counter()

    def register(self, process: subprocess.Popen[Any]) -> None:
        """Ends this command with the network."""
        # Kept until it has ended, so that one whose handle was dropped is ended and reaped too.
        ended = {each for each in self._processes if each.poll() is not None}
        self._processes = (self._processes - ended) | {process}

    def _kill_commands(self) -> None:
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def check(self) -> None:
        """Raises LabError if the network is closed or broken."""
        if self._closed:
            raise LabError("the laboratory is closed; make a new Lab()")
        if self._failure:
            raise LabError(self._failure)

    @abstractmethod
    def close(self) -> None:
        """Ends every command that was started. May be called again."""

    @abstractmethod
    def entrance(self, host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        """The command that starts others on a host, and the descriptors it needs."""

    @abstractmethod
    def open_socket(self, host: Host, family: int, kind: int, proto: int) -> socket.socket:
        """A socket of the host's network namespace."""

    @abstractmethod
    def open_file(self, host: Host, path: str, flags: int) -> IO[bytes]:
        """A file as the host sees it."""

    @abstractmethod
    def spare_address(self, host: Host) -> str:
        """An address that leads to a host and is not its kernel's, for packets of one's own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Pair:
    """A client and a server that talk over another way than the wire: see :meth:`Lab.direct`.

    The programs take it as they take a Lab.
    """

    client: Host
    server: Host
    #: Congestion control of the programs.
    congestion: str = "cubic"
