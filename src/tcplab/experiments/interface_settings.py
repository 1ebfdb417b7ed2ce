"""Change the MTU, the offloads and the queueing discipline of a host's interface."""

import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from tcplab import checks
from tcplab.errors import LabError
from tcplab.lab import Host
from tcplab.lab.interfaces import SEGMENTATION, Interfaces

T = TypeVar("T")

_MIN_MTU: Final = 68  # RFC 791
MAX_MTU: Final = 65_535  #: also the length of the longest IPv4 packet, on any interface
_MAX_LO_MTU: Final = 65_536
_SIOCSIFMTU: Final = 0x8922  # <linux/sockios.h>


def with_route_socket(host: Host, work: Callable[[Any], T]) -> T:
    """Return work(IPRoute) with a netlink socket of the host.

    The work is done in a thread, because pyroute2 runs an event loop, and a notebook's thread has
    one already.
    """

    def run() -> T:
        from pyroute2 import IPRoute

        netlink = host.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
        with netlink, IPRoute(fileno=netlink.detach()) as kernel:
            return work(kernel)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def put_token_bucket(host: Host, *, rate: str, burst: int, latency: str) -> None:
    """Limit the rate of the host's interface, as `tc qdisc replace … root tbf rate …` does."""
    from pyroute2 import NetlinkError

    def replace(kernel: Any) -> None:
        index = kernel.link_lookup(ifname=host.interface)[0]
        bucket = {"rate": rate, "burst": burst, "latency": latency}
        kernel.tc("replace", "tbf", index=index, handle="1:", **bucket)

    try:
        with_route_socket(host, replace)
    except NetlinkError as error:
        raise LabError(
            f"this kernel cannot limit a rate (sch_tbf: {error.args[-1]}); to load the module:"
            " sudo modprobe sch_tbf"
        ) from None


def set_mtu(host: Host, mtu_bytes: int) -> None:
    """Set the MTU of the host's interface, as `ip link set dev INTERFACE mtu MTU` does."""
    import fcntl

    most = _MAX_LO_MTU if host.interface == "lo" else MAX_MTU
    checks.whole("mtu_bytes", mtu_bytes, _MIN_MTU, most, unit=f" on {host.interface}")
    request = struct.pack("16si12x", host.interface.encode(), mtu_bytes)
    with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            fcntl.ioctl(handle, _SIOCSIFMTU, request)
        except OSError as error:
            raise LabError(
                f"MTU {mtu_bytes} for {host.interface} of {host.name}: {error.strerror}"
            ) from None


def set_offloads(
    host: Host, *, tso: bool | None = None, gso: bool | None = None, gro: bool | None = None
) -> None:
    """Switch some offloads of the host's interface, as `ethtool -K INTERFACE tso off …` does.

    With TSO the network card splits super-segments. With GSO the kernel splits them just before the
    driver. With GRO the kernel joins segments that arrive. None leaves an offload as it is.
    """
    try:
        with Interfaces(host.socket) as interfaces:
            for name, on in zip(SEGMENTATION, (tso, gso, gro), strict=True):
                if on is not None:
                    interfaces.set_offloads(host.interface, [name], on=on)
    except OSError as error:
        raise LabError(f"offloads of {host.interface} on {host.name}: {error}") from None
