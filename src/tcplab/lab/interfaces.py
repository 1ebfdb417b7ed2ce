"""Configure the interfaces of a network namespace from outside, using pyroute2's messages.

pyroute2 encodes the rtnetlink(7) messages, and this module opens the sockets inside the namespace.
Each request is answered before the next one is sent, so neither the library's event loop nor a
thread is needed. (A notebook already runs an event loop.)
"""

import errno
import itertools
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final, Self

#: Offloads that make frames larger than the MTU: TSO, GSO and GRO.
SEGMENTATION: Final = (
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
)
#: Offloads to switch off on a veth pair, including transmit checksums. The kernel would postpone
#: them, and never compute them for a frame that a program forwards.
OFFLOADS: Final = (*SEGMENTATION, "tx-checksumming")
_SIOCGIFINDEX: Final = 0x8933  # netdevice(7)
#: Metric of the route that the kernel makes for an address's network (IP6_RT_PRIO_ADDRCONF).
_IPV6_PRIORITY: Final = 256
_IFA_F_NODAD: Final = 0x02  # linux/if_addr.h: skip duplicate address detection
_IFF_UP: Final = 0x1  # linux/if.h
_PERMANENT: Final = 0x80  # NUD_PERMANENT in linux/neighbour.h
#: Flags of a request: NLM_F_REQUEST and NLM_F_ACK, those that forbid an existing object (NLM_F_EXCL
#: and NLM_F_CREATE), and the one that replaces it (NLM_F_REPLACE, netlink(7)).
_REQUEST_AND_ACK, _NEW, _OLD = 0x5, 0x600, 0x100
_IMPORTING: Final = threading.Lock()


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Interfaces:
    """Configure a network namespace's interfaces, or raise OSError if the kernel refuses."""

    def __init__(self, open_socket: Callable[[int, int, int], socket.socket]) -> None:
        # On first use, this import takes about 0.1 s. Of two threads that import the package at the
        # same time, one finds it incomplete.
        with _IMPORTING:
            from pyroute2.netlink import rtnl
            from pyroute2.netlink.rtnl import ifaddrmsg, ifinfmsg, ndmsg, rtmsg

        self._rtnl = rtnl
        self._messages: dict[int, type[Any]] = {
            rtnl.RTM_NEWLINK: ifinfmsg.ifinfmsg,
            rtnl.RTM_NEWADDR: ifaddrmsg.ifaddrmsg,
            rtnl.RTM_NEWNEIGH: ndmsg.ndmsg,
            rtnl.RTM_NEWROUTE: rtmsg.rtmsg,
        }
        self._numbers = itertools.count(1)
        self._route = open_socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        try:
            self._device = open_socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
        except OSError:
            self._route.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._route.close()
        self._device.close()

    def add_veth(
        self, name: str, peer: str, *, mtu: int, peer_net_fd: int, peer_mac: str | None = None
    ) -> None:
        """Add a veth pair with one end here and the other in the namespace of `peer_net_fd`."""
        there = [("IFLA_IFNAME", peer), ("IFLA_NET_NS_FD", peer_net_fd), ("IFLA_MTU", mtu)]
        if peer_mac is not None:
            there.append(("IFLA_ADDRESS", peer_mac))
        pair = [("VETH_INFO_PEER", {"attrs": there})]
        kind = [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": pair})]
        here = [("IFLA_IFNAME", name), ("IFLA_MTU", mtu), ("IFLA_LINKINFO", {"attrs": kind})]
        self._ask("adding a veth pair", self._rtnl.RTM_NEWLINK, {}, here, _NEW)

    def set_up(self, name: str) -> None:
        """Switch on the interface `name`."""
        fields = {"index": self.index(name), "flags": _IFF_UP, "change": _IFF_UP}
        self._ask(f"switching {name} on", self._rtnl.RTM_NEWLINK, fields, [])

    def add_address(self, name: str, address: str) -> None:
        """Add an IPv4 address with a /24, or an IPv6 address with a /64, usable immediately."""
        fields = {"family": socket.AF_INET, "prefixlen": 24, "index": self.index(name)}
        if ":" in address:
            fields |= {"family": socket.AF_INET6, "prefixlen": 64, "flags": _IFA_F_NODAD}
        attributes = [("IFA_LOCAL", address), ("IFA_ADDRESS", address)]
        what = f"giving {name} the address {address}"
        self._ask(what, self._rtnl.RTM_NEWADDR, fields, attributes, _NEW)

    def add_neighbour(self, name: str, address: str, mac: str) -> None:
        """Add a permanent neighbour entry, so that no ARP or IPv6 neighbour request is sent."""
        fields = {"family": _family(address), "ifindex": self.index(name), "state": _PERMANENT}
        attributes = [("NDA_DST", address), ("NDA_LLADDR", mac)]
        what = f"naming the neighbour {address}"
        self._ask(what, self._rtnl.RTM_NEWNEIGH, fields, attributes, _NEW)

    def route_metrics(self, name: str, address: str, metrics: Mapping[str, str | int]) -> None:
        """Set metrics of the routes to an address and its network (ip-route(8)).

        Of an IPv6 address, only the route to its network is changed, because the kernel does not
        replace its route to a local address.

        The kernel lets every user give a route any congestion control (tcp_ca_dst_init). The route
        overrides what a program chooses before connect(), but not what it chooses afterwards.
        """
        rtnl, prefix = self._rtnl, 8 if name == "lo" else 64 if ":" in address else 24
        network = str(ip_network((address, prefix), strict=False).network_address)
        local = (rtnl.rt_type["local"], 255, rtnl.rt_scope["host"])  # RT_TABLE_LOCAL
        near = local if name == "lo" else (rtnl.rt_type["unicast"], 254, rtnl.rt_scope["link"])
        routes = [(network, prefix, near), (address, 32, local)]
        for destination, bits, (kind, table, scope) in routes[: 1 if ":" in address else 2]:
            fields = {"family": _family(address), "dst_len": bits, "table": table}
            fields |= {"proto": rtnl.rt_proto["kernel"], "scope": scope, "type": kind}
            attributes = [
                ("RTA_DST", destination),
                ("RTA_OIF", self.index(name)),
                ("RTA_PREFSRC", address),
                ("RTA_METRICS", {"attrs": [*metrics.items()]}),
            ]
            if ":" in address:
                attributes.append(("RTA_PRIORITY", _IPV6_PRIORITY))
            what = f"metrics of the route to {destination}/{bits}"
            self._ask(what, rtnl.RTM_NEWROUTE, fields, attributes, _OLD)

    def set_offloads(self, name: str, offloads: Sequence[str], *, on: bool) -> None:
        """Switch offloads of an interface on or off. `ethtool -k` lists their names."""
        from pyroute2.ethtool.ioctl import EthtoolError, IoctlEthtool

        ethtool = IoctlEthtool()
        ethtool.close()
        # Replace the socket that the library has opened in the wrong namespace.
        ethtool.sock = self._device
        ethtool.change_ifname(name)
        for offload in offloads:
            try:
                ethtool.set_offload_flag(offload, int(on))
            except EthtoolError as error:
                what = f"switching {offload} of {name} {'on' if on else 'off'}"
                raise OSError(errno.EOPNOTSUPP, f"{what}: {type(error).__name__}") from None

    def index(self, name: str) -> int:
        """Return the index of an interface."""
        import fcntl

        query = struct.pack("16si20x", name.encode(), 0)
        number: int = struct.unpack("16si20x", fcntl.ioctl(self._device, _SIOCGIFINDEX, query))[1]
        return number

    def _ask(
        self,
        what: str,
        request: int,
        fields: dict[str, int],
        attributes: Sequence[tuple[str, Any]],
        flags: int = 0,
    ) -> None:
        """Send a request or raise OSError."""
        asked = self._messages[request]()
        flags |= _REQUEST_AND_ACK
        asked["header"] = {"type": request, "flags": flags, "sequence_number": next(self._numbers)}
        asked.update(fields)
        asked["attrs"] = list(attributes)
        asked.encode()
        self._route.send(asked.data)
        # The answer to NLM_F_ACK is a 16-byte header, followed by the negative error number or 0.
        answer = self._route.recv(1 << 16)
        (error,) = struct.unpack_from("=i", answer, 16)
        if error:
            raise OSError(-error, f"{what}: {os.strerror(-error)}")
