"""Interfaces: the MTU of each, and which of them the way to an address leads through.

The lines of `netstat -i` in J. Snader, Effective TCP/IP Programming, with which the text explains
its table 2.2: 1500 bytes for the Ethernet, 16384 for loopback. What this asks is the kernel
(rtnetlink(7)), for the laboratory's hosts and, by name, MTU and kind alone, for the machine itself.

Here also is what other experiments need of an interface: its MTU and its offloads set, and both
programs on one host of the laboratory.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from ipaddress import IPv4Interface
from typing import Any, ClassVar, Final, TypeVar

from tcplab.errors import LabError, ParameterError
from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.mode import at_network
from tcplab.lab import Host, Lab, Network, Pair
from tcplab.lab.interfaces import SEGMENTATION
from tcplab.lab.interfaces import Interfaces as Configured
from tcplab.models import announced_mss_bytes, mss_bytes
from tcplab.tables import Column, Table

__all__ = [
    "TEXT",
    "Interface",
    "Interfaces",
    "Way",
    "Ways",
    "measure",
    "one_host",
    "put_token_bucket",
    "set_mtu",
    "set_offload",
    "with_route_socket",
]

T = TypeVar("T")

#: The text's two lines of `netstat -i`.
TEXT: Final[Mapping[str, int]] = {"Ed0": 1500, "lo0": 16384}

_MAX_LO_MTU: Final = 65_536
_MAX_IP_PACKET_BYTES: Final = 65_535
_MIN_MTU: Final = 68  # RFC 791
_ARPHRD_ETHER: Final = 1
_ARPHRD_LOOPBACK: Final = 772


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface.

    Attributes:
        host: whose: "client" or "server" of the laboratory, "the machine", "bsd (the text)".
        name: as the kernel calls it.
        mtu_bytes: longest IP packet that it takes.
        kind: "loopback", "veth", "ethernet", "bridge", ... or what the kernel calls it.
        network: the network it leads to; None where that is nobody's business.
        address: its IPv4 address there.
    """

    host: str
    name: str
    mtu_bytes: int
    kind: str
    network: str | None = None
    address: str | None = None

    @property
    def mss_bytes(self) -> int | None:
        """The most that a TCP segment can carry out of it: the MTU less 20, 20 and 12 bytes."""
        packet_bytes = min(self.mtu_bytes, _MAX_IP_PACKET_BYTES)
        return mss_bytes(packet_bytes) if packet_bytes > 52 else None


@dataclass(frozen=True, slots=True)
class Way:
    """Where packets from the client to an address go.

    Attributes:
        to: what the address is to the client: "localhost", "its own address", "the other host".
        address: the address.
        interface: through which the kernel sends them.
        mtu_bytes: of that interface.
        announced_mss_bytes: what the SYN of a connection there announces (RFC 9293, 3.7.1).
    """

    to: str
    address: str
    interface: str
    mtu_bytes: int
    announced_mss_bytes: int


@dataclass(frozen=True, slots=True)
class Interfaces:
    """The interfaces of each host, and the ways that lead through them."""

    experiment: ClassVar[str] = "interfaces"
    columns: ClassVar[Sequence[Column]] = (
        Column("host", "host"),
        Column("name", "name"),
        Column("mtu_bytes", "MTU (bytes)", "d"),
        Column("mss_bytes", "full segment (bytes)", "d"),
        Column("kind", "kind"),
        Column("network", "network"),
        Column("address", "address"),
    )

    interfaces: Sequence[Interface]
    ways: Sequence[Way]
    provenance: Mapping[str, Any]

    def of(self, host: str) -> list[Interface]:
        """The interfaces of one host."""
        return [each for each in self.interfaces if each.host == host]

    def rows(self) -> list[dict[str, Any]]:
        """One row an interface."""
        return [
            {
                "variant": f"{each.host} {each.name}",
                "host": each.host,
                "name": each.name,
                "mtu_bytes": each.mtu_bytes,
                "mss_bytes": each.mss_bytes,
                "kind": each.kind,
                "network": each.network,
                "address": each.address,
            }
            for each in self.interfaces
        ]

    def way_table(self) -> Table:
        """Through which interface each address is reached from the client."""
        return Table(Ways.columns, Ways(self.ways, self.provenance).rows())


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways alone: what `tcplab run interfaces --ways` shows."""

    experiment: ClassVar[str] = "interfaces-ways"
    columns: ClassVar[Sequence[Column]] = (
        Column("to", "from the client to"),
        Column("address", "address"),
        Column("interface", "leads through"),
        Column("mtu_bytes", "MTU (bytes)", "d"),
        Column("announced_mss_bytes", "MSS in the SYN", "d"),
    )

    ways: Sequence[Way]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row an address."""
        return [{"variant": each.to, **asdict(each)} for each in self.ways]


@experiment("interfaces", on_loopback=True)
def measure(network: Network | None = None) -> Interfaces:
    """Asks the kernel for the interfaces of the laboratory's hosts and of the machine.

    Args:
        network: a Lab of its own unless given; on Loopback there is only the machine.

    Raises:
        LabError: no laboratory can be made here, or it is closed.
    """
    with at_network(network) as network:
        found = [Interface("bsd (the text)", "Ed0", TEXT["Ed0"], "ethernet", "172.30", "bsd")]
        found += [Interface("bsd (the text)", "lo0", TEXT["lo0"], "loopback", "127", "localhost")]
        machine = _interfaces("the machine", None)
        if isinstance(network, Lab):
            for host in (network.client, network.server):
                found += _interfaces(host.name, host, addresses=True)
        return Interfaces(found + machine, _ways(network, machine), provenance(network))


def _interfaces(name: str, host: Host | None, *, addresses: bool = False) -> list[Interface]:
    def ask(kernel: Any) -> list[Interface]:
        networks: dict[int, IPv4Interface] = {}
        if addresses:
            for each in kernel.get_addr(family=socket.AF_INET):
                text = f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}"
                networks[each["index"]] = IPv4Interface(text)
        return [_interface(name, link, networks) for link in kernel.get_links()]

    found = with_route_socket(host, ask)
    return sorted(found, key=lambda each: (each.kind != "loopback", each.name))


def _interface(host: str, link: Any, networks: Mapping[int, IPv4Interface]) -> Interface:
    network = networks.get(link["index"])
    return Interface(
        host,
        link.get_attr("IFLA_IFNAME"),
        link.get_attr("IFLA_MTU"),
        _kind(link),
        str(network.network) if network else None,
        str(network.ip) if network else None,
    )


def _kind(link: Any) -> str:
    details = link.get_attr("IFLA_LINKINFO")
    if details is not None and details.get_attr("IFLA_INFO_KIND"):
        return str(details.get_attr("IFLA_INFO_KIND"))
    hardware = {_ARPHRD_LOOPBACK: "loopback", _ARPHRD_ETHER: "ethernet"}
    return hardware.get(link["ifi_type"], "other")


def _ways(network: Network, machine: Sequence[Interface]) -> list[Way]:
    if not isinstance(network, Lab):
        lo = next(each for each in machine if each.kind == "loopback")
        announced = announced_mss_bytes(min(lo.mtu_bytes, _MAX_IP_PACKET_BYTES))
        return [Way("localhost", "127.0.0.1", lo.name, lo.mtu_bytes, announced)]
    targets = {
        "localhost": "127.0.0.1",
        "its own address": network.client.address,
        "the other host": network.server.address,
    }
    return with_route_socket(
        network.client, lambda kernel: [_way(kernel, *target) for target in targets.items()]
    )


def _way(kernel: Any, to: str, address: str) -> Way:
    """What `ip route get ADDRESS` says."""
    (route,) = kernel.route("get", dst=address)
    index = route.get_attr("RTA_OIF")
    (link,) = kernel.get_links(index)
    mtu_bytes = link.get_attr("IFLA_MTU")
    packet_bytes = min(mtu_bytes, _MAX_IP_PACKET_BYTES)
    name = link.get_attr("IFLA_IFNAME")
    return Way(to, address, name, mtu_bytes, announced_mss_bytes(packet_bytes))


# ---- what other experiments need of an interface -------------------------------------------------


def with_route_socket(host: Host | None, work: Callable[[Any], T]) -> T:
    """What work returns or raises, called with a pyroute2.IPRoute.

    In a thread: pyroute2 drives an event loop, and in a notebook's thread one is running already.

    Args:
        host: whose network it is to see; None for the machine's own.
        work: is called once.
    """

    def run() -> T:
        from pyroute2 import IPRoute

        open_socket = socket.socket if host is None else host.socket
        opened = open_socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
        with opened, IPRoute(fileno=opened.detach()) as kernel:
            return work(kernel)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def put_token_bucket(host: Host, *, rate: str, burst: int, latency: str) -> None:
    """Lets packets wait on the host's own interface before they leave, in place of a former bucket.

    As `tc qdisc replace dev INTERFACE root tbf rate RATE burst BURST latency LATENCY` does.

    Raises:
        pyroute2.NetlinkError: the kernel refuses it, or has no sch_tbf.
    """

    def replace(kernel: Any) -> None:
        index = kernel.link_lookup(ifname=host.interface)[0]
        bucket = {"rate": rate, "burst": burst, "latency": latency}
        kernel.tc("replace", "tbf", index=index, handle="1:", **bucket)

    with_route_socket(host, replace)


def one_host(lab: Lab) -> Pair:
    """The laboratory's client as a place of its own: client and server are both "localhost".

    Other than on Loopback the loopback interface is the laboratory's own, so its MTU and its
    offloads can be set.
    """
    localhost = Host(lab, lab.client.name, "127.0.0.1", "lo")
    return Pair(localhost, localhost, lab.congestion)


def set_mtu(host: Host, mtu_bytes: int) -> None:
    """Sets the MTU of the host's interface, as `ip link set dev INTERFACE mtu MTU` does.

    Raises:
        ParameterError: the MTU is out of range.
        LabError: the kernel refuses it.
    """
    most = _MAX_LO_MTU if host.interface == "lo" else _MAX_IP_PACKET_BYTES
    if not _MIN_MTU <= mtu_bytes <= most:
        raise ParameterError(
            f"mtu_bytes={mtu_bytes!r} must be from {_MIN_MTU} to {most} on {host.interface}"
        )
    request = struct.pack("16si12x", host.interface.encode(), mtu_bytes)
    with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, _SIOCSIFMTU, request)
        except OSError as error:
            raise LabError(
                f"MTU {mtu_bytes} for {host.interface} of {host.name}: {error.strerror}"
            ) from None


_SIOCSIFMTU: Final = 0x8922  # <linux/sockios.h>


def set_offload(host: Host, on: bool) -> None:
    """Switches TSO, GSO and GRO of the host's interface, as `ethtool -K INTERFACE tso off ...`.

    Raises:
        LabError: the kernel refuses it.
    """
    try:
        with Configured(host.socket) as own:
            own.set_offloads(host.interface, SEGMENTATION, on=on)
    except OSError as error:
        raise LabError(f"offloads of {host.interface} on {host.name}: {error}") from None
