"""A packet taken apart: headers and options of a connection's SYN and of its first full packet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from tcplab.experiments import Between, experiment, provenance
from tcplab.lab import Lab
from tcplab.programs import tcp_bulk
from tcplab.tables import Column

_ETHERNET_HEADER_BYTES: Final = 14


@dataclass(frozen=True, slots=True)
class PacketPart:
    """A part of a packet, in the order of the bytes."""

    name: str  #: "IP header", "TCP header", an option's name, "data"
    bytes: int  #: Its length
    says: str = ""  #: What it says, where that matters here


@dataclass(frozen=True, slots=True)
class PacketHeaders:
    """The SYN of a connection, and its first full packet."""

    columns: ClassVar[Sequence[Column]] = (
        Column("packet", "packet"),
        Column("part", "part"),
        Column("bytes", "bytes", "d"),
        Column("says", "says"),
    )

    mtu_bytes: int
    syn: Sequence[PacketPart]
    full: Sequence[PacketPart]
    provenance: Mapping[str, Any]

    @property
    def packet_bytes(self) -> int:
        """Length of the full IP packet."""
        return sum(part.bytes for part in self.full)

    @property
    def data_bytes(self) -> int:
        """Data in the full packet: the segment's size."""
        return self.full[-1].bytes

    @property
    def mss_option_bytes(self) -> int:
        """The MSS that the SYN announces."""
        return next(int(part.says) for part in self.syn if part.name == "option MSS")

    def rows(self) -> list[dict[str, Any]]:
        """One row per part, and the sum of each packet."""
        rows = []
        for packet, parts in (("SYN", self.syn), ("full packet", self.full)):
            for part in parts:
                rows.append(_part_row(packet, part.name, part.bytes, part.says))
            rows.append(_part_row(packet, "in all", sum(part.bytes for part in parts), ""))
        return rows


def _part_row(packet: str, part: str, size_bytes: int, says: str) -> dict[str, Any]:
    variant = f"{packet}: {part}"
    return {"variant": variant, "packet": packet, "part": part, "bytes": size_bytes, "says": says}


@experiment("packet-headers")
def measure(mtu_bytes: Annotated[int, Between(128, 9000, "bytes")] = 1500) -> PacketHeaders:
    """Headers and options of a SYN and of a full packet, byte by byte.

    Args:
        mtu_bytes: MTU of both hosts' interfaces.
    """
    with Lab(mtu=mtu_bytes) as lab:
        with lab.client.capture(snaplen=mtu_bytes + _ETHERNET_HEADER_BYTES) as capture:
            tcp_bulk(lab, write_bytes=2 * mtu_bytes, count=10)
        with capture:
            packets = [each for each in capture.packets() if each["IP"].src == lab.client.address]
            syn = next(each for each in packets if each["TCP"].flags == "S")
            full = max(packets, key=lambda each: int(each["IP"].len))
            parts = take_apart(syn), take_apart(full)
        return PacketHeaders(mtu_bytes, *parts, provenance(lab))


#: Of the options whose value scapy has decoded (RFC 9293, 3.1; RFC 2018; RFC 7323).
_OPTION_BYTES: Final = {"NOP": 1, "EOL": 1, "MSS": 4, "WScale": 3, "SAckOK": 2, "Timestamp": 10}


def take_apart(packet: Any) -> list[PacketPart]:
    """The parts of a TCP packet, from the IP header to the data; the packet is scapy's."""
    ip, tcp = packet["IP"], packet["TCP"]
    parts = [PacketPart("IP header", 4 * ip.ihl), PacketPart("TCP header", 20)]
    for name, value in tcp.options:
        length = _OPTION_BYTES.get(name) or 2 + len(value)
        says = str(value) if name in ("MSS", "WScale") else ""
        parts.append(PacketPart(f"option {name}", length, says))
    parts.append(PacketPart("data", ip.len - 4 * ip.ihl - 4 * tcp.dataofs))
    return parts
