"""Transfer bulk data over TCP and UDP with tcpsource, tcpsink, udpsource and udpsink."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from tcplab.errors import LabError
from tcplab.programs.pair import AnyNetwork, Running, RunOptions, arguments, buffer_size, run_pair
from tcplab.programs.reports import Report, SocketOptions, TcpInfo, Usage


@dataclass(frozen=True, slots=True)
class TcpSource(Report):
    """The report of tcpsource."""

    bytes: int  #: Payload written, all of which the sink has read
    write_bytes: int  #: Size of a write
    usage: Usage  #: Resources used from the first write until the sink has read everything
    mb_per_s: float  #: Payload over wall time, in 10^6 bytes/s
    #: System calls of the loop, more than writes if TCP accepted some writes only in part
    system_calls: int
    sndbuf_granted_bytes: int  #: SO_SNDBUF right after the request, which Linux doubles (socket(7))
    options: SocketOptions  #: Options granted by the kernel
    tcp_info: TcpInfo  #: The connection at the end, after both sides have closed it


@dataclass(frozen=True, slots=True)
class TcpSink(Report):
    """The report of tcpsink."""

    bytes: int  #: Payload read
    usage: Usage  #: Resources used from the connection to the end of the data
    mb_per_s: float  #: Payload over wall time, in 10^6 bytes/s
    rcvbuf_granted_bytes: int  #: SO_RCVBUF right after the request, which Linux doubles (socket(7))
    rcvbuf_end_bytes: int  #: SO_RCVBUF at the end; without a request, the kernel lets it grow
    options: SocketOptions  #: Options granted by the kernel
    tcp_info: TcpInfo  #: The connection at the end of the data


@dataclass(frozen=True, slots=True)
class TcpBulkResult:
    """A transfer from tcpsource to tcpsink, with both reports."""

    source: TcpSource  #: The sender's report
    sink: TcpSink  #: The receiver's report
    #: TCP_INFO of the sender over time, if samples were requested. A sample has "sample_s" since
    #: the start, "time_ns" on the clock of captures, "snd_cwnd", "unacked", "rtt_us",
    #: "snd_wnd_bytes", "notsent_bytes", "bytes_acked", and so on. "sndbuf_bytes" and
    #: "sndbuf_used_bytes" are the size and use of the send buffer (SO_MEMINFO).
    samples: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options for the reads of tcpsink."""

    read_bytes: int | None = None  #: Maximum size of a read; by default rcvbuf_bytes, or 131072
    rcvlowat_bytes: int | None = None  #: SO_RCVLOWAT: sleep until this many bytes have arrived
    discard: bool = False  #: Discard the data in the kernel (MSG_TRUNC)


def tcp_bulk(
    network: AnyNetwork,
    *,
    write_bytes: int = 1440,
    count: int = 5000,
    duration_s: float | None = None,
    sndbuf_bytes: int | None = 32768,
    rcvbuf_bytes: int | None = 32768,
    mss_bytes: int | None = None,
    interval_ms: float | None = None,
    sink: SinkOptions | None = None,
    run: RunOptions | None = None,
) -> TcpBulkResult:
    """Send blocks from tcpsource to tcpsink as fast as the connection accepts them.

    Args:
        write_bytes: size of a block
        count: number of blocks
        duration_s: write for this long, instead of `count` writes
        sndbuf_bytes: SO_SNDBUF of the source, set before connect(); None leaves it to the kernel
        rcvbuf_bytes: SO_RCVBUF of the sink, set before listen(); None leaves it to the kernel
        mss_bytes: TCP_MAXSEG of both ends, 88 to 32767
        interval_ms: sampling interval of the source's TCP_INFO, or None for no samples
        sink: options for the reads of tcpsink
    """
    sink, run = sink or SinkOptions(), run or RunOptions()
    receiver = _sink(network, rcvbuf_bytes, run)
    receiver += arguments(mss=mss_bytes, discard=sink.discard, lowat=sink.rcvlowat_bytes)
    receiver += arguments(r=sink.read_bytes)
    source = _source(network, "{port}", write_bytes, sndbuf_bytes, run)
    source += arguments(mss=mss_bytes, interval=interval_ms, c=count, t=duration_s)
    sent, received = run_pair(network, receiver, source)
    return TcpBulkResult(
        source=TcpSource.from_json(sent),
        sink=TcpSink.from_json(received),
        samples=tuple(json.loads(line) for line in sent["earlier_lines"]),
    )


def tcp_source(
    network: AnyNetwork,
    port: int,
    *,
    write_bytes: int = 1440,
    count: int = 5000,
    sndbuf_bytes: int | None = 32768,
    nodelay: bool = False,
) -> TcpSource:
    """Send blocks with tcpsource to a program other than tcpsink that is already listening."""
    argv = _source(network, str(port), write_bytes, sndbuf_bytes, RunOptions())
    argv += arguments(c=count, nodelay=nodelay)
    with Running(network.client, argv) as source:
        return TcpSource.from_json(source.report())


class Transfer:
    """A transfer in progress. Its network can be changed and watched meanwhile."""

    def __init__(self, source: Running, sink: Running) -> None:
        self._programs = (source, sink)
        self.latest: Mapping[str, Any] = {}  #: the newest sample of the source's TCP_INFO
        threading.Thread(target=self._listen, args=(source,), daemon=True).start()

    def _listen(self, source: Running) -> None:
        # The source is killed at the end, perhaps in the middle of a line.
        with suppress(ValueError):
            for line in source.lines():
                sample = json.loads(line)
                if "sample_s" in sample:
                    self.latest = sample

    def check(self) -> None:
        """Raise LabError if the source or the sink has ended."""
        for program in self._programs:
            if program.ended():
                raise LabError(program.failure() or f"{program.name} ended during the transfer")


@contextmanager
def tcp_transfer(
    network: AnyNetwork, *, interval_ms: float = 50, run: RunOptions | None = None
) -> Iterator[Transfer]:
    """Send blocks until the with statement ends, and sample TCP_INFO every `interval_ms`.

    The kernel chooses the sizes of the buffers. The source stops after an hour.
    """
    run = run or RunOptions()
    with ExitStack() as stack:
        sink = stack.enter_context(Running(network.server, _sink(network, None, run)))
        argv = _source(network, str(sink.port()), 16384, None, run)
        argv += arguments(t=3600, interval=interval_ms)
        yield Transfer(stack.enter_context(Running(network.client, argv)), sink)


def _sink(network: AnyNetwork, rcvbuf_bytes: int | None, run: RunOptions) -> list[str]:
    argv = ["tcpsink", "-p", "0", "-b", buffer_size(rcvbuf_bytes)]
    return argv + run.server_options(network)


def _source(
    network: AnyNetwork, port: str, write_bytes: int, sndbuf_bytes: int | None, run: RunOptions
) -> list[str]:
    argv = ["tcpsource", "-p", port, "-b", buffer_size(sndbuf_bytes), "-s", str(write_bytes)]
    return [*argv, *run.client_options(network), network.server.address]


@dataclass(frozen=True, slots=True)
class UdpSource(Report):
    """The report of udpsource."""

    datagrams: int  #: Number of datagrams sent
    usage: Usage  #: Resources used for sending the datagrams, without the end markers
    mb_per_s: float  #: Payload sent (and perhaps lost) over wall time, in 10^6 bytes/s
    system_calls: int  #: Number of sends; with gso each send passes many datagrams
    end_markers: int  #: Number of end markers sent until the sink answered
    gso: bool  #: True if UDP_SEGMENT was used


@dataclass(frozen=True, slots=True)
class UdpSink(Report):
    """The report of udpsink."""

    sent: int  #: Number of datagrams sent, as reported by the source
    arrived: int  #: Number of distinct datagrams that arrived
    lost: int  #: Number of datagrams sent that did not arrive
    #: Number of times that the sink's host dropped data because the receive buffer was full
    #: (SO_RXQ_OVFL). With gro, one drop may cover many datagrams
    drops: int
    bytes: int  #: Payload of the datagrams that arrived
    reads: int
    usage: Usage  #: Resources used from the first datagram to the end marker
    mb_per_s: float  #: Payload that arrived over wall time, in 10^6 bytes/s


@dataclass(frozen=True, slots=True)
class UdpBulkResult:
    """A transfer from udpsource to udpsink, with both reports."""

    source: UdpSource
    sink: UdpSink


def udp_bulk(
    network: AnyNetwork,
    *,
    datagram_bytes: int = 1440,
    count: int = 5000,
    sndbuf_bytes: int | None = None,
    rcvbuf_bytes: int | None = 5000 * 1440,
    pace_mbit: float | None = None,
    gso: bool = False,
    gro: bool = False,
    spin_us: int | None = None,
    run: RunOptions | None = None,
) -> UdpBulkResult:
    """Send numbered datagrams from udpsource to udpsink, and count what happens to them.

    Args:
        datagram_bytes: payload of a datagram, 16 to 65507
        count: number of datagrams
        sndbuf_bytes: SO_SNDBUF of the source; None leaves it to the kernel
        rcvbuf_bytes: SO_RCVBUF of the sink; None leaves it to the kernel
        pace_mbit: limit in 10^6 bits of payload per second, or None for as fast as possible
        gso: pass up to 64 datagrams to the kernel at a time (UDP_SEGMENT)
        gro: receive many datagrams at a time (UDP_GRO)
        spin_us: time that the sink busy-waits before it sleeps. It then needs its own CPU
    """
    run = replace(run or RunOptions(), congestion="")  # UDP has no congestion control
    sink = ["udpsink", "-p", "0", "-b", buffer_size(rcvbuf_bytes)]
    sink += [*run.server_options(network), *arguments(gro=gro, spin=spin_us)]
    source = ["udpsource", "-p", "{port}", "-b", buffer_size(sndbuf_bytes)]
    source += ["-s", str(datagram_bytes), "-c", str(count), *run.client_options(network)]
    source += [*arguments(pace=pace_mbit, gso=gso), network.server.address]
    sent, received = run_pair(network, sink, source)
    return UdpBulkResult(UdpSource.from_json(sent), UdpSink.from_json(received))
