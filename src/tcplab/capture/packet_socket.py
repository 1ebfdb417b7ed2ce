"""Open packet sockets, filter packets and count losses (packet(7), networking/filter.rst)."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.capture.packets import dissect, scapy_time
from tcplab.errors import CaptureError
from tcplab.lab import Host, Loopback
from tcplab.segments.pcap import ETHERNET, MAX_PACKET_BYTES, RAW

if TYPE_CHECKING:
    from scapy.packet import Packet

#: Instructions of a classic BPF program. Each has a code, a jump if true, a jump if false and a
#: constant.
Filter = Sequence[tuple[int, int, int, int]]

# These constants are from linux/if_packet.h, if_ether.h, filter.h and sockios.h, and net/if.h.
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_OUTGOING = 263, 6, 4
_ETH_P_ALL, _ARPHRD_ETHER, _ARPHRD_LOOPBACK = 3, 1, 772
_SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 26, 35
_SIOCGIFFLAGS, _SIOCGIFHWADDR, _IFF_LOOPBACK = 0x8913, 0x8927, 8
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_LOAD_PACKET_TYPE: Final = (_LOAD_WORD, 0, 0, 0xFFFFF004)  # SKF_AD_OFF + SKF_AD_PKTTYPE
_DROP: Final = (_RETURN, 0, 0, 0)
_KEEP: Final = (_RETURN, 0, 0, MAX_PACKET_BYTES)

EVERYTHING: Final[Filter] = (_KEEP,)
NOTHING: Final[Filter] = (_DROP,)
#: Beginnings of filters that keep only outgoing packets, or only incoming packets.
_LEAVING: Final[Filter] = (_LOAD_PACKET_TYPE, (_JUMP_IF_EQUAL, 1, 0, _PACKET_OUTGOING), _DROP)
COMING_IN: Final[Filter] = (_LOAD_PACKET_TYPE, (_JUMP_IF_EQUAL, 0, 1, _PACKET_OUTGOING), _DROP)


def open_packet_socket(
    host: Host, keep: Filter = EVERYTHING, kind: int = socket.SOCK_RAW
) -> tuple[socket.socket, int]:
    """Open a packet socket that listens at a host; return it and its link type.

    On the loopback interface, where each packet passes twice, the socket keeps packets that leave.
    On the real machine's loopback, it keeps only packets to and from the network's server. With
    SOCK_DGRAM, packets have no link header.
    """
    import fcntl

    opened = host.socket(socket.AF_PACKET, kind, 0)
    request = struct.pack("16s24x", host.interface.encode())
    try:
        (flags,) = struct.unpack_from("H", fcntl.ioctl(opened, _SIOCGIFFLAGS, request), 16)
        (hardware,) = struct.unpack_from("H", fcntl.ioctl(opened, _SIOCGIFHWADDR, request), 16)
        if flags & _IFF_LOOPBACK:
            keep = [*_LEAVING, *_between_us(host), *keep]
        attach(opened, keep)
        # The kernel reduces this to the largest buffer that it allows.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.bind((host.interface, _ETH_P_ALL))
    except OSError as error:
        opened.close()
        raise CaptureError(f"sniffing on {host.interface}: {error.strerror}") from None
    framed = kind == socket.SOCK_RAW and hardware in (_ARPHRD_ETHER, _ARPHRD_LOOPBACK)
    return opened, ETHERNET if framed else RAW


def _between_us(host: Host) -> Filter:
    """Return a filter's start that drops other programs' packets on loopback; empty in a Lab."""
    if not isinstance(host.network, Loopback):
        return ()
    (server,) = struct.unpack("!I", socket.inet_aton(host.network.server.address))
    source, destination = 14 + 12, 14 + 16  # offsets in a frame (RFC 791, 3.1)
    return (
        (_LOAD_WORD, 0, 0, source),
        (_JUMP_IF_EQUAL, 3, 0, server),
        (_LOAD_WORD, 0, 0, destination),
        (_JUMP_IF_EQUAL, 1, 0, server),
        _DROP,
    )


def attach(opened: socket.socket, program: Filter) -> None:
    """Attach a filter to the socket, instead of any earlier one."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HP", len(program), ctypes.addressof(buffer))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)


def receive(opened: socket.socket, link_type: int) -> Packet:
    """Receive the next packet as a scapy packet with the kernel's timestamp."""
    frame, ancillary, _flags, address = opened.recvmsg(MAX_PACKET_BYTES, 64)
    packet = dissect(frame, link_type)
    for _level, kind, value in ancillary:
        if kind == _SO_TIMESTAMPNS and len(value) == 16:
            seconds, nanoseconds = struct.unpack("qq", value)
            packet.time = scapy_time(seconds * 10**9 + nanoseconds)
    packet.wirelen = len(frame)
    packet.sniffed_on = address[0]
    return packet


def has_waiting(opened: socket.socket) -> bool:
    """Return whether the socket holds packets that have not been received."""
    try:
        opened.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True


def statistics(opened: socket.socket) -> tuple[int, int]:
    """Return how many packets passed the filter since the last call, and how many were dropped."""
    counts: Any = opened.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
    received, drops = struct.unpack("II", counts)
    return received, drops
