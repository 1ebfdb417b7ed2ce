"""Send the same bytes by TCP and UDP, with few and with many bytes per system call.

J. Snader's text on tables 2.2 and 2.3 (Effective TCP/IP Programming) attributes TCP's speed to the
joining of small blocks into segments. Here UDP may join small blocks as well.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Final

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.mode import open_loopback
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import Variant, column, computed, spread
from tcplab.lab import Network
from tcplab.programs import TcpBulkResult, UdpBulkResult, tcp_bulk, udp_bulk
from tcplab.programs.bulk import TcpSource

_COUNT: Final = 50_000  # datagrams per run
_DATAGRAM_BYTES: Final = 1440  # also the size of TCP's small writes
_BATCH: Final = 65_507 // _DATAGRAM_BYTES  # number of datagrams in one call with UDP_SEGMENT
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
    times_plain = computed(lambda case: case.within.times_plain(case.name), "× plain UDP", ".1f")
    cpu_s_per_gb: Sequence[float] = column("CPU s/GB", ".2f", show=_middle)  #: sum of both ends
    lost_percent: Sequence[float] = column("lost (%)", ".1f", show=_middle)  #: empty for TCP


class Batching(Result[BatchingVariant]):
    """TCP and UDP with few and with many bytes per call."""

    def times_plain(self, name: str) -> float:
        """Return a method's rate at the sink, divided by that of plain UDP."""
        return statistics.median(self[name].mb_per_s) / statistics.median(self["udp"].mb_per_s)


_udp: Final = partial(udp_bulk, count=_COUNT, rcvbuf_bytes=_LARGE_BUFFER_BYTES)
_tcp: Final = partial(tcp_bulk, sndbuf_bytes=None, rcvbuf_bytes=None)

#: The description and the call of each method.
_METHODS: Final[Mapping[str, tuple[str, Callable[[Network], TcpBulkResult | UdpBulkResult]]]] = {
    "udp": (f"UDP, {_DATAGRAM_BYTES} bytes per call", _udp),
    "udp-gso": ("UDP, batched by the sender (UDP_SEGMENT)", partial(_udp, gso=True)),
    "udp-gso-gro": ("UDP, batched by both (and UDP_GRO)", partial(_udp, gso=True, gro=True)),
    "tcp": (
        f"TCP, {_DATAGRAM_BYTES} bytes per call",
        partial(_tcp, write_bytes=_DATAGRAM_BYTES, count=_COUNT),
    ),
    "tcp-large": (
        f"TCP, {_BATCH * _DATAGRAM_BYTES} bytes per call",
        partial(_tcp, write_bytes=_BATCH * _DATAGRAM_BYTES, count=_COUNT // _BATCH),
    ),
}


@experiment(
    "udp-batching",
    on_loopback=True,
    figure=("mb_per_s", "cpu_s_per_gb"),
    finding="In the same time, {most} sends {ratio} times as much as {least}",
)
def measure(runs: Annotated[int, Between(1, 10_000), "rounds of all methods"] = 5) -> Batching:
    """Send by TCP and UDP on one machine, with few and with many bytes per system call.

    With UDP_SEGMENT a program sends up to 64 datagrams in one call, and they pass through the stack
    as one packet. With UDP_GRO the receiver takes several datagrams in one call. TCP does both by
    default.
    """
    with open_loopback() as network:
        results, done = in_rounds(runs, list(_METHODS), lambda name: _METHODS[name][1](network))
        sizes = {"datagram_bytes": _DATAGRAM_BYTES, "rcvbuf_bytes": _LARGE_BUFFER_BYTES}
        return Batching(
            [_variant(name, results[name]) for name in _METHODS],
            provenance(network, count=_COUNT, **sizes, **done),
        )


def _variant(name: str, results: Sequence[TcpBulkResult | UdpBulkResult]) -> BatchingVariant:
    source = results[0].source
    if isinstance(source, TcpSource):
        per_call, calls = source.write_bytes, source.system_calls
    else:
        per_call = _DATAGRAM_BYTES * (_BATCH if source.gso else 1)
        calls = source.system_calls - source.end_markers  # the end markers carry no data
    return BatchingVariant(
        name,
        _METHODS[name][0],
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
