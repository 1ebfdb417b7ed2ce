"""List the interfaces of the laboratory's hosts and of the machine, with their MTUs.

J. Snader explains his table 2.2 with `netstat -i`, which shows 1500 bytes for Ethernet and 16384
for loopback. Here rtnetlink(7) reports the interfaces. The table leaves out the addresses of the
machine's own interfaces.
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

#: The length of the longest IPv4 packet, which is less than loopback's MTU of 65,536.
MAX_PACKET_BYTES: Final = 65_535
_ARPHRD: Final = {772: "loopback", 1: "ethernet"}


class Interface(Variant, key=("host", "name"), label="{0.host} {0.name}"):
    """One network interface of a host."""

    host: str = column("host")  #: "client", "server", "the machine" or "bsd (published)"
    name: str = column("name")
    mtu_bytes: int = column("MTU (bytes)", "d")

    @derived("full segment (bytes)", "d")
    def mss_bytes(self) -> int | None:
        """The MTU minus the headers and 12 bytes of TCP options, or None if nothing remains."""
        packet_bytes = min(self.mtu_bytes, MAX_PACKET_BYTES)
        return mss_bytes(packet_bytes) if packet_bytes > 52 else None

    kind: str = column("kind")  #: such as "loopback", "veth", "ethernet" or "bridge"
    #: None without an IPv4 address, and for the machine's own interfaces, to protect privacy.
    network: str | None = column("network", default=None)
    address: str | None = column("address", default=None)


#: The two lines of `netstat -i` in the book.
PUBLISHED: Final = (
    Interface("bsd (published)", "Ed0", 1500, "ethernet", "172.30", "bsd"),
    Interface("bsd (published)", "lo0", 16384, "loopback", "127", "localhost"),
)


class Interfaces(Result[Interface]):
    """The interfaces of all hosts. The key of an interface is (host, name)."""

    def of(self, host: str) -> list[Interface]:
        """Return the interfaces of one host."""
        return [interface for interface in self.variants if interface.host == host]


@experiment("interfaces", on_loopback=True)
def measure(network: Network | None = None) -> Interfaces:
    """List the interfaces of the laboratory's hosts and of this machine, with their MTUs."""
    with at_network(network) as network:
        interfaces = list(PUBLISHED)
        if isinstance(network, Lab):
            for host in (network.client, network.server):
                interfaces += _interfaces(host.name, host)
        return Interfaces(interfaces + _interfaces("the machine", None), provenance(network))


def _interfaces(name: str, host: Host | None) -> list[Interface]:
    """Return the interfaces of a host, or the machine's without addresses if `host` is None."""

    def ask(kernel: Any) -> list[Interface]:
        networks: dict[int, IPv4Interface] = {}
        for entry in kernel.get_addr(family=socket.AF_INET) if host else ():
            text = f"{entry.get_attr('IFA_ADDRESS')}/{entry['prefixlen']}"
            networks[entry["index"]] = IPv4Interface(text)
        return [_interface(name, link, networks) for link in kernel.get_links()]

    interfaces = with_route_socket(host, ask)
    return sorted(interfaces, key=lambda interface: (interface.kind != "loopback", interface.name))


def _interface(host: str, link: Any, networks: Mapping[int, IPv4Interface]) -> Interface:
    network = networks.get(link["index"])
    details = link.get_attr("IFLA_LINKINFO")
    kind = details and details.get_attr("IFLA_INFO_KIND")
    return Interface(
        host,
        link.get_attr("IFLA_IFNAME"),
        link.get_attr("IFLA_MTU"),
        str(kind or _ARPHRD.get(link["ifi_type"], "other")),
        str(network.network) if network else None,
        str(network.ip) if network else None,
    )
