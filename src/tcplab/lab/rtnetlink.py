"""The few requests of rtnetlink(7) and ethtool that a laboratory makes, over a given socket.

pyroute2, which does all of them and hundreds more, takes 0.4 s to import: longer than a laboratory
takes to make, and the first one in a process is what a learner waits for. And it opens some of its
sockets itself, in the namespace that it happens to be in.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from typing import Final, Self

__all__ = ["NetlinkSocket"]

# <linux/netlink.h>, <linux/rtnetlink.h>
_NLMSG_ERROR: Final = 2
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWNEIGH = 16, 20, 28
# <linux/if_link.h>, <linux/veth.h>, <linux/if_addr.h>, <linux/neighbour.h>
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 4, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST = 1, 2, 4
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_PERMANENT = 0x80
_IFF_UP = 1
# <linux/sockios.h>, <linux/ethtool.h>
_SIOCGIFINDEX, _SIOCETHTOOL = 0x8933, 0x8946
#: What a veth pair does for speed on one machine and no network card does on a wire: frames larger
#: than the MTU, and TCP checksums left for a later that never comes when a program forwards the
#: frame. TSO, GSO, GRO, checksums when sending.
_ETHTOOL_SET_OFFLOADS: Final = (0x1F, 0x24, 0x2C, 0x17)


class NetlinkSocket:
    """Configures the interfaces of the network namespace in which its socket was opened.

    Every method raises OSError, with the request in words, when the kernel refuses.

    Args:
        sock: an AF_NETLINK socket of NETLINK_ROUTE, which is closed with this object.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def add_veth(
        self, name: str, peer: str, *, mtu: int, peer_net_fd: int, peer_mac: str | None = None
    ) -> None:
        """A veth pair: one end here, the other in the namespace behind peer_net_fd."""
        there = _link_message() + _attributes(
            {_IFLA_IFNAME: _text(peer), _IFLA_MTU: _u32(mtu), _IFLA_NET_NS_FD: _u32(peer_net_fd)}
        )
        if peer_mac is not None:
            there += _attributes({_IFLA_ADDRESS: bytes.fromhex(peer_mac.replace(":", ""))})
        info = {_IFLA_INFO_KIND: b"veth", _IFLA_INFO_DATA: _attributes({_VETH_INFO_PEER: there})}
        here = {_IFLA_IFNAME: _text(name), _IFLA_MTU: _u32(mtu), _IFLA_LINKINFO: _attributes(info)}
        body = _link_message() + _attributes(here)
        self._request(_RTM_NEWLINK, _CREATE | _EXCL, body, f"adding the veth pair {name}, {peer}")

    def set_up(self, name: str) -> None:
        """Switches an interface on."""
        body = _link_message(self.index(name), _IFF_UP, _IFF_UP)
        self._request(_RTM_NEWLINK, 0, body, f"switching {name} on")

    def add_address(self, name: str, address: str, prefix_bits: int = 24) -> None:
        """Gives an interface an IPv4 address."""
        packed = socket.inet_aton(address)
        host_bits = (1 << (32 - prefix_bits)) - 1
        broadcast = _be32(struct.unpack("!I", packed)[0] | host_bits)
        body = struct.pack("BBBBI", socket.AF_INET, prefix_bits, 0, 0, self.index(name))
        body += _attributes({_IFA_LOCAL: packed, _IFA_ADDRESS: packed, _IFA_BROADCAST: broadcast})
        self._request(_RTM_NEWADDR, _CREATE | _EXCL, body, f"adding {address} to {name}")

    def add_neighbour(self, name: str, address: str, mac: str) -> None:
        """Tells for good who is behind an address, so that nobody has to ask."""
        body = struct.pack("BxxxiHBB", socket.AF_INET, self.index(name), _NUD_PERMANENT, 0, 0)
        lladdr = bytes.fromhex(mac.replace(":", ""))
        body += _attributes({_NDA_DST: socket.inet_aton(address), _NDA_LLADDR: lladdr})
        self._request(_RTM_NEWNEIGH, _CREATE | _EXCL, body, f"adding the neighbour {address}")

    def switch_offloads_off(self, name: str) -> None:
        """TSO, GSO, GRO and the checksums of what is sent."""
        for command in _ETHTOOL_SET_OFFLOADS:
            value = array.array("I", [command, 0])
            request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
            fcntl.ioctl(self._socket, _SIOCETHTOOL, request)

    def index(self, name: str) -> int:
        """The number of an interface."""
        answer = fcntl.ioctl(self._socket, _SIOCGIFINDEX, struct.pack("16si20x", name.encode(), 0))
        index: int = struct.unpack_from("i", answer, 16)[0]
        return index

    def _request(self, kind: int, flags: int, body: bytes, what: str) -> None:
        self._sequence += 1
        header = struct.pack(
            "IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, self._sequence, 0
        )
        self._socket.send(header + body)
        answer = self._socket.recv(65536)
        _length, kind, _flags, _sequence, _pid, error = struct.unpack_from("IHHIIi", answer)
        if kind != _NLMSG_ERROR:
            raise OSError(errno.EPROTO, f"{what}: an answer of type {kind}")
        if error:
            raise OSError(-error, f"{what}: {os.strerror(-error)}")


def _link_message(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    """struct ifinfomsg."""
    return struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _attributes(values: Mapping[int, bytes]) -> bytes:
    """Length, type, value, padding to four bytes; one after the other."""
    return b"".join(
        struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
        for kind, value in values.items()
    )


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _u32(value: int) -> bytes:
    return struct.pack("I", value)


def _be32(value: int) -> bytes:
    return struct.pack("!I", value)
