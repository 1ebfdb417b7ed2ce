"""List the interface through which the client reaches each address.

In J. Snader's tables, the speed depends on the name used for a machine, because a route of his BSD
system had its own MTU. Linux sends everything for its own addresses through lo.
"""

from __future__ import annotations

from typing import Any

from tcplab.experiments import Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.interface_settings import MAX_MTU, with_route_socket
from tcplab.experiments.mode import at_network
from tcplab.lab import Lab, Network
from tcplab.models import announced_mss_bytes


class Route(Variant):
    """The path that packets take from the client to an address."""

    to: str = column("destination")
    address: str = column("address")
    interface: str = column("interface")
    mtu_bytes: int = column("MTU (bytes)", "d")
    #: MTU − 40 (RFC 9293, 3.7.1)
    announced_mss_bytes = computed(
        lambda route: announced_mss_bytes(min(route.mtu_bytes, MAX_MTU)), "MSS in the SYN", "d"
    )


@experiment("routes", on_loopback=True, figure=("mtu_bytes", "announced_mss_bytes"))
def measure(network: Network | None = None) -> Result[Route]:
    """List the interface through which each address is reached, and the MSS announced there."""
    with at_network(network) as network:
        targets = {"localhost": "127.0.0.1"}
        if isinstance(network, Lab):
            targets["its own address"] = network.client.address
            targets["the other host"] = network.server.address
        routes = with_route_socket(
            network.client, lambda kernel: [_route(kernel, *target) for target in targets.items()]
        )
        return Result(routes, provenance(network))


def _route(kernel: Any, to: str, address: str) -> Route:
    (route,) = kernel.route("get", dst=address)
    (link,) = kernel.get_links(route.get_attr("RTA_OIF"))
    return Route(to, address, link.get_attr("IFLA_IFNAME"), link.get_attr("IFLA_MTU"))
