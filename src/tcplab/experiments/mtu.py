"""Measure the cost of small packets on one host.

J. Snader (Effective TCP/IP Programming) derives 1500 - 20 - 20 - 12 = 1448 and attributes the speed
of his loopback interface to its MTU. The author of a ChinaUnix blog (2006) finds 1448 bytes in
every large segment of his captures. Both claims are tested here, with and without offload.
"""

import statistics
from collections.abc import Sequence
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.interface_settings import MAX_MTU, set_mtu, set_offloads
from tcplab.experiments.mode import LabLoopback
from tcplab.experiments.parameters import Runs
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import Variant, column, computed, derived, on_off, spread
from tcplab.lab import Lab, Network
from tcplab.models import Encapsulation, header_share
from tcplab.models import mss_bytes as full_segment_bytes
from tcplab.programs import TcpBulkResult, tcp_bulk

#: The size that every IPv4 host must accept (RFC 791), and the MTUs of Ethernet, jumbo frames and
#: the loopback interfaces of Snader and of Linux.
MTUS: Final = (576, 1500, 9000, 16384, 65536)

_ON_LOOPBACK: Final = Encapsulation(link="none")

_WRITE_BYTES: Final = 128 * 1024
_BULK_WRITES: Final = 512  # 64 MiB per run
_CAPTURED_WRITES: Final = 8  # 1 MiB


class LoopbackMtu(Variant, key=("mtu_bytes", "offload")):
    """Bulk TCP through the loopback interface of one host, with one MTU."""

    mtu_bytes: int = column("MTU", "d")
    offload: bool = column("offload", is_setting=True, show=on_off)  #: TSO, GSO and GRO

    @derived("MTU − 52", "d")
    def derived_mss_bytes(self) -> int:
        return full_segment_bytes(min(self.mtu_bytes, MAX_MTU))

    mss_bytes: int = column("MSS", "d")  #: MSS in TCP_INFO at the end of a run
    syn_mss_bytes: int = column("MSS in the SYN", "d")
    largest_captured_bytes = computed(
        lambda run: int(run.captured_bytes.max()), "largest captured", "d"
    )

    @derived("headers (%)", ".2f")
    def header_percent(self) -> float:
        packet_bytes = min(self.mtu_bytes, MAX_MTU)
        return 100 * header_share(self.derived_mss_bytes, packet_bytes, _ON_LOOPBACK)

    mb_per_s: Sequence[float] = spread("MB/s min", "MB/s", "max")
    #: CPU time of both programs
    cpu_s_per_gb: Sequence[float] = column("CPU s/GB", ".2f", show=statistics.median)
    #: data in each captured packet of a shorter run, in order, without retransmissions
    captured_bytes: npt.NDArray[np.int32]

    @property
    def label(self) -> str:
        return f"loopback {self.mtu_bytes}, offload {on_off(self.offload)}"


class Mtu(Result[LoopbackMtu]):
    """Runs with every MTU, with and without offload. The key is (MTU, offload)."""

    def ratio(self, over_mtu: int, under_mtu: int, *, offload: bool) -> float:
        """Return the ratio of the median throughputs at over_mtu and under_mtu."""
        over, under = (self[mtu, offload].mb_per_s for mtu in (over_mtu, under_mtu))
        return statistics.median(over) / statistics.median(under)


@experiment(
    "mtu",
    figure=("mb_per_s", "cpu_s_per_gb"),
    finding="Per GB, {cpu_s_per_gb.most} takes {cpu_s_per_gb.ratio} times the CPU "
    "time of {cpu_s_per_gb.least}",
)
def measure(
    mtus: Annotated[Sequence[int], Between(128, 65_536, "bytes"), "MTUs of lo"] = MTUS,
    offloads: Annotated[Sequence[bool], "TSO, GSO and GRO of lo"] = (False, True),
    runs: Runs = 5,
) -> Mtu:
    """Measure throughput and the CPU's cost of headers with several MTUs, within one host."""
    cases = [(mtu, offload) for offload in offloads for mtu in mtus]
    with Lab() as lab, LabLoopback(lab) as localhost:
        results, done = in_rounds(runs, cases, lambda case: _loopback_run(localhost, *case))
        variants = [_variant(localhost, *case, results[case]) for case in cases]
        sizes = {"write_bytes": _WRITE_BYTES, "bytes_per_run": _WRITE_BYTES * _BULK_WRITES}
        return Mtu(variants, provenance(lab, **sizes, **done))


def _loopback_run(
    localhost: Network, mtu_bytes: int, offload: bool, writes: int = _BULK_WRITES
) -> TcpBulkResult:
    set_mtu(localhost.client, mtu_bytes)
    set_offloads(localhost.client, tso=offload, gso=offload, gro=offload)
    return tcp_bulk(
        localhost, write_bytes=_WRITE_BYTES, count=writes, sndbuf_bytes=None, rcvbuf_bytes=None
    )


def _variant(
    localhost: Network, mtu_bytes: int, offload: bool, results: Sequence[TcpBulkResult]
) -> LoopbackMtu:
    """Return the variant. Only a further, shorter run is captured, as capturing takes CPU time."""
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
        captured_bytes=np.asarray(data["payload_bytes"], dtype=np.int32),
    )
