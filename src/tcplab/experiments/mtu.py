"""MTU and MSS: what the size of a packet costs, and of what a packet consists.

J. Snader (Effective TCP/IP Programming) derives 1500 - 20 - 20 - 12 = 1448 and puts the speed of
his loopback interface down to its MTU; the author of a ChinaUnix blog (2006) sees 1448 bytes in
every large segment of his captures. Both are measured here, with and without what has been added
since, segmentation offload.

What the kernel says of the MSS is in tcplab.experiments.maxseg, and what a smaller MTU in the
middle of the path does in tcplab.experiments.path_mtu.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tcplab.checks import number, whole
from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.interfaces import one_host, set_mtu, set_offload
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab, Pair
from tcplab.models import Encapsulation, goodput_mbyte_s, header_share
from tcplab.models import mss_bytes as full_segment_bytes
from tcplab.programs import TcpBulkResult, tcp_bulk
from tcplab.tables import Column, Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "MTUS",
    "Mtu",
    "MtuRow",
    "PacketPart",
    "PacketParts",
    "WireRow",
    "measure",
    "measure_packet",
    "take_apart",
]

#: The least that every IPv4 host must take (RFC 791), Ethernet, jumbo frames, the text's loopback
#: interface, and Linux's.
MTUS: Final = (576, 1500, 9000, 16384, 65536)
WIRE_MTUS: Final = (576, 1500, 9000)
_MAX_PACKET_BYTES: Final = 65_535
_JUMBO: Final = 9000

#: A packet as loopback carries it: no Ethernet around it.
_ON_LOOPBACK: Final = Encapsulation(link="none")

_WRITE_BYTES: Final = 128 * 1024
_BULK_WRITES: Final = 512  # 64 MiB a run
_CAPTURED_WRITES: Final = 8  # 1 MiB
_WIRE_BUFFER_BYTES: Final = 256 * 1024  # keeps the wire busy, and does not fill its queue
_WIRE_BYTES: Final = 2_500_000
MAX_RUNS: Final = 1000


@dataclass(frozen=True, slots=True)
class MtuRow:
    """Bulk TCP on one host, through a loopback interface of some MTU.

    Attributes:
        mtu_bytes: of the interface.
        offload: whether TSO, GSO and GRO were on.
        mss_bytes: of the connection at the end (TCP_INFO).
        syn_mss_bytes: the MSS option that the SYN was seen to carry.
        mb_per_s: 10^6 bytes/s, run by run.
        cpu_s_per_gb: CPU time of both programs for 10^9 bytes, run by run.
        bytes: of a run.
        data_segments: that TCP counts for them, run by run (TCP_INFO, data_segs_out).
        captured_bytes: data in each packet of a shorter run, in order, as a capture shows them;
            without what was sent again.
        capture_drops: packets that the recorder lost.
    """

    mtu_bytes: int
    offload: bool
    mss_bytes: int
    syn_mss_bytes: int
    mb_per_s: Sequence[float]
    cpu_s_per_gb: Sequence[float]
    bytes: int
    data_segments: Sequence[int]
    captured_bytes: npt.NDArray[np.int32]
    capture_drops: int

    @property
    def derived_mss_bytes(self) -> int:
        """MTU - 20 - 20 - 12."""
        return full_segment_bytes(min(self.mtu_bytes, _MAX_PACKET_BYTES))

    @property
    def largest_captured_bytes(self) -> int:
        """The most data in one packet of the capture."""
        return int(self.captured_bytes.max())

    @property
    def header_percent(self) -> float:
        """IP, TCP and its options, of a full packet."""
        packet_bytes = min(self.mtu_bytes, _MAX_PACKET_BYTES)
        return 100 * header_share(self.derived_mss_bytes, packet_bytes, _ON_LOOPBACK)

    def row(self) -> dict[str, Any]:
        """One row of plain data; rates and CPU time are medians."""
        return {
            "variant": f"loopback {self.mtu_bytes}, offload {'on' if self.offload else 'off'}",
            "link": "loopback",
            "mtu_bytes": self.mtu_bytes,
            "offload": "on" if self.offload else "off",
            "derived_mss_bytes": self.derived_mss_bytes,
            "mss_bytes": self.mss_bytes,
            "syn_mss_bytes": self.syn_mss_bytes,
            "largest_captured_bytes": self.largest_captured_bytes,
            "header_percent": self.header_percent,
            "segments_per_mb": 1e6 * statistics.median(self.data_segments) / self.bytes,
            "captured_packets": len(self.captured_bytes),
            "captured_payload_bytes": int(self.captured_bytes.sum()),
            "mb_per_s": statistics.median(self.mb_per_s),
            "mb_per_s_min": min(self.mb_per_s),
            "mb_per_s_max": max(self.mb_per_s),
            "cpu_s_per_gb": statistics.median(self.cpu_s_per_gb),
        }


@dataclass(frozen=True, slots=True)
class WireRow:
    """Bulk TCP over a wire of a given rate, where the headers take their share of the time.

    Attributes:
        mtu_bytes: of both hosts' interfaces.
        rate_mbit: of the wire, 10^6 bit/s.
        goodput_mb_per_s: 10^6 bytes/s, run by run.
    """

    mtu_bytes: int
    rate_mbit: float
    goodput_mb_per_s: Sequence[float]

    @property
    def model_mb_per_s(self) -> float:
        """What headers and framing leave of the rate."""
        return goodput_mbyte_s(self.rate_mbit, self.mtu_bytes)

    @property
    def header_percent(self) -> float:
        """Of what occupies the wire: Ethernet with its framing, IP, TCP and 12 bytes of options."""
        return 100 * header_share(full_segment_bytes(self.mtu_bytes), self.mtu_bytes)

    def row(self) -> dict[str, Any]:
        """One row of plain data; the goodput is the median."""
        return {
            "variant": f"wire {self.mtu_bytes}",
            "link": f"{self.rate_mbit:g} Mbit/s",
            "mtu_bytes": self.mtu_bytes,
            "offload": "off",
            "derived_mss_bytes": full_segment_bytes(self.mtu_bytes),
            "header_percent": self.header_percent,
            "mb_per_s": statistics.median(self.goodput_mb_per_s),
            "mb_per_s_min": min(self.goodput_mb_per_s),
            "mb_per_s_max": max(self.goodput_mb_per_s),
            "model_mb_per_s": self.model_mb_per_s,
        }


@dataclass(frozen=True, slots=True)
class Mtu:
    """Every MTU, with and without offload."""

    experiment: ClassVar[str] = "mtu"
    columns: ClassVar[Sequence[Column]] = (
        Column("link", "link"),
        Column("mtu_bytes", "MTU", "d"),
        Column("offload", "offload"),
        Column("derived_mss_bytes", "MTU − 52", "d"),
        Column("mss_bytes", "MSS", "d"),
        Column("syn_mss_bytes", "in the SYN", "d"),
        Column("largest_captured_bytes", "largest captured", "d"),
        Column("header_percent", "headers (%)", ".2f"),
        Column("segments_per_mb", "segments/MB", ".0f"),
        Column("mb_per_s_min", "MB/s min", ".5g"),
        Column("mb_per_s", "median", ".5g"),
        Column("mb_per_s_max", "max", ".5g"),
        Column("model_mb_per_s", "derived", ".5g"),
        Column("cpu_s_per_gb", "CPU s/GB", ".2f"),
    )

    loopback: Sequence[MtuRow]
    wire: Sequence[WireRow]
    provenance: Mapping[str, Any]

    def of(self, mtu_bytes: int, *, offload: bool) -> MtuRow:
        """The row of an MTU.

        Raises:
            KeyError: it was not measured.
        """
        for each in self.loopback:
            if (each.mtu_bytes, each.offload) == (mtu_bytes, offload):
                return each
        raise KeyError((mtu_bytes, offload))

    def ratio(self, over_mtu: int, under_mtu: int, *, offload: bool) -> float:
        """How many times as fast the one MTU is as the other, of the median runs."""
        over, under = (self.of(mtu, offload=offload) for mtu in (over_mtu, under_mtu))
        return statistics.median(over.mb_per_s) / statistics.median(under.mb_per_s)

    def rows(self) -> list[dict[str, Any]]:
        """One row an MTU and offload, then one an MTU on the wire."""
        return [each.row() for each in self.loopback] + [each.row() for each in self.wire]

    def tables(self) -> tuple[Table, Table]:
        """Loopback and the wire, each with the columns that it has."""
        unknown_of_wire = {"mss_bytes", "syn_mss_bytes", "largest_captured_bytes"}
        unknown_of_wire |= {"segments_per_mb", "cpu_s_per_gb", "offload"}
        return (
            Table(
                [each for each in self.columns if each.key not in ("link", "model_mb_per_s")],
                [each.row() for each in self.loopback],
            ),
            Table(
                [each for each in self.columns if each.key not in unknown_of_wire],
                [each.row() for each in self.wire],
            ),
        )


@experiment("mtu")
def measure(
    mtus: Sequence[int] = MTUS,
    offloads: Sequence[bool] = (False, True),
    runs: int = 5,
    wire_mtus: Sequence[int] = WIRE_MTUS,
    rate_mbit: float = 100.0,
) -> Mtu:
    """Sends the same data with every MTU: on one host, where the CPU is the limit, and on a wire.

    Args:
        mtus: of the client's loopback interface, 128 to 65 536.
        offloads: with TSO, GSO and GRO off, on, or both.
        runs: rounds of all.
        wire_mtus: of both hosts on the wire, 128 to 9000.
        rate_mbit: of the wire, 1 to 1000 Mbit/s.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    _check(mtus, offloads, runs, wire_mtus, rate_mbit)
    cases = [(mtu, offload) for offload in offloads for mtu in mtus]
    bulk: dict[tuple[int, bool], list[TcpBulkResult]] = {case: [] for case in cases}
    goodput: dict[int, list[float]] = {mtu: [] for mtu in wire_mtus}
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(mtu=_JUMBO, rate_mbit=rate_mbit))
        localhost = one_host(lab)
        with Rounds(runs, "mtu") as rounds:
            for _round in rounds:
                done = {case: _loopback_run(localhost, *case) for case in cases}
                carried = {mtu: _wire_run(lab, mtu, rate_mbit) for mtu in wire_mtus}
                for case in cases:
                    bulk[case].append(done[case])
                for mtu in wire_mtus:
                    goodput[mtu].append(carried[mtu])
        rows = [_captured_row(localhost, case, bulk[case]) for case in cases]
        return Mtu(
            rows,
            [WireRow(mtu, rate_mbit, goodput[mtu]) for mtu in wire_mtus],
            provenance(
                lab,
                runs=rounds.done,
                interrupted=rounds.interrupted,
                write_bytes=_WRITE_BYTES,
                bytes_per_run=_WRITE_BYTES * _BULK_WRITES,
                wire_bytes_per_run=_WIRE_BYTES,
                wire_buffer_bytes=_WIRE_BUFFER_BYTES,
                congestion=lab.congestion,
                capture_drops=sum(row.capture_drops for row in rows),
            ),
        )


def _check(
    mtus: Sequence[int],
    offloads: Sequence[bool],
    runs: int,
    wire_mtus: Sequence[int],
    rate_mbit: float,
) -> None:
    whole("runs", runs, 1, MAX_RUNS, fix="five show the spread")
    # With less, TCP's smallest segment (88 bytes, TCP_MIN_MSS) would not fit.
    for mtu in mtus:
        whole("mtu", mtu, 128, 65_536, fix="an IP packet is at most 65535 bytes")
    for mtu in wire_mtus:
        whole("wire mtu", mtu, 128, _JUMBO, fix="the wire carries jumbo frames")
    number("rate_mbit", rate_mbit, 1, 1000, fix="a faster wire is limited by the machine")
    for name, given in (("mtu", mtus), ("offload", offloads)):
        if not given:
            raise ValueError(f"no {name} is given; give at least one")
        if len(set(given)) < len(given):
            raise ValueError(f"an {name} is given twice: {', '.join(map(str, given))}")


def _loopback_run(
    localhost: Pair, mtu_bytes: int, offload: bool, writes: int = _BULK_WRITES
) -> TcpBulkResult:
    set_mtu(localhost.client, mtu_bytes)
    set_offload(localhost.client, offload)
    return tcp_bulk(
        localhost, write_bytes=_WRITE_BYTES, count=writes, sndbuf_bytes=None, rcvbuf_bytes=None
    )


def _wire_run(lab: Lab, mtu_bytes: int, rate_mbit: float) -> float:
    """Goodput in 10^6 bytes/s."""
    for host in (lab.client, lab.server):
        set_mtu(host, mtu_bytes)
    # In one second at most, however slow the wire.
    count = max(100, int(min(_WIRE_BYTES, rate_mbit * 1e6 / 8) / 1440))
    done = tcp_bulk(
        lab,
        write_bytes=1440,
        count=count,
        sndbuf_bytes=_WIRE_BUFFER_BYTES,
        rcvbuf_bytes=_WIRE_BUFFER_BYTES,
    )
    return done.source.mb_per_s


def _captured_row(
    localhost: Pair, case: tuple[int, bool], results: Sequence[TcpBulkResult]
) -> MtuRow:
    """The row, with a capture of a shorter run: to record takes CPU time that the others need."""
    import numpy as np

    mtu_bytes, offload = case
    with localhost.client.capture() as capture:
        _loopback_run(localhost, mtu_bytes, offload, _CAPTURED_WRITES)
    with capture:
        segments, drops = capture.segments, capture.drops or 0
    # A busy machine makes TCP send a segment again now and then, which is not of the data's size.
    data = segments.data("client", retransmissions=False)
    return MtuRow(
        mtu_bytes=mtu_bytes,
        offload=offload,
        mss_bytes=int(results[0].source.tcp_info["snd_mss_bytes"]),
        syn_mss_bytes=int(segments.sent_by("client")["mss"].max()),
        mb_per_s=[each.source.mb_per_s for each in results],
        cpu_s_per_gb=[
            (each.source.usage.cpu_s + each.sink.usage.cpu_s) * 1e9 / each.source.bytes
            for each in results
        ],
        bytes=results[0].source.bytes,
        data_segments=[int(each.source.tcp_info["data_segs_out"]) for each in results],
        captured_bytes=np.asarray(data["payload_bytes"], dtype=np.int32),
        capture_drops=drops,
    )


# ---- a packet taken apart ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PacketPart:
    """A part of a packet, in the order of the bytes.

    Attributes:
        name: "IP header", "TCP header", an option's name, "data".
        bytes: its length.
        says: what it says, where that matters here.
    """

    name: str
    bytes: int
    says: str = ""


@dataclass(frozen=True, slots=True)
class PacketParts:
    """The SYN of a connection, and its first full packet."""

    experiment: ClassVar[str] = "packet-headers"
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
        """What the SYN announces."""
        return next(int(part.says) for part in self.syn if part.name == "option MSS")

    def rows(self) -> list[dict[str, Any]]:
        """One row a part, and the sum of each packet."""
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
def measure_packet(mtu_bytes: int = 1500) -> PacketParts:
    """Takes apart the SYN of a connection and its first full packet, with scapy.

    Args:
        mtu_bytes: of both hosts' interfaces, 128 to 9000.

    Raises:
        ValueError: the MTU is out of range.
        LabError: no laboratory can be made here.
    """
    whole("mtu_bytes", mtu_bytes, 128, _JUMBO, fix="the wire carries jumbo frames")
    with Lab(mtu=mtu_bytes) as lab:
        with lab.client.capture(snaplen=_JUMBO + 14) as capture:
            tcp_bulk(lab, write_bytes=2 * mtu_bytes, count=10)
        with capture:
            packets = [each for each in capture.packets if each["IP"].src == lab.client.address]
            syn = next(each for each in packets if each["TCP"].flags == "S")
            full = max(packets, key=lambda each: int(each["IP"].len))
            parts = take_apart(syn), take_apart(full)
        return PacketParts(mtu_bytes, *parts, provenance(lab, capture_drops=capture.drops))


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
