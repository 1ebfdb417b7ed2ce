"""Interfaces of the laboratory's hosts and of the machine, with their MTUs.

The lines of `netstat -i` in J. Snader, Effective TCP/IP Programming, with which the text explains
its table 2.2: 1500 bytes for the Ethernet, 16384 for loopback. Here the kernel is asked
(rtnetlink(7)); of the machine itself by name, MTU and kind alone.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import IPv4Interface
from typing import Any, Final

from tcplab.experiments import Result, Variant, column, derived, experiment, provenance
from tcplab.experiments.interface_settings import with_route_socket
from tcplab.experiments.mode import at_network
from tcplab.lab import Host, Lab, Network
from tcplab.models import mss_bytes

#: Of IPv4, and so of a packet through an interface with an MTU of 65,536.
MAX_PACKET_BYTES: Final = 65_535
_ARPHRD: Final = {772: "loopback", 1: "ethernet"}


class Interface(Variant, key=("host", "name"), label="{0.host} {0.name}"):
    """One network interface."""

    #: "client" or "server" of the laboratory, "the machine", "bsd (published)"
    host: str = column("host")
    name: str = column("name")  #: as the kernel calls it
    mtu_bytes: int = column("MTU (bytes)", "d")  #: the longest IP packet that it takes

    @derived("full segment (bytes)", "d")
    def mss_bytes(self) -> int | None:
        """The most that a TCP segment can carry out of it: the MTU less 20, 20 and 12 bytes."""
        packet_bytes = min(self.mtu_bytes, MAX_PACKET_BYTES)
        return mss_bytes(packet_bytes) if packet_bytes > 52 else None

    kind: str = column("kind")  #: "loopback", "veth", "ethernet", "bridge", ... by the kernel
    #: the network it leads to and its IPv4 address there; None if withheld for privacy
    network: str | None = column("network", default=None)
    address: str | None = column("address", default=None)


#: The text's two lines of `netstat -i`.
PUBLISHED: Final = (
    Interface("bsd (published)", "Ed0", 1500, "ethernet", "172.30", "bsd"),
    Interface("bsd (published)", "lo0", 16384, "loopback", "127", "localhost"),
)


class Interfaces(Result[Interface]):
    """The interfaces of each host; the key is (host, name)."""

    def of(self, host: str) -> list[Interface]:
        """The interfaces of one host."""
        return [each for each in self.variants if each.host == host]


@experiment("interfaces", on_loopback=True)
def measure(network: Network | None = None) -> Interfaces:
    """Interfaces of the laboratory's hosts and of this machine, with their MTUs.

    Args:
        network: a Lab of its own unless given; on Loopback there is only the machine.
    """
    with at_network(network) as network:
        found = list(PUBLISHED)
        if isinstance(network, Lab):
            for host in (network.client, network.server):
                found += _interfaces(host.name, host, addresses=True)
        return Interfaces(found + _interfaces("the machine", None), provenance(network))


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
    kind = details and details.get_attr("IFLA_INFO_KIND")
    return str(kind or _ARPHRD.get(link["ifi_type"], "other"))
