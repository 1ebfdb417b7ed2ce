"""Sniffing with scapy while the packets pass, for teaching; the losses are counted.

Source: packet(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from tcplab.capture.packets import dissect, load_layers, packet_list, scapy_time
from tcplab.errors import CaptureError
from tcplab.pcap import ETHERNET, MAX_PACKET_BYTES, RAW, CaptureLossWarning

if TYPE_CHECKING:
    from scapy.packet import Packet
    from scapy.plist import PacketList

    from tcplab.lab import Host

# From <linux/if_packet.h>, <linux/if_ether.h>, <linux/filter.h>, <linux/sockios.h>, <net/if.h>.
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_OUTGOING = 263, 6, 4
_ETH_P_ALL, _ARPHRD_ETHER, _ARPHRD_LOOPBACK = 3, 1, 772
_SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 26, 35
_SIOCGIFFLAGS, _SIOCGIFHWADDR, _IFF_LOOPBACK = 0x8913, 0x8927, 8
_LOAD_PACKET_TYPE, _JUMP_IF_EQUAL, _RETURN = (0x20, 0, 0, 0xFFFFF004), 0x15, 0x06


class LiveSniff:
    """Packets handed to scapy as they pass a host's interface: see :func:`sniff_live`."""

    #: What was seen, a scapy PacketList; complete when the with statement has ended.
    packets: PacketList
    #: Packets that the kernel showed to the socket.
    received: int
    #: Packets of these that the socket's buffer had no room for: scapy was too slow.
    drops: int

    def __init__(
        self, host: Host, prn: Callable[[Packet], object] | None, interface: str | None
    ) -> None:
        self._host = host
        self._prn = prn
        self._interface = interface or host.interface
        self.received = self.drops = 0

    def __repr__(self) -> str:
        return f"<LiveSniff on {self._interface}: {self.received} received, {self.drops} drops>"

    def __enter__(self) -> Self:
        from scapy.sendrecv import AsyncSniffer

        self.packets = packet_list(iter(()))
        self._socket = self._host.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            source = _scapy_socket(self._socket, self._interface)
            listening = threading.Event()
            self._sniffer = AsyncSniffer(
                opened_socket={source: self._interface},
                prn=self._prn,
                started_callback=listening.set,
            )
            self._source = source
            self._sniffer.start()
            # AsyncSniffer.start() returns before its thread listens; the kernel has been keeping
            # packets for us since bind(), but the thread should be there for the first.
            listening.wait(timeout=10)
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            _attach_filter(self._socket, [(_RETURN, 0, 0, 0)])  # nothing more
            self._sniffer.stop()
            seen = list(self._sniffer.results or [])
            while (packet := self._source.recv_at_once()) is not None:
                seen.append(packet)
                if self._prn is not None:
                    self._prn(packet)
            self.packets = packet_list(iter(seen))
            counts = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            self.received, self.drops = struct.unpack("II", counts)
        finally:
            self._source.close()
        if self.drops and kind is None:
            warnings.warn(
                f"scapy was too slow for {self.drops} of {self.received} packets: they are missing;"
                " host.capture() records without loss",
                CaptureLossWarning,
                stacklevel=2,
            )


def sniff_live(
    host: Host, prn: Callable[[Packet], object] | None = None, *, interface: str | None = None
) -> LiveSniff:
    """Hands each packet on a host's interface to scapy as it passes, while a with statement runs::

        with sniff_live(lab.client, prn=lambda packet: print(packet.summary())) as live:
            ...
        print(len(live.packets), live.drops)

    For looking at a few packets: scapy keeps up with about 2 000 a second, and the kernel counts
    what it could not (``.drops``; a CaptureLossWarning says so). For all of them use
    ``host.capture()``.

    Args:
        host: a Host of a Lab, or of Loopback with CAP_NET_RAW.
        prn: called with each packet, as in scapy's sniff().
        interface: the interface, if not the one that leads to the wire.
    """
    return LiveSniff(host, prn, interface)


def _scapy_socket(opened: socket.socket, interface: str) -> Any:
    """A packet socket of any network namespace as a scapy SuperSocket, listening."""
    from scapy.supersocket import SuperSocket

    link_type = _prepare(opened, interface)
    load_layers()  # imports scapy's layers now, not when the first packet waits

    class HostSocket(SuperSocket):
        desc = f"packet socket on {interface}"

        def __init__(self) -> None:
            self.ins = self.outs = opened

        def recv(self, *_: Any, **__: Any) -> Packet | None:
            frame, ancillary, _flags, address = self.ins.recvmsg(MAX_PACKET_BYTES, 64)
            packet = dissect(frame, link_type)
            for _level, kind, value in ancillary:
                if kind == _SO_TIMESTAMPNS and len(value) == 16:
                    seconds, nanoseconds = struct.unpack("qq", value)
                    packet.time = scapy_time(seconds * 10**9 + nanoseconds)
            packet.wirelen = len(frame)
            packet.sniffed_on = address[0]
            packet.direction = address[2]
            return packet

        def recv_at_once(self) -> Packet | None:
            self.ins.setblocking(False)
            try:
                return self.recv()
            except BlockingIOError:
                return None

    return HostSocket()


def _prepare(opened: socket.socket, interface: str) -> int:
    """Binds a packet socket; the interface's link type."""
    request = struct.pack("16s24x", interface.encode())
    try:
        (flags,) = struct.unpack_from("H", fcntl.ioctl(opened, _SIOCGIFFLAGS, request), 16)
        (hardware,) = struct.unpack_from("H", fcntl.ioctl(opened, _SIOCGIFHWADDR, request), 16)
        if flags & _IFF_LOOPBACK:  # each packet passes twice; keep the one that leaves
            _attach_filter(
                opened,
                [
                    _LOAD_PACKET_TYPE,
                    (_JUMP_IF_EQUAL, 0, 1, _PACKET_OUTGOING),
                    (_RETURN, 0, 0, MAX_PACKET_BYTES),
                    (_RETURN, 0, 0, 0),
                ],
            )
        opened.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20
        )  # the kernel gives what it may
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.bind((interface, _ETH_P_ALL))
    except OSError as error:
        raise CaptureError(f"sniffing on {interface}: {error.strerror}") from None
    return ETHERNET if hardware in (_ARPHRD_ETHER, _ARPHRD_LOOPBACK) else RAW


def _attach_filter(opened: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    """A classic BPF program, each instruction (code, jump if true, jump if false, constant)."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HP", len(program), ctypes.addressof(buffer))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)
