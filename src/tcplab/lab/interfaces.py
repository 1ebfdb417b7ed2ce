"""The interfaces of one network namespace, configured from outside it with pyroute2.

pyroute2 drives an event loop of its own and a notebook's is running already, so all of this has to
happen in a thread: see :func:`in_thread`. Its import takes a third of a second, most of what the
first laboratory of a process takes; :func:`import_early` lets that happen meanwhile.
"""

from __future__ import annotations

import importlib
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

__all__ = ["Interfaces", "import_early", "in_thread"]

T = TypeVar("T")

#: What a veth pair does for speed on one machine and no network card does on a wire: frames larger
#: than the MTU, and TCP checksums left for a later that never comes when a program forwards the
#: frame.
_OFFLOADS: Final = (
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "tx-checksumming",
)


def import_early() -> None:
    """Begins to import what :class:`Interfaces` needs, the first time."""
    if "pyroute2.ethtool.ioctl" in sys.modules:
        return
    modules = ("pyroute2", "pyroute2.ethtool.ioctl")
    threading.Thread(target=lambda: [importlib.import_module(name) for name in modules]).start()


def in_thread(work: Callable[[], T]) -> T:
    """Runs work in a thread of its own, and returns or raises what it does."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


class Interfaces:
    """Configures the interfaces of the network namespace in which the sockets are opened.

    Every method raises OSError when the kernel refuses.

    Args:
        open_socket: opens a socket (family, type, protocol) inside the namespace.
    """

    def __init__(self, open_socket: Callable[[int, int, int], socket.socket]) -> None:
        from pyroute2 import IPRoute

        self._open_socket = open_socket
        route = open_socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
        self._route: Any = IPRoute(fileno=route.detach())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._route.close()

    def add_veth(
        self, name: str, peer: str, *, mtu: int, peer_net_fd: int, peer_mac: str | None = None
    ) -> None:
        """A veth pair: one end here, the other in the namespace behind peer_net_fd."""
        there = {"ifname": peer, "net_ns_fd": peer_net_fd, "mtu": mtu}
        if peer_mac is not None:
            there["address"] = peer_mac
        self._ask("link", "add", kind="veth", ifname=name, mtu=mtu, peer=there)

    def set_up(self, name: str) -> None:
        """Switches an interface on."""
        self._ask("link", "set", index=self.index(name), state="up")

    def add_address(self, name: str, address: str, prefix_bits: int = 24) -> None:
        """Gives an interface an IPv4 address."""
        self._ask("addr", "add", index=self.index(name), address=address, prefixlen=prefix_bits)

    def add_neighbour(self, name: str, address: str, mac: str) -> None:
        """Tells for good who is behind an address, so that nobody has to ask."""
        index = self.index(name)
        self._ask("neigh", "add", dst=address, lladdr=mac, ifindex=index, state="permanent")

    def switch_offloads_off(self, name: str) -> None:
        """TSO, GSO, GRO and the checksums of what is sent."""
        from pyroute2.ethtool.ioctl import IoctlEthtool

        ethtool = IoctlEthtool()
        ethtool.close()
        # The library opens its socket here, in the wrong namespace; all else about it is right.
        ethtool.sock = self._open_socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
        ethtool.change_ifname(name)
        for offload in _OFFLOADS:
            ethtool.set_offload_flag(offload, 0)
        ethtool.close()

    def index(self, name: str) -> int:
        """The number of an interface."""
        found: list[int] = self._route.link_lookup(ifname=name)
        if not found:
            raise OSError(f"there is no interface {name}")
        return found[0]

    def _ask(self, request: str, *words: str, **values: Any) -> None:
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            getattr(self._route, request)(*words, **values)
        except NetlinkError as error:
            raise OSError(error.code, f"{request} {words[0]}: {error.args[-1]}") from None
