"""Send the same bytes by TCP and UDP, with few and with many bytes per system call.

J. Snader's text on tables 2.2 and 2.3 (Effective TCP/IP Programming) attributes TCP's speed to the
joining of small blocks into segments. Here UDP may join small blocks as well.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

from tcplab.experiments import Between, Result, Variant, column, experiment, provenance, spread
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Network
from tcplab.programs import TcpBulkResult, UdpBulkResult, tcp_bulk, udp_bulk
from tcplab.tables import Column

_MAX_DATAGRAM_BYTES: Final = 65_507
_MAX_BATCH: Final = 64  # maximum number of datagrams in one call with UDP_SEGMENT
_LARGE_BUFFER_BYTES: Final = 8 << 20


def _middle(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


class BatchingVariant(Variant):
    """One way of passing the same bytes to the kernel."""

    name: str  #: "udp", "udp-gso", "udp-gso-gro", "tcp" or "tcp-large"
    how: str = column("method")
    bytes_per_call: int = column("bytes per call", ",d")
    calls: int = column("calls", ",d")  #: number of calls that send data, in one run
    mb_per_s: Sequence[float] = spread("min", "MB/s", "max", ",.0f")  #: rate at the sink
    cpu_s_per_gb: Sequence[float] = column("CPU s/GB", ".2f", show=_middle)  #: sum of both ends
    lost_percent: Sequence[float] = column("lost (%)", ".1f", show=_middle)  #: empty for TCP


class Batching(Result[BatchingVariant]):
    """TCP and UDP with few and with many bytes per call."""

    @property
    def columns(self) -> Sequence[Column]:
        *first, cpu, lost = super().columns
        return (*first, Column("times_plain", "× plain UDP", ".1f"), cpu, lost)

    def times_plain(self, name: str) -> float:
        """Return a method's rate at the sink, divided by that of plain UDP."""
        return statistics.median(self[name].mb_per_s) / statistics.median(self["udp"].mb_per_s)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per method, with its rate divided by that of plain UDP."""
        return [case.row() | {"times_plain": self.times_plain(case.name)} for case in self.variants]


@experiment("udp-batching", on_loopback=True)
def measure(
    runs: Annotated[int, Between(1, 10_000), "rounds of all methods"] = 5,
    count: Annotated[int, Between(1, 1_000_000), "datagrams per run"] = 50_000,
    # At least two datagrams of the maximum size fit into one call.
    datagram_bytes: Annotated[int, Between(16, 32_000, "bytes")] = 1440,
) -> Batching:
    """Send by TCP and UDP on one machine, with few and with many bytes per system call.

    With UDP_SEGMENT a program sends up to 64 datagrams in one call, and they pass through the stack
    as one packet. With UDP_GRO the receiver takes several datagrams in one call. TCP does both by
    default.

    Args:
        datagram_bytes: size of a datagram, and of TCP's small writes
    """
    with open_loopback() as network:
        methods = _methods(network, count, datagram_bytes)
        results, done = in_rounds(
            "udp-batching", runs, list(methods), lambda name: methods[name][1]()
        )
        return Batching(
            [_variant(name, how, results[name]) for name, (how, _run) in methods.items()],
            provenance(
                network,
                count=count,
                datagram_bytes=datagram_bytes,
                rcvbuf_bytes=_LARGE_BUFFER_BYTES,
                **done,
            ),
        )


_Run = Callable[[], TcpBulkResult | UdpBulkResult]


def _methods(network: Network, count: int, datagram_bytes: int) -> Mapping[str, tuple[str, _Run]]:
    def udp(gso: bool, gro: bool) -> _Run:
        return lambda: udp_bulk(
            network,
            datagram_bytes=datagram_bytes,
            count=count,
            sndbuf_bytes=None,
            rcvbuf_bytes=_LARGE_BUFFER_BYTES,
            gso=gso,
            gro=gro,
        )

    def tcp(write_bytes: int) -> _Run:
        return lambda: tcp_bulk(
            network,
            write_bytes=write_bytes,
            count=max(1, count * datagram_bytes // write_bytes),
            sndbuf_bytes=None,
            rcvbuf_bytes=None,
        )

    batch_bytes = _batch(datagram_bytes) * datagram_bytes
    return {
        "udp": (f"UDP, {datagram_bytes} bytes per call", udp(False, False)),
        "udp-gso": ("UDP, batched by the sender (UDP_SEGMENT)", udp(True, False)),
        "udp-gso-gro": ("UDP, batched by both (and UDP_GRO)", udp(True, True)),
        "tcp": (f"TCP, {datagram_bytes} bytes per call", tcp(datagram_bytes)),
        "tcp-large": (f"TCP, {batch_bytes} bytes per call", tcp(batch_bytes)),
    }


def _batch(datagram_bytes: int) -> int:
    return min(_MAX_BATCH, _MAX_DATAGRAM_BYTES // datagram_bytes)


def _variant(
    name: str, how: str, results: Sequence[TcpBulkResult | UdpBulkResult]
) -> BatchingVariant:
    per_call, calls = _calls(results[0])
    return BatchingVariant(
        name,
        how,
        bytes_per_call=per_call,
        calls=calls,
        mb_per_s=[result.sink.mb_per_s for result in results],
        cpu_s_per_gb=[
            (result.source.usage.cpu_s + result.sink.usage.cpu_s) * 1e9 / max(result.sink.bytes, 1)
            for result in results
        ],
        lost_percent=[
            100 * result.sink.lost / result.sink.sent
            for result in results
            if isinstance(result, UdpBulkResult)
        ],
    )


def _calls(result: TcpBulkResult | UdpBulkResult) -> tuple[int, int]:
    """Return the source's bytes per call (except perhaps the last) and number of calls."""
    if isinstance(result, TcpBulkResult):
        return result.source.write_bytes, result.source.system_calls
    source = result.source
    batch = _batch(source.datagram_bytes) if source.gso else 1
    # The end markers carry no data.
    calls = source.system_calls - source.end_markers
    return min(batch * source.datagram_bytes, source.bytes), calls
