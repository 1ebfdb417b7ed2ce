"""Routes: the interface through which each address is reached from the client.

In J. Snader's tables the name that is used for a machine decides about the speed, since a route of
its BSD system had an MTU of its own. Linux sends whatever is its own through lo.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tcplab.experiments import Result, Variant, column, experiment, provenance
from tcplab.experiments.interface_settings import with_route_socket
from tcplab.experiments.interfaces import MAX_PACKET_BYTES
from tcplab.experiments.mode import at_network
from tcplab.lab import Lab, Network
from tcplab.models import announced_mss_bytes


class Route(Variant):
    """The path that packets from the client to an address take."""

    #: what the address is to the client: "localhost", "its own address", "the other host"
    to: str = column("from the client to")
    address: str = column("address")
    interface: str = column("leads through")  #: through which the kernel sends them
    mtu_bytes: int = column("MTU (bytes)", "d")  #: of that interface
    #: what the SYN of a connection there announces (RFC 9293, 3.7.1)
    announced_mss_bytes: int = column("MSS in the SYN", "d")


Routes: TypeAlias = Result[Route]


@experiment("routes", on_loopback=True)
def measure(network: Network | None = None) -> Routes:
    """Interface through which each address is reached, and the MSS announced there.

    Args:
        network: a Lab of its own unless given; on Loopback there is only localhost.
    """
    with at_network(network) as network:
        targets = {"localhost": "127.0.0.1"}
        if isinstance(network, Lab):
            targets["its own address"] = network.client.address
            targets["the other host"] = network.server.address
        routes = with_route_socket(
            network.client, lambda kernel: [_route(kernel, *target) for target in targets.items()]
        )
        return Routes(routes, provenance(network))


def _route(kernel: Any, to: str, address: str) -> Route:
    """As `ip route get ADDRESS` says."""
    (route,) = kernel.route("get", dst=address)
    (link,) = kernel.get_links(route.get_attr("RTA_OIF"))
    mtu_bytes = link.get_attr("IFLA_MTU")
    announced = announced_mss_bytes(min(mtu_bytes, MAX_PACKET_BYTES))
    return Route(to, address, link.get_attr("IFLA_IFNAME"), mtu_bytes, announced)
