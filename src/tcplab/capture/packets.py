"""Convert packets to scapy's classes. Scapy is imported only when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tcplab.machine import require_modules
from tcplab.segments.pcap import ETHERNET, IPV4, IPV6, LOOP, NULL, RAW, SLL, SLL2, PacketTable

if TYPE_CHECKING:
    from scapy.packet import Packet
    from scapy.plist import PacketList


def packets_of(table: PacketTable) -> PacketList:
    """Return the packets of a capture file as a scapy PacketList."""
    return packet_list(_packet(table, i, of) for i, of in enumerate(table.link_types().tolist()))


def _packet(table: PacketTable, i: int, link_type: int) -> Packet:
    interface = table.interfaces[table.interface[i]]
    packet = dissect(table.bytes_of(i), link_type)
    packet.time = scapy_time(int(table.time_ns[i]))
    packet.wirelen = int(table.original_bytes[i])
    packet.sniffed_on = interface.name or None
    return packet


def dissect(frame: bytes, link_type: int) -> Packet:
    """Dissect a frame with scapy. Return Raw if the link type is unknown or scapy fails."""
    layers = load_layers()
    layer = layers.get(link_type, layers[-1])
    try:
        return layer(frame)
    except Exception:  # scapy raises on some damaged packets, and the rest must still be read
        return layers[-1](frame)


@functools.cache
def load_layers() -> dict[int, Callable[[bytes], Packet]]:
    """Map link types to functions that dissect a frame with scapy; -1 is for any other type."""
    require_modules("scapy")
    # Only these layers are imported, because importing scapy.all takes 2 s.
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Ether, Loopback
    from scapy.packet import Raw

    def ip(frame: bytes) -> Packet:
        return (IPv6 if frame[:1] and frame[0] >> 4 == 6 else IP)(frame)

    return {
        ETHERNET: Ether,
        NULL: Loopback,
        LOOP: Loopback,
        SLL: CookedLinux,
        SLL2: CookedLinuxV2,
        IPV4: IP,
        IPV6: IPv6,
        RAW: ip,
        -1: Raw,
    }


def scapy_time(time_ns: int) -> Any:
    """Convert nanoseconds to the decimal seconds that scapy stores in packet.time."""
    from scapy.utils import EDecimal

    return EDecimal(time_ns).scaleb(-9)


def packet_list(packets: Iterable[Packet]) -> PacketList:
    """Return the packets as a scapy PacketList."""
    require_modules("scapy")
    from scapy.plist import PacketList

    return PacketList(list(packets), "capture")
