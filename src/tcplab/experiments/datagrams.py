"""Datagrams: where those go that are lost on one machine, and what handing over many at once does.

Two questions behind tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming. The text puts
the loss down to exhausted buffers: :func:`measure_receive_buffers` counts what the receive buffer
had no room for, and takes a larger one. It puts TCP's speed down to putting several small blocks
into one segment, which UDP does not: :func:`measure_batching` lets UDP do it.
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tcplab.checks import whole
from tcplab.experiments import provenance, spread
from tcplab.experiments.declaration import experiment
from tcplab.experiments.lab_loopback import LabLoopback
from tcplab.experiments.mode import open_network
from tcplab.experiments.progress import Rounds
from tcplab.lab import Host, Lab, Loopback
from tcplab.programs import TcpBulkResult, UdpBulkResult, tcp_bulk, udp_bulk
from tcplab.tables import Column

__all__ = [
    "Batching",
    "BatchingVariant",
    "ReceiveBuffer",
    "ReceiveBuffers",
    "fill_receive_buffer",
    "measure_batching",
    "measure_receive_buffers",
]

#: What udpsource can send: its header is 16 bytes, and an IP packet ends at 65535.
MIN_DATAGRAM_BYTES, MAX_DATAGRAM_BYTES = 16, 65_507
MAX_DATAGRAMS: Final = 1_000_000
MAX_RUNS: Final = 10_000

# ---- where the datagrams go ----------------------------------------------------------------------

DATAGRAMS: Final = 3000
DEFAULT_BUFFERS: Final = (4096, 32_768, 262_144, 8_388_608)


@dataclass(frozen=True, slots=True)
class ReceiveBuffer:
    """A receive buffer: what it holds, and what got lost with it.

    Attributes:
        requested_bytes: given to setsockopt(SO_RCVBUF).
        granted_bytes: what getsockopt returned: twice as much, and at most what the system allows.
        room_datagrams: how many arrived at a socket that nobody read from.
        sent: datagrams of a run with a sink that reads as fast as it can.
        lost: of these that did not arrive, run by run.
        drops: what the sink's kernel threw away because the buffer was full, run by run.
    """

    requested_bytes: int
    granted_bytes: int
    room_datagrams: int
    sent: int
    lost: Sequence[int]
    drops: Sequence[int]


@dataclass(frozen=True, slots=True)
class ReceiveBuffers:
    """The same datagrams into receive buffers of different sizes."""

    experiment: ClassVar[str] = "udp-receive-buffers"
    columns: ClassVar[Sequence[Column]] = (
        Column("requested_bytes", "SO_RCVBUF (bytes)", ",d"),
        Column("granted_bytes", "granted (bytes)", ",d"),
        Column("room_datagrams", "room for (datagrams)", ",d"),
        Column("sent", "sent", ",d"),
        Column("lost_min", "lost, min", ",d"),
        Column("lost", "median", ",.0f"),
        Column("lost_max", "max", ",d"),
        Column("drops", "buffer was full (median)", ",.0f"),
        Column("lost_elsewhere", "lost elsewhere", ",d"),
    )

    buffers: Sequence[ReceiveBuffer]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a buffer size."""
        return [
            {
                "variant": str(each.requested_bytes),
                "requested_bytes": each.requested_bytes,
                "granted_bytes": each.granted_bytes,
                "room_datagrams": each.room_datagrams,
                "sent": each.sent,
                "lost": statistics.median(each.lost),
                "lost_min": min(each.lost),
                "lost_max": max(each.lost),
                "drops": statistics.median(each.drops),
                # The end markers come by the same way and may be dropped as well, so more drops
                # than losses is no contradiction.
                "lost_elsewhere": max(
                    0, *(lost - drops for lost, drops in zip(each.lost, each.drops, strict=True))
                ),
            }
            for each in self.buffers
        ]


@experiment("udp-receive-buffers", on_loopback=True)
def measure_receive_buffers(
    buffers_bytes: Sequence[int] = DEFAULT_BUFFERS,
    runs: int = 5,
    datagrams: int = DATAGRAMS,
    size_bytes: int = 1440,
) -> ReceiveBuffers:
    """Sends datagrams on one machine, into receive buffers of different sizes.

    Args:
        buffers_bytes: what to ask for with SO_RCVBUF, 1 to 10^9; the kernel grants what it may.
        runs: rounds of all sizes.
        datagrams: in a run.
        size_bytes: of a datagram, 16 to 65 507.

    Raises:
        ValueError: a number is out of range.
        LabError: a program failed.
    """
    _check(runs, datagrams, size_bytes, MAX_DATAGRAM_BYTES)
    for each in buffers_bytes:
        whole("buffer", each, 1, 10**9, fix="give bytes; the kernel doubles them")
    if not buffers_bytes:
        raise ValueError("no buffer is given; give some sizes in bytes, such as 32768")
    opened = open_network()
    with opened:
        network = LabLoopback(opened) if isinstance(opened, Lab) else opened
        done: list[list[UdpBulkResult]] = [[] for _ in buffers_bytes]
        with Rounds(runs, "receive buffers") as rounds:
            for _round in rounds:
                finished = [
                    udp_bulk(network, datagram_bytes=size_bytes, count=datagrams, rcvbuf_bytes=size)
                    for size in buffers_bytes
                ]
                for results, result in zip(done, finished, strict=True):
                    results.append(result)
        measured = []
        for size, results in zip(buffers_bytes, done, strict=True):
            granted, room = fill_receive_buffer(network.client, size, size_bytes)
            lost = [each.sink.lost for each in results]
            drops = [each.sink.drops for each in results]
            measured.append(ReceiveBuffer(size, granted, room, datagrams, lost, drops))
        return ReceiveBuffers(
            measured,
            provenance(
                opened,
                runs=rounds.done,
                interrupted=rounds.interrupted,
                datagrams=datagrams,
                size_bytes=size_bytes,
                rmem_max_bytes=int(opened.client.read("/proc/sys/net/core/rmem_max")),
            ),
        )


def fill_receive_buffer(host: Host, rcvbuf_bytes: int, size_bytes: int = 1440) -> tuple[int, int]:
    """Sends datagrams to a socket of the same host that nobody reads from, until it is full.

    Returns:
        The size of the receive buffer that the kernel granted, and how many datagrams it held.
    """
    datagram = bytes(size_bytes)
    udp = socket.SOCK_DGRAM
    with host.socket(kind=udp) as sleeper, host.socket(kind=udp) as sender:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
        granted_bytes = sleeper.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        sleeper.bind(("127.0.0.1", 0))
        for _ in range(granted_bytes // size_bytes + 10):  # more than can fit
            sender.sendto(datagram, sleeper.getsockname())
        sleeper.settimeout(0.2)
        held = 0
        try:
            while sleeper.recv(size_bytes):
                held += 1
        except TimeoutError:  # that was all
            return granted_bytes, held
    raise AssertionError("an empty datagram that nobody has sent")


# ---- batching ------------------------------------------------------------------------------------

#: 45 datagrams of 1440 bytes: what one call with UDP_SEGMENT takes, and a write of TCP's as large.
BATCH_BYTES: Final = 45 * 1440
BATCHING_DATAGRAMS: Final = 50_000
MAX_BATCHED_BYTES: Final = 32_000  # two of them and more fit in a call
_LARGE_BUFFER_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class BatchingVariant:
    """One way of handing the same bytes over.

    Attributes:
        name: "udp", "udp-gso", "udp-gso-gro", "tcp" or "tcp-large".
        how: the same in words.
        bytes_per_call: handed over in one system call of the source.
        calls: system calls that hand it over, in one run.
        mb_per_s: bytes that arrived over the sink's time, run by run.
        cpu_s_per_gb: CPU time of both ends for 10^9 bytes that arrived, run by run.
        lost_percent: of the datagrams, run by run; empty for TCP.
    """

    name: str
    how: str
    bytes_per_call: int
    calls: int
    mb_per_s: Sequence[float]
    cpu_s_per_gb: Sequence[float]
    lost_percent: Sequence[float]


@dataclass(frozen=True, slots=True)
class Batching:
    """TCP and UDP with few and with many bytes a call."""

    experiment: ClassVar[str] = "udp-batching"
    columns: ClassVar[Sequence[Column]] = (
        Column("how", "how"),
        Column("bytes_per_call", "bytes/call", ",d"),
        Column("calls", "calls", ",d"),
        Column("mb_per_s_min", "MB/s min", ",.0f"),
        Column("mb_per_s", "median", ",.0f"),
        Column("mb_per_s_max", "max", ",.0f"),
        Column("times_plain", "× plain UDP", ".1f"),
        Column("cpu_s_per_gb", "CPU s/GB", ".2f"),
        Column("lost_percent", "lost (%)", ".1f"),
    )

    variants: Sequence[BatchingVariant]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> BatchingVariant:
        for each in self.variants:
            if each.name == name:
                return each
        raise KeyError(name)

    def times_plain(self, name: str) -> float:
        """How many times as much arrived in a second as by plain UDP, of the median runs."""
        return statistics.median(self[name].mb_per_s) / statistics.median(self["udp"].mb_per_s)

    def rows(self) -> list[dict[str, Any]]:
        """One row a way; rates are of what arrived."""
        rows = []
        for each in self.variants:
            rates = spread(each.mb_per_s)
            rows.append(
                {
                    "variant": each.name,
                    "how": each.how,
                    "bytes_per_call": each.bytes_per_call,
                    "calls": each.calls,
                    "mb_per_s": rates["median"],
                    "mb_per_s_min": rates["min"],
                    "mb_per_s_max": rates["max"],
                    "times_plain": self.times_plain(each.name),
                    "cpu_s_per_gb": statistics.median(each.cpu_s_per_gb),
                    "lost_percent": statistics.median(each.lost_percent)
                    if each.lost_percent
                    else None,
                }
            )
        return rows


@experiment("udp-batching", on_loopback=True)
def measure_batching(
    runs: int = 5, datagrams: int = BATCHING_DATAGRAMS, size_bytes: int = 1440
) -> Batching:
    """The same bytes by TCP and UDP, in one piece a call and in as many as a call takes.

    UDP_SEGMENT lets a program hand over up to 64 datagrams with one call, which pass through the
    stack as one packet until the last moment; UDP_GRO lets the receiver take them so. TCP does both
    for everybody. All of it on one machine through loopback, with large receive buffers.

    Args:
        runs: rounds of all ways.
        datagrams: in a run.
        size_bytes: of a datagram, and of TCP's small writes, 16 to 32 000.

    Raises:
        ValueError: a number is out of range.
        LabError: a program failed.
    """
    _check(runs, datagrams, size_bytes, MAX_BATCHED_BYTES)
    opened = open_network()
    with opened:
        network = LabLoopback(opened) if isinstance(opened, Lab) else opened
        ways = _ways(network, datagrams, size_bytes)
        done: dict[tuple[str, str], list[TcpBulkResult | UdpBulkResult]] = {way: [] for way in ways}
        with Rounds(runs, "batching") as rounds:
            for _round in rounds:
                finished = {way: run() for way, run in ways.items()}
                for way, result in finished.items():
                    done[way].append(result)
        return Batching(
            [_batching_variant(*way, results) for way, results in done.items()],
            provenance(
                opened,
                runs=rounds.done,
                interrupted=rounds.interrupted,
                datagrams=datagrams,
                size_bytes=size_bytes,
                rcvbuf_bytes=_LARGE_BUFFER_BYTES,
                congestion=network.congestion,
            ),
        )


def _ways(
    network: Loopback, datagrams: int, size_bytes: int
) -> dict[tuple[str, str], Callable[[], TcpBulkResult | UdpBulkResult]]:
    """By name and description, a run of each way."""

    def udp(gso: bool, gro: bool) -> Callable[[], UdpBulkResult]:
        return lambda: udp_bulk(
            network,
            datagram_bytes=size_bytes,
            count=datagrams,
            sndbuf_bytes=None,
            rcvbuf_bytes=_LARGE_BUFFER_BYTES,
            gso=gso,
            gro=gro,
        )

    def tcp(write_bytes: int) -> Callable[[], TcpBulkResult]:
        return lambda: tcp_bulk(
            network,
            write_bytes=write_bytes,
            count=max(1, datagrams * size_bytes // write_bytes),
            sndbuf_bytes=None,
            rcvbuf_bytes=None,
        )

    batch_bytes = min(64, 65_507 // size_bytes) * size_bytes
    return {
        ("udp", f"UDP, {size_bytes} bytes a call"): udp(False, False),
        ("udp-gso", "UDP, batched by the sender (UDP_SEGMENT)"): udp(True, False),
        ("udp-gso-gro", "UDP, batched by both (and UDP_GRO)"): udp(True, True),
        ("tcp", f"TCP, {size_bytes} bytes a call"): tcp(size_bytes),
        ("tcp-large", f"TCP, {batch_bytes} bytes a call"): tcp(batch_bytes),
    }


def _batching_variant(
    name: str, how: str, results: Sequence[TcpBulkResult | UdpBulkResult]
) -> BatchingVariant:
    per_call, calls = _calls(results[0])
    return BatchingVariant(
        name,
        how,
        bytes_per_call=per_call,
        calls=calls,
        mb_per_s=[each.sink.mb_per_s for each in results],
        cpu_s_per_gb=[
            (each.source.usage.cpu_s + each.sink.usage.cpu_s) * 1e9 / max(each.sink.bytes, 1)
            for each in results
        ],
        lost_percent=[
            100 * each.sink.lost / each.sink.sent
            for each in results
            if isinstance(each, UdpBulkResult)
        ],
    )


def _calls(result: TcpBulkResult | UdpBulkResult) -> tuple[int, int]:
    """Bytes in a call of the source, but perhaps the last, and how many it made."""
    if isinstance(result, TcpBulkResult):
        return result.source.write_bytes, result.source.system_calls
    source = result.source
    batch = min(64, MAX_DATAGRAM_BYTES // source.datagram_bytes) if source.gso else 1
    # The end markers are calls too, and carry no data.
    calls = source.system_calls - source.end_markers
    return min(batch * source.datagram_bytes, source.bytes), calls


def _check(runs: int, datagrams: int, size_bytes: int, most_bytes: int) -> None:
    whole("runs", runs, 1, MAX_RUNS, fix="five show the spread")
    whole("datagrams", datagrams, 1, MAX_DATAGRAMS, fix="the text sent 5000")
    whole("size_bytes", size_bytes, MIN_DATAGRAM_BYTES, most_bytes, fix="the text sent 1440")
