"""Packets of a capture as scapy sees them. Scapy is imported when the first is looked at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tcplab.pcap import (
    ETHERNET,
    IPV4,
    IPV6,
    LOOP,
    NULL,
    RAW,
    RAW_BSD,
    RAW_OPENBSD,
    SLL,
    SLL2,
    PacketTable,
)

if TYPE_CHECKING:
    from scapy.packet import Packet
    from scapy.plist import PacketList


class Packets:
    """The packets of a capture as scapy sees them, dissected one by one when they are looked at.

    An index gives a scapy packet, a slice a scapy PacketList. What else a PacketList can do
    (``.summary()``, ``.filter(…)``, ``[TCP]``, …) dissects all packets first: 5 000 a second or so.
    """

    def __init__(self, table: PacketTable) -> None:
        self._table = table
        self._link_types = table.link_types()
        self._whole: PacketList | None = None

    def __repr__(self) -> str:
        return f"<Packets: {len(self)}>"

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> Packet: ...

    @overload
    def __getitem__(self, index: Any) -> PacketList: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            if not -len(self) <= index < len(self):
                raise IndexError(f"packet {index} of {len(self)}")
            return self._dissect(int(index) % len(self))
        if isinstance(index, slice):
            return packet_list(self._dissect(i) for i in range(*index.indices(len(self))))
        return self._all()[index]

    def __iter__(self) -> Iterator[Packet]:
        return (self._dissect(i) for i in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._all(), name)

    def _all(self) -> PacketList:
        if self._whole is None:
            self._whole = packet_list(iter(self))
        return self._whole

    def _dissect(self, i: int) -> Packet:
        table = self._table
        packet = dissect(table.bytes_of(i), int(self._link_types[i]))
        interface = table.interfaces[table.interface[i]]
        packet.time = scapy_time(int(table.time_ns[i]))
        packet.wirelen = int(table.original_bytes[i])
        packet.sniffed_on = interface.name or None
        return packet


def dissect(frame: bytes, link_type: int) -> Packet:
    """A frame as a scapy packet; Raw when scapy does not know the link type or stumbles."""
    layers = load_layers()
    layer = layers.get(link_type, layers[-1])
    try:
        return layer(frame)
    except (
        Exception
    ):  # whatever scapy meets in a damaged packet must not stop a reader of the others
        return layers[-1](frame)


@functools.cache
def load_layers() -> dict[int, Callable[[bytes], Packet]]:
    """Link type -> scapy's layer for it; -1 -> the layer for any other."""
    # These alone: scapy.all takes 2 s to import.
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
        RAW_BSD: ip,
        RAW_OPENBSD: ip,
        -1: Raw,
    }


def scapy_time(time_ns: int) -> Any:
    """Nanoseconds as the decimal seconds of scapy's packet.time."""
    from scapy.utils import EDecimal

    return EDecimal(time_ns).scaleb(-9)


def packet_list(packets: Iterator[Packet]) -> PacketList:
    """Packets as a scapy PacketList."""
    from scapy.plist import PacketList

    return PacketList(list(packets), "capture")
