"""Bulk transfer over TCP and UDP: tcpsource, tcpsink, udpsource, udpsink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcplab.programs.pair import (
    DEADLINE_S,
    TIMEOUT_S,
    AnyNetwork,
    buffer_size,
    congestion_of,
    long_options,
    run_pair,
    short_options,
)
from tcplab.programs.reports import Report, SocketOptions, TcpInfo, Usage


@dataclass(frozen=True, slots=True)
class TcpSource(Report):
    """What tcpsource reports.

    Attributes:
        bytes: payload written, all of which the sink has read.
        writes: how many writes of write_bytes.
        write_bytes: size of a write.
        usage: from the first write until the sink has read everything.
        mb_per_s: bytes over wall time, in 10^6 bytes/s.
        system_calls: of the loop; more than writes when some were taken in part.
        sndbuf_requested_bytes: asked for with SO_SNDBUF; 0 for "leave it to the kernel".
        sndbuf_granted_bytes: SO_SNDBUF right after, which Linux doubles (socket(7)).
        sndbuf_end_bytes: SO_SNDBUF at the end: a buffer left to the kernel grows.
        options: what the kernel granted.
        tcp_info: the connection at the end, when both sides had closed.
    """

    bytes: int
    writes: int
    write_bytes: int
    usage: Usage
    mb_per_s: float
    system_calls: int
    sndbuf_requested_bytes: int
    sndbuf_granted_bytes: int
    sndbuf_end_bytes: int
    options: SocketOptions
    tcp_info: TcpInfo


@dataclass(frozen=True, slots=True)
class TcpSink(Report):
    """What tcpsink reports.

    Attributes:
        bytes: payload read.
        reads: how many reads that took.
        read_bytes: the most that a read might return.
        discard: whether the data was thrown away in the kernel (MSG_TRUNC).
        usage: from the connection to the end of the data.
        mb_per_s: bytes over wall time, in 10^6 bytes/s.
        smallest_read_bytes: the smallest read.
        largest_read_bytes: the largest read.
        read_sizes: reads by size: {"1024": 7} are 7 reads of 1024 to 2047 bytes.
        rcvbuf_requested_bytes: asked for with SO_RCVBUF; 0 for "leave it to the kernel".
        rcvbuf_granted_bytes: SO_RCVBUF right after, which Linux doubles (socket(7)).
        rcvbuf_end_bytes: SO_RCVBUF at the end: a buffer left to the kernel grows.
        options: what the kernel granted.
        tcp_info: the connection when the data had ended.
        rcvlowat_bytes: SO_RCVLOWAT: a sink that has read everything sleeps until so much has come.
    """

    bytes: int
    reads: int
    read_bytes: int
    discard: bool
    usage: Usage
    mb_per_s: float
    smallest_read_bytes: int
    largest_read_bytes: int
    read_sizes: Mapping[str, int]
    rcvbuf_requested_bytes: int
    rcvbuf_granted_bytes: int
    rcvbuf_end_bytes: int
    options: SocketOptions
    tcp_info: TcpInfo
    rcvlowat_bytes: int = 1


@dataclass(frozen=True, slots=True)
class TcpBulkResult:
    """A transfer from tcpsource to tcpsink.

    Attributes:
        source: the sender's report.
        sink: the receiver's report.
        samples: TCP_INFO of the sender over time, if asked for: "sample_s" since the start,
            "snd_cwnd", "unacked", "rtt_us", "snd_wnd_bytes", "notsent_bytes", "bytes_acked", ...
    """

    source: TcpSource
    sink: TcpSink
    samples: Sequence[Mapping[str, Any]]


def tcp_bulk(
    network: AnyNetwork,
    *,
    write_bytes: int = 1440,
    count: int = 5000,
    duration_s: float | None = None,
    sndbuf_bytes: int | None = 32768,
    rcvbuf_bytes: int | None = 32768,
    read_bytes: int | None = None,
    rcvlowat_bytes: int | None = None,
    discard: bool = False,
    mss_bytes: int | None = None,
    nodelay: bool = False,
    interval_ms: float | None = None,
    source_cpu: int | None = None,
    sink_cpu: int | None = None,
    congestion: str | None = None,
    port: int = 0,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = TIMEOUT_S,
) -> TcpBulkResult:
    """Sends blocks as fast as the connection takes them (tcpsource, tcpsink).

    Args:
        network: where; the client sends.
        write_bytes: size of a write, 1 to 2^30.
        count: number of writes.
        duration_s: write for so long instead of a number of times.
        sndbuf_bytes: SO_SNDBUF of the source, set before connect(); None leaves it to the kernel.
        rcvbuf_bytes: SO_RCVBUF of the sink, set before listen(); None leaves it to the kernel.
        read_bytes: size of a read; None for rcvbuf_bytes, or 131072.
        rcvlowat_bytes: SO_RCVLOWAT of the sink: it sleeps until so much has come.
        discard: the sink throws the data away in the kernel.
        mss_bytes: TCP_MAXSEG of both ends, 88 to 32767.
        nodelay: TCP_NODELAY of the source.
        interval_ms: take a sample of the source's TCP_INFO so often.
        source_cpu: pins the source to this CPU.
        sink_cpu: pins the sink to this CPU.
        congestion: congestion control of both ends; None for network.congestion, "system" for the
            machine's default.
        port: the sink's; 0 for a free one.
        deadline_s: each program gives up after this long without progress.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed.
    """
    common = long_options(
        json=True, congestion=congestion_of(network, congestion), deadline=deadline_s, mss=mss_bytes
    )
    sink = ["tcpsink", "-p", str(port), "-b", buffer_size(rcvbuf_bytes), *common]
    sink += long_options(
        bind=network.server.address, cpu=sink_cpu, discard=discard, lowat=rcvlowat_bytes
    )
    sink += short_options(r=read_bytes)
    source = ["tcpsource", "-p", "{port}", "-b", buffer_size(sndbuf_bytes), "-s", str(write_bytes)]
    source += [*common, *short_options(c=count, t=duration_s)]
    source += [*long_options(cpu=source_cpu, nodelay=nodelay, interval=interval_ms)]
    sent, received = run_pair(network, sink, [*source, network.server.address], timeout_s)
    return TcpBulkResult(
        source=TcpSource.from_json(sent),
        sink=TcpSink.from_json(received),
        samples=tuple(sent["earlier_lines"]),
    )


@dataclass(frozen=True, slots=True)
class UdpSource(Report):
    """What udpsource reports.

    Attributes:
        datagrams: how many were sent.
        datagram_bytes: payload of each.
        bytes: payload of all.
        usage: of the sending, without the exchange of end markers.
        mb_per_s: bytes over wall time, in 10^6 bytes/s: sent, not necessarily received.
        arrived: how many the sink says it has received.
        system_calls: sends, of which each hands over many datagrams with gso.
        end_markers: how many it took until the sink answered.
        gso: whether UDP_SEGMENT was used.
        pace_mbit: the limit in 10^6 bit/s of payload, or None.
        sndbuf_requested_bytes: asked for with SO_SNDBUF; 0 for "leave it to the kernel".
        sndbuf_granted_bytes: SO_SNDBUF right after, which Linux doubles.
        options: what the kernel granted.
    """

    datagrams: int
    datagram_bytes: int
    bytes: int
    usage: Usage
    mb_per_s: float
    arrived: int
    system_calls: int
    end_markers: int
    gso: bool
    pace_mbit: float | None
    sndbuf_requested_bytes: int
    sndbuf_granted_bytes: int
    options: SocketOptions


@dataclass(frozen=True, slots=True)
class UdpSink(Report):
    """What udpsink reports.

    Attributes:
        sent: how many datagrams the source says it has sent.
        arrived: how many different ones arrived.
        lost: sent less arrived.
        drops: how often this host threw away what it got because the receive buffer was full
            (SO_RXQ_OVFL); with gro one drop may be of many datagrams.
        reordered: arrived after one with a higher number (RFC 4737).
        duplicated: arrived again.
        foreign: datagrams that were not of this run, left out of all other counts.
        bytes: payload of those that arrived.
        reads: how many reads that took.
        usage: from the first datagram to the end marker.
        mb_per_s: bytes over wall time, in 10^6 bytes/s.
        gro: whether UDP_GRO was asked for.
        rcvbuf_requested_bytes: asked for with SO_RCVBUF; 0 for "leave it to the kernel".
        rcvbuf_granted_bytes: SO_RCVBUF right after, which Linux doubles.
        options: what the kernel granted.
    """

    sent: int
    arrived: int
    lost: int
    drops: int
    reordered: int
    duplicated: int
    foreign: int
    bytes: int
    reads: int
    usage: Usage
    mb_per_s: float
    gro: bool
    rcvbuf_requested_bytes: int
    rcvbuf_granted_bytes: int
    options: SocketOptions


@dataclass(frozen=True, slots=True)
class UdpBulkResult:
    """A run of datagrams from udpsource to udpsink: the sender's report and the receiver's."""

    source: UdpSource
    sink: UdpSink


def udp_bulk(
    network: AnyNetwork,
    *,
    datagram_bytes: int = 1440,
    count: int = 5000,
    sndbuf_bytes: int | None = 32768,
    rcvbuf_bytes: int | None = 32768,
    pace_mbit: float | None = None,
    gso: bool = False,
    gro: bool = False,
    spin_us: int | None = None,
    source_cpu: int | None = None,
    sink_cpu: int | None = None,
    port: int = 0,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = TIMEOUT_S,
) -> UdpBulkResult:
    """Sends numbered datagrams and counts what becomes of them (udpsource, udpsink).

    Args:
        network: where; the client sends.
        datagram_bytes: payload of a datagram, 16 to 65507.
        count: number of datagrams, 1 to 10^8.
        sndbuf_bytes: SO_SNDBUF of the source; None leaves it to the kernel.
        rcvbuf_bytes: SO_RCVBUF of the sink; None leaves it to the kernel.
        pace_mbit: at most so many 10^6 bits of payload a second; None for as fast as possible.
        gso: hand the kernel up to 64 datagrams at a time (UDP_SEGMENT).
        gro: take many datagrams at a time (UDP_GRO).
        spin_us: how long the sink waits awake before it sleeps; it wants a CPU of its own.
        source_cpu: pins the source to this CPU.
        sink_cpu: pins the sink to this CPU.
        port: the sink's; 0 for a free one.
        deadline_s: each program gives up after this long without progress.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed.
    """
    common = long_options(json=True, deadline=deadline_s)
    sink = ["udpsink", "-p", str(port), "-b", buffer_size(rcvbuf_bytes), *common]
    sink += long_options(bind=network.server.address, cpu=sink_cpu, gro=gro, spin=spin_us)
    source = [
        "udpsource",
        "-p",
        "{port}",
        "-b",
        buffer_size(sndbuf_bytes),
        "-s",
        str(datagram_bytes),
    ]
    source += ["-c", str(count), *common, *long_options(cpu=source_cpu, pace=pace_mbit, gso=gso)]
    sent, received = run_pair(network, sink, [*source, network.server.address], timeout_s)
    return UdpBulkResult(UdpSource.from_json(sent), UdpSink.from_json(received))
