"""Provide the API of a laboratory on the machine's own loopback interface."""

import atexit
import os
import socket
from pathlib import Path
from typing import IO, Final

from tcplab.errors import LabError
from tcplab.lab.binaries import program_path
from tcplab.lab.host import Host, Network
from tcplab.lab.link import Link
from tcplab.lab.namespaces import read_file

_NO_RIGHT: Final = (
    "Loopback cannot record packets or open raw sockets: that needs CAP_NET_RAW on the real"
    " machine; use Lab(), where you have it"
)


class Loopback(Network):
    """A network with the interface of :class:`Lab`, for machines that block namespaces.

    Both hosts are the machine itself. Delay, rate, queue and loss cannot be set, and sysctls can
    only be read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.client = Host(self, "client", "127.0.0.1", "lo")
        # No other program uses this address, so a sniffer can recognize the course's packets.
        self.server = Host(self, "server", "127.0.0.2", "lo")
        self.rtt_ms = 0.0
        self.offload = True
        self.mtu = int(read_file("/sys/class/net/lo/mtu") or 65536)
        allowed = read_file("/proc/sys/net/ipv4/tcp_allowed_congestion_control").split()
        if "cubic" not in allowed and os.getuid() != 0:
            self.congestion = "reno"  # the kernel allows reno to every user
        atexit.register(self.close)

    def __repr__(self) -> str:
        return "<Loopback closed>" if self._closed else "<Loopback>"

    @property
    def link(self) -> Link:
        raise LabError("Loopback has no link: delay, rate, queue and loss need Lab()")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._kill_commands()

    def entrance(self, _host: Host, privileged: bool) -> tuple[list[str], tuple[int, ...]]:
        self.check()
        if privileged and not has_net_raw():
            raise LabError(_NO_RIGHT)
        return [str(program_path("lab_exec")), str(os.getpid()), "--"], ()

    def open_socket(self, _host: Host, family: int, kind: int, proto: int) -> socket.socket:
        self.check()
        try:
            return socket.socket(family, kind, proto)
        except PermissionError:
            raise LabError(_NO_RIGHT) from None

    def spare_address(self, _host: Host) -> str:
        raise LabError(
            "custom packets need an address for which no kernel answers, and Loopback has none;"
            " use Lab()"
        )

    def open_file(self, _host: Host, path: str, flags: int) -> IO[bytes]:
        self.check()
        if flags & os.O_WRONLY:
            raise LabError(f"Loopback does not change the real machine's {path}; use Lab()")
        try:
            return Path(path).open("rb", buffering=0)
        except OSError as error:
            raise LabError(f"{path}: {error.strerror}") from None


def has_net_raw() -> bool:
    """Return whether this process has CAP_NET_RAW, and may open raw sockets on the real machine."""
    status = read_file("/proc/self/status")
    effective = status.partition("CapEff:\t")[2].split("\n", 1)[0]
    cap_net_raw = 13
    return bool(int(effective or "0", 16) >> cap_net_raw & 1)
