"""Send custom packets from a host with a scapy socket (raw(7), packet(7))."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from tcplab.capture.packet_socket import COMING_IN, EVERYTHING, open_packet_socket, receive
from tcplab.errors import LabError
from tcplab.lab import Host
from tcplab.machine import require_modules
from tcplab.segments.pcap import MAX_PACKET_BYTES

if TYPE_CHECKING:
    from scapy.packet import Packet

_QUIET: Final = {"timeout": 2, "verbose": False}


def scapy_socket(host: Host) -> Any:
    """Open a scapy SuperSocket on a host, which sends custom packets and receives the answers::

        with lab.client.scapy_socket() as scapy:
            answer = scapy.sr1(IP(dst=lab.server.address) / TCP(dport=80, flags="S"))

    The socket has scapy's ``send``, ``sr``, ``sr1`` and ``sniff``, and packets begin with IP. By
    default ``sr`` and ``sr1`` wait two seconds for an answer and print nothing.

    An IP packet without ``src`` gets ``scapy.address``, which leads to this host but is unknown to
    its kernel. With ``host.address`` the exchange would end at once, because the host's kernel
    would find no connection for the answer and reset it (RFC 9293, 3.5.2).
    """
    require_modules("scapy")
    from scapy.layers.inet import IP
    from scapy.supersocket import SuperSocket

    class HostSocket(SuperSocket):
        def __init__(self) -> None:
            self.address = host.network.spare_address(host)
            keep = [*COMING_IN, *EVERYTHING]
            self.ins, self._link_type = open_packet_socket(host, keep, socket.SOCK_DGRAM)
            self._raw = self.outs = host.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

        def recv(self, x: int = MAX_PACKET_BYTES, **_: Any) -> Packet:  # noqa: ARG002
            return receive(self.ins, self._link_type)

        def send(self, x: Packet) -> int:
            packet = _from(self.address, x)
            data = bytes(packet)
            try:
                return int(self._raw.sendto(data, (packet[IP].dst, 0)))
            except OSError as error:
                raise LabError(
                    f"sending {len(data)} bytes from {host.name} (its MTU is {host.network.mtu}):"
                    f" {error.strerror}"
                ) from None

        def sr(self, packets: Any, **options: Any) -> Any:
            return super().sr(_from(self.address, packets), **{**_QUIET, **options})

        def sr1(self, packets: Any, **options: Any) -> Any:
            return super().sr1(_from(self.address, packets), **{**_QUIET, **options})

    return HostSocket()


def _from(address: str, packets: Any) -> Any:
    """Set missing source addresses, which scapy would choose from the real machine's routes."""
    from scapy.layers.inet import IP
    from scapy.packet import Packet

    for packet in [packets] if isinstance(packets, Packet) else packets:
        if IP not in packet:
            raise LabError(f"{packet.summary()} has no IP header; begin with IP(dst=...)")
        if "src" not in packet[IP].fields:
            packet[IP].src = address
    return packets
