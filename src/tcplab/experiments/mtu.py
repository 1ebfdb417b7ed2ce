"""Measure the cost of small packets, on one host and on a link.

J. Snader (Effective TCP/IP Programming) derives 1500 - 20 - 20 - 12 = 1448 and attributes the speed
of his loopback interface to its MTU. The author of a ChinaUnix blog (2006) finds 1448 bytes in
every large segment of his captures. Both claims are tested here, with and without offload.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, cast

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.interface_settings import MAX_MTU, set_mtu, set_offload
from tcplab.experiments.lab_loopback import LabLoopback
from tcplab.experiments.parameters import RateMbit, Runs
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import (
    Variant,
    column,
    computed,
    derived,
    on_off,
    spread,
    spread_cells,
)
from tcplab.lab import Lab, Network
from tcplab.models import Encapsulation, goodput_mbyte_s, header_share
from tcplab.models import mss_bytes as full_segment_bytes
from tcplab.programs import TcpBulkResult, tcp_bulk
from tcplab.tables import Column, Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: The size that every IPv4 host must accept (RFC 791), and the MTUs of Ethernet, jumbo frames and
#: the loopback interfaces of Snader and of Linux.
MTUS: Final = (576, 1500, 9000, 16384, 65536)
WIRE_MTUS: Final = (576, 1500, 9000)
_JUMBO: Final = 9000

_ON_LOOPBACK: Final = Encapsulation(link="none")

_WRITE_BYTES: Final = 128 * 1024
_BULK_WRITES: Final = 512  # 64 MiB per run
_CAPTURED_WRITES: Final = 8  # 1 MiB
_WIRE_BUFFER_BYTES: Final = 256 * 1024  # keeps the link busy without filling its queue
_WIRE_BYTES: Final = 2_500_000


class LoopbackMtu(Variant, key=("mtu_bytes", "offload")):
    """Bulk TCP through the loopback interface of one host, with one MTU."""

    mtu_bytes: int
    offload: bool = column(show=on_off)  #: True if TSO, GSO and GRO are on
    mss_bytes: int  #: MSS in TCP_INFO at the end of a run
    syn_mss_bytes: int  #: the MSS option in the SYN
    mb_per_s: Sequence[float] = spread()
    cpu_s_per_gb: Sequence[float] = column(show=statistics.median)  #: CPU time of both programs
    bytes: int
    data_segments: Sequence[int]  #: number sent in each run, from TCP_INFO
    #: data in each captured packet of a shorter run, in order, without retransmissions
    captured_bytes: npt.NDArray[np.int32]

    @derived()
    def derived_mss_bytes(self) -> int:
        return full_segment_bytes(min(self.mtu_bytes, MAX_MTU))

    @derived()
    def header_percent(self) -> float:
        """The percentage of a full packet that IP and TCP headers with options take."""
        packet_bytes = min(self.mtu_bytes, MAX_MTU)
        return 100 * header_share(self.derived_mss_bytes, packet_bytes, _ON_LOOPBACK)

    link = computed(lambda _: "loopback")
    segments_per_mb = computed(lambda run: 1e6 * statistics.median(run.data_segments) / run.bytes)
    captured_packets = computed(lambda run: len(run.captured_bytes))
    captured_payload_bytes = computed(lambda run: int(run.captured_bytes.sum()))
    largest_captured_bytes = computed(lambda run: int(run.captured_bytes.max()))

    @property
    def label(self) -> str:
        return f"loopback {self.mtu_bytes}, offload {on_off(self.offload)}"


class WireMtu(Variant):
    """Bulk TCP over a link of a given rate, with one MTU."""

    mtu_bytes: int  #: MTU of both hosts' interfaces
    rate_mbit: float
    goodput_mb_per_s: Sequence[float]

    @property
    def model_mb_per_s(self) -> float:
        return goodput_mbyte_s(self.rate_mbit, self.mtu_bytes)

    @property
    def header_percent(self) -> float:
        """The percentage that headers, framing and 12 bytes of options take on the wire."""
        return 100 * header_share(full_segment_bytes(self.mtu_bytes), self.mtu_bytes)

    def row(self) -> dict[str, Any]:
        """Return a row for those columns of the table that apply to a link."""
        return {
            "variant": f"wire {self.mtu_bytes}",
            "link": f"{self.rate_mbit:g} Mbit/s",
            "mtu_bytes": self.mtu_bytes,
            "offload": "off",
            "derived_mss_bytes": full_segment_bytes(self.mtu_bytes),
            "header_percent": self.header_percent,
            **spread_cells("mb_per_s", self.goodput_mb_per_s),
            "model_mb_per_s": self.model_mb_per_s,
        }


class Mtu(Result[LoopbackMtu | WireMtu]):
    """Runs with every MTU, on loopback with and without offload, and on the link.

    The key is (MTU, offload) for loopback, and the MTU for the link.
    """

    columns: ClassVar[Sequence[Column]] = (
        Column("link", "link", is_setting=True),
        Column("mtu_bytes", "MTU", "d"),
        Column("offload", "offload", is_setting=True),
        Column("derived_mss_bytes", "MTU − 52", "d"),
        Column("mss_bytes", "MSS", "d"),
        Column("syn_mss_bytes", "MSS in the SYN", "d"),
        Column("largest_captured_bytes", "largest captured", "d"),
        Column("header_percent", "headers (%)", ".2f"),
        Column("segments_per_mb", "segments/MB", ".0f"),
        Column("mb_per_s_min", "MB/s min", ".5g"),
        Column("mb_per_s", "MB/s", ".5g"),
        Column("mb_per_s_max", "max", ".5g"),
        Column("model_mb_per_s", "model (MB/s)", ".5g"),
        Column("cpu_s_per_gb", "CPU s/GB", ".2f"),
    )

    @property
    def loopback(self) -> list[LoopbackMtu]:
        return [run for run in self.variants if isinstance(run, LoopbackMtu)]

    @property
    def wire(self) -> list[WireMtu]:
        return [run for run in self.variants if isinstance(run, WireMtu)]

    def of(self, mtu_bytes: int, *, offload: bool) -> LoopbackMtu:
        """Return the variant on loopback with this MTU and offload."""
        return cast(LoopbackMtu, self[mtu_bytes, offload])

    def ratio(self, over_mtu: int, under_mtu: int, *, offload: bool) -> float:
        """Return the ratio of the median throughputs on loopback at over_mtu and under_mtu."""
        over, under = (self.of(mtu, offload=offload) for mtu in (over_mtu, under_mtu))
        return statistics.median(over.mb_per_s) / statistics.median(under.mb_per_s)

    def tables(self) -> tuple[Table, Table]:
        """Return a table for loopback and one for the link, each with its own columns."""
        loopback, wire = self.loopback, self.wire
        return self._table(loopback, without="link"), self._table(wire, without="offload")

    def _table(self, variants: Sequence[Variant], without: str) -> Table:
        rows = [variant.row() for variant in variants]
        columns = [
            column
            for column in self.columns
            if column.key != without and any(row.get(column.key) is not None for row in rows)
        ]
        return Table(columns, rows)


@experiment("mtu")
def measure(
    mtus: Annotated[Sequence[int], Between(128, 65_536, "bytes")] = MTUS,
    offloads: Sequence[bool] = (False, True),
    runs: Runs = 5,
    wire_mtus: Annotated[Sequence[int], Between(128, _JUMBO, "bytes")] = WIRE_MTUS,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 100.0,
) -> Mtu:
    """Measure throughput and the cost of headers with several MTUs, on loopback and on a link.

    On loopback, the CPU limits the throughput. On the link, its rate does.

    Args:
        mtus: MTUs of the loopback interface
        offloads: TSO, GSO and GRO of the loopback interface, on or off
        wire_mtus: MTUs of both hosts' interfaces on the link
    """
    cases = [(mtu, offload) for offload in offloads for mtu in mtus]
    with Lab(mtu=_JUMBO, rate_mbit=rate_mbit) as lab, LabLoopback(lab) as localhost:
        work: dict[Any, Callable[[], TcpBulkResult]] = {
            case: partial(_loopback_run, localhost, *case) for case in cases
        }
        work |= {mtu: partial(_wire_run, lab, mtu, rate_mbit) for mtu in wire_mtus}
        results, done = in_rounds("mtu", runs, list(work), lambda key: work[key]())
        loopback = [_loopback_mtu(localhost, *case, results[case]) for case in cases]
        wire = [
            WireMtu(mtu, rate_mbit, [result.source.mb_per_s for result in results[mtu]])
            for mtu in wire_mtus
        ]
        return Mtu(
            [*loopback, *wire],
            provenance(
                lab,
                write_bytes=_WRITE_BYTES,
                bytes_per_run=_WRITE_BYTES * _BULK_WRITES,
                wire_bytes_per_run=_WIRE_BYTES,
                wire_buffer_bytes=_WIRE_BUFFER_BYTES,
                **done,
            ),
        )


def _loopback_run(
    localhost: Network, mtu_bytes: int, offload: bool, writes: int = _BULK_WRITES
) -> TcpBulkResult:
    set_mtu(localhost.client, mtu_bytes)
    set_offload(localhost.client, offload)
    return tcp_bulk(
        localhost, write_bytes=_WRITE_BYTES, count=writes, sndbuf_bytes=None, rcvbuf_bytes=None
    )


def _wire_run(lab: Lab, mtu_bytes: int, rate_mbit: float) -> TcpBulkResult:
    for host in (lab.client, lab.server):
        set_mtu(host, mtu_bytes)
    # Over a slow link, less data is sent, so that a run takes about a second at most.
    count = max(100, int(min(_WIRE_BYTES, rate_mbit * 1e6 / 8) / 1440))
    return tcp_bulk(
        lab,
        write_bytes=1440,
        count=count,
        sndbuf_bytes=_WIRE_BUFFER_BYTES,
        rcvbuf_bytes=_WIRE_BUFFER_BYTES,
    )


def _loopback_mtu(
    localhost: Network, mtu_bytes: int, offload: bool, results: Sequence[TcpBulkResult]
) -> LoopbackMtu:
    """Return the variant. Only a further, shorter run is captured, as capturing takes CPU time."""
    import numpy as np

    with localhost.client.capture() as capture:
        _loopback_run(localhost, mtu_bytes, offload, _CAPTURED_WRITES)
    segments = segments_of(capture)
    data = segments.data("client", retransmissions=False)
    return LoopbackMtu(
        mtu_bytes=mtu_bytes,
        offload=offload,
        mss_bytes=int(results[0].source.tcp_info["snd_mss_bytes"]),
        syn_mss_bytes=int(segments.sent_by("client")["mss"].max()),
        mb_per_s=[result.source.mb_per_s for result in results],
        cpu_s_per_gb=[
            (result.source.usage.cpu_s + result.sink.usage.cpu_s) * 1e9 / result.source.bytes
            for result in results
        ],
        bytes=results[0].source.bytes,
        data_segments=[int(result.source.tcp_info["data_segs_out"]) for result in results],
        captured_bytes=np.asarray(data["payload_bytes"], dtype=np.int32),
    )
