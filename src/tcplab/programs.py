"""One typed call for each of the course's C programs: arguments in, a result dataclass out.

Each call starts the listening program on the place's server, waits for the line in which it says
that it listens, runs the other program on the client, and reads the JSON object that each prints.
The place is a :class:`~tcplab.lab.Lab`, a :class:`~tcplab.lab.Loopback` or a
:class:`~tcplab.lab.Pair`. What a program measures, and why, is told at the top of its source in
``src/programs/``.

Every function raises :class:`~tcplab.errors.LabError` when a program fails; the message carries the
line that the program wrote to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self, get_type_hints

from tcplab.errors import LabError
from tcplab.lab import Host, Network, Pair

__all__ = [
    "CacheState",
    "ChainProcess",
    "ChainResult",
    "Event",
    "FileReceiver",
    "Percentiles",
    "QuickAck",
    "QuotesResult",
    "RecordsResult",
    "SendFileResult",
    "SendMethod",
    "SmallWritesMode",
    "SmallWritesResult",
    "SocketOptions",
    "TcpBulkResult",
    "TcpInfo",
    "TcpSink",
    "TcpSource",
    "UdpBulkResult",
    "UdpSink",
    "UdpSource",
    "Usage",
    "page_cache",
    "pipe_chain",
    "quotes",
    "read_log",
    "records",
    "send_file",
    "small_writes",
    "tcp_bulk",
    "udp_bulk",
]

AnyNetwork = Network | Pair
File = str | PathLike[str]
QuickAck = Literal["on", "off", "always"]
SmallWritesMode = Literal["default", "no_delay", "cork", "msg_more", "writev"]
SendMethod = Literal["read", "mmap", "sendfile", "splice", "zerocopy"]
CacheState = Literal["cold", "warm", "asis"]

#: What the kernel says about a connection: the fields of ``struct tcp_info`` (linux/tcp.h) under
#: the kernel's names, with the unit added: ``rtt_us``, ``busy_time_us``, ``snd_mss_bytes``, ...
TcpInfo = Mapping[str, Any]

DEADLINE_S: Final = 30.0
TIMEOUT_S: Final = 120.0


# ---- what all programs report --------------------------------------------------------------------


class _Record:
    """A dataclass made from the JSON object whose members bear its fields' names."""

    __slots__ = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The record in a program's report; what the program left out keeps its default."""
        kinds = get_type_hints(cls)
        values: dict[str, Any] = {}
        for field in fields(cls):  # type: ignore[arg-type]
            kind = kinds[field.name]
            if field.name == "usage":  # its numbers stand among the others
                values[field.name] = Usage.from_json(data)
            elif field.name in data:
                value = data[field.name]
                nested = isinstance(kind, type) and issubclass(kind, _Record)
                values[field.name] = kind.from_json(value) if nested else value
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Usage(_Record):
    """What a program used while it moved data (getrusage(2)): times in s, the others counts."""

    wall_s: float
    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int

    @property
    def cpu_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Percentiles(_Record):
    """Nearest-rank percentiles of the single measurements, in microseconds."""

    min: float
    median: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class SocketOptions(_Record):
    """What the kernel granted, read back from the socket (socket(7), tcp(7)).

    Attributes:
        congestion: congestion control in force; None for UDP.
        mss_bytes: TCP_MAXSEG, which on loopback may still grow; None for UDP.
        nodelay: TCP_NODELAY; None for UDP.
        sndbuf_bytes: SO_SNDBUF as the kernel doubled it.
        rcvbuf_bytes: SO_RCVBUF as the kernel doubled it.
        local: "ADDRESS port PORT" of this end.
        peer: the same of the other end.
        cpu: the CPU the program was pinned to, or None.
        deadline_s: how long it would have waited without progress.
    """

    sndbuf_bytes: int
    rcvbuf_bytes: int
    local: str
    peer: str
    cpu: int | None
    deadline_s: float
    congestion: str | None = None
    mss_bytes: int | None = None
    nodelay: bool | None = None

    @property
    def local_port(self) -> int:
        """The port of this end."""
        return int(self.local.rpartition(" ")[2])

    @property
    def peer_port(self) -> int:
        """The port of the other end."""
        return int(self.peer.rpartition(" ")[2])


class Event(NamedTuple):
    """One line of a program's --log: what the application did, and when."""

    time_ns: int  #: CLOCK_REALTIME, the clock of packet captures
    #: As it starts: "write", "more" (with MSG_MORE), "request", "quote" of the server, "reply" of
    #: the server, "cork", "uncork". As it ends: "read", "reply", "acknowledged", "request" of the
    #: server, "quote".
    name: str
    bytes: int


def read_log(path: File) -> list[Event]:
    """The events of a file that a program wrote with --log, in order."""
    lines = Path(path).read_text().splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return [Event(int(time_ns), name, int(size)) for time_ns, name, size in rows]


# ---- running a pair of programs ------------------------------------------------------------------


class _Listener:
    """A listening program: its port once it listens, and its report at the end."""

    def __init__(self, process: subprocess.Popen[str], shown: str) -> None:
        self._process = process
        self._shown = shown
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise LabError(f"'{shown}' did not start: {self.complaint()}")
        self.port = int(json.loads(ready)["listening"])

    def complaint(self) -> str:
        """The last line on standard error of a program that ends of itself."""
        _out, err = self._process.communicate(timeout=TIMEOUT_S)
        return (err.strip().splitlines() or [f"exit status {self._process.returncode}"])[-1]

    def report(self, timeout_s: float) -> dict[str, Any]:
        """Waits for the end and returns the JSON object; LabError if the program failed."""
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"'{self._shown}' did not end within {timeout_s:g} s") from None
        if self._process.returncode != 0:
            last = (err.strip().splitlines() or ["no message"])[-1]
            raise LabError(f"'{self._shown}' failed (exit {self._process.returncode}): {last}")
        return _last_object(out)

    def last_words(self) -> str:
        """What the program said on standard error, if it has ended by now; else ''."""
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return ""
        return self.complaint() if self._process.returncode else ""


@contextmanager
def _listening(host: Host, argv: Sequence[str]) -> Iterator[_Listener]:
    process = host.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            yield _Listener(process, " ".join(argv))
        finally:
            if process.poll() is None:
                process.kill()


def _last_object(text: str) -> dict[str, Any]:
    """The JSON object in the last line; those of the lines before are its "earlier_lines"."""
    *earlier, last = (json.loads(line) for line in text.strip().splitlines())
    return {**last, "earlier_lines": earlier}


def _run_pair(
    network: AnyNetwork, server: Sequence[str], client: Sequence[str], timeout_s: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs both programs; the client's argument "{port}" stands for where the server listens.

    Returns:
        The client's report and the server's.
    """
    with _listening(network.server, server) as listener:
        argv = [str(listener.port) if word == "{port}" else word for word in client]
        try:
            done = network.client.run(argv, timeout_s=timeout_s)
        except LabError as error:
            # Of two failures the server's is often the cause: "the client goes on after 10".
            words = listener.last_words()
            raise LabError(f"{error}; {words}" if words else str(error)) from None
        return _last_object(done.stdout), listener.report(timeout_s)


def _options(**values: Any) -> list[str]:
    """{"rcvbuf": 4096, "discard": True, "mss": None} as --rcvbuf 4096 --discard."""
    words: list[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def _letters(**values: Any) -> list[str]:
    """{"c": 5000, "t": None} as -c 5000."""
    return [
        word
        for letter, value in values.items()
        if value is not None
        for word in (
            f"-{letter}",
            os.fspath(value) if isinstance(value, os.PathLike) else str(value),
        )
    ]


def _congestion(network: AnyNetwork, wish: str | None) -> str | None:
    """The value of --congestion: the place's own unless said, and no option for the machine's."""
    return None if wish == "system" else wish or network.congestion


def _buffer(size_bytes: int | None) -> str:
    return "auto" if size_bytes is None else str(size_bytes)


# ---- tcp_nodelay_client, tcp_nodelay_server ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SmallWritesResult:
    """What sending messages in small pieces cost.

    Attributes:
        mode: how the pieces were handed to TCP.
        messages: how many were sent and answered.
        writes: pieces in a message.
        size_bytes: bytes in a piece.
        bytes: payload of all messages together.
        usage: what the client used.
        bytes_per_ms: payload over wall time.
        message_us: from one reply to the next.
        system_calls: of the client's loop.
        options: what the kernel granted the client.
        tcp_info: the client's connection at the end.
        server_usage: what the server used.
        server_system_calls: of the server's loop.
        server_options: what the kernel granted the server.
        server_tcp_info: the server's connection at the end.
    """

    mode: SmallWritesMode
    messages: int
    writes: int
    size_bytes: int
    bytes: int
    usage: Usage
    bytes_per_ms: float
    message_us: Percentiles
    system_calls: int
    options: SocketOptions
    tcp_info: TcpInfo
    server_usage: Usage
    server_system_calls: int
    server_options: SocketOptions
    server_tcp_info: TcpInfo

    @property
    def ms_per_message(self) -> float:
        """Wall time of a message with its reply, in ms."""
        return self.usage.wall_s * 1e3 / self.messages


def small_writes(
    network: AnyNetwork,
    mode: SmallWritesMode = "default",
    messages: int = 50,
    *,
    writes: int = 15,
    size_bytes: int = 2,
    reply_bytes: int = 2,
    quickack: QuickAck = "on",
    cpu: int | None = 0,
    congestion: str | None = None,
    port: int = 0,
    log: File | None = None,
    server_log: File | None = None,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = TIMEOUT_S,
) -> SmallWritesResult:
    """Sends messages in small pieces, each answered when complete (tcp_nodelay_client).

    Args:
        network: where; the client sends, the server answers.
        mode: how the client hands the pieces to TCP.
        messages: how many, 1 to 10^7.
        writes: pieces in a message, 1 to 1024.
        size_bytes: bytes in a piece.
        reply_bytes: bytes in the answer.
        quickack: when the server acknowledges: "on" as its kernel likes, "off" as late as it may,
            "always" at once.
        cpu: pins both programs to this CPU; None leaves them to the scheduler.
        congestion: congestion control of both ends; None for network.congestion, "system" for the
            machine's default.
        port: the server's; 0 for a free one.
        log: file for the client's events, see read_log.
        server_log: file for the server's events.
        deadline_s: each program gives up after this long without progress.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed.
    """
    shape = _options(writes=writes, size=size_bytes, reply=reply_bytes)
    common = _options(
        json=True, cpu=cpu, congestion=_congestion(network, congestion), deadline=deadline_s
    )
    server = ["tcp_nodelay_server", str(port), str(messages), *shape, *common]
    server += _options(bind=network.server.address, quickack=quickack, log=server_log)
    client = ["tcp_nodelay_client", network.server.address, "{port}", str(messages), mode]
    client += [*shape, *common, *_options(log=log)]
    sent, served = _run_pair(network, server, client, timeout_s)
    return SmallWritesResult(
        mode=sent["mode"],
        messages=sent["n"],
        writes=sent["writes"],
        size_bytes=sent["size_bytes"],
        bytes=sent["bytes"],
        usage=Usage.from_json(sent),
        bytes_per_ms=sent["bytes_per_ms"],
        message_us=Percentiles.from_json(sent["message_us"]),
        system_calls=sent["system_calls"],
        options=SocketOptions.from_json(sent["options"]),
        tcp_info=sent["tcp_info"],
        server_usage=Usage.from_json(served),
        server_system_calls=served["system_calls"],
        server_options=SocketOptions.from_json(served["options"]),
        server_tcp_info=served["tcp_info"],
    )


# ---- tcpsource, tcpsink --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TcpSource(_Record):
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
class TcpSink(_Record):
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
    common = _options(
        json=True, congestion=_congestion(network, congestion), deadline=deadline_s, mss=mss_bytes
    )
    sink = ["tcpsink", "-p", str(port), "-b", _buffer(rcvbuf_bytes), *common]
    sink += _options(
        bind=network.server.address, cpu=sink_cpu, discard=discard, lowat=rcvlowat_bytes
    )
    sink += _letters(r=read_bytes)
    source = ["tcpsource", "-p", "{port}", "-b", _buffer(sndbuf_bytes), "-s", str(write_bytes)]
    source += [*common, *_letters(c=count, t=duration_s)]
    source += [*_options(cpu=source_cpu, nodelay=nodelay, interval=interval_ms)]
    sent, received = _run_pair(network, sink, [*source, network.server.address], timeout_s)
    return TcpBulkResult(
        source=TcpSource.from_json(sent),
        sink=TcpSink.from_json(received),
        samples=tuple(sent["earlier_lines"]),
    )


# ---- udpsource, udpsink --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UdpSource(_Record):
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
class UdpSink(_Record):
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
    common = _options(json=True, deadline=deadline_s)
    sink = ["udpsink", "-p", str(port), "-b", _buffer(rcvbuf_bytes), *common]
    sink += _options(bind=network.server.address, cpu=sink_cpu, gro=gro, spin=spin_us)
    source = ["udpsource", "-p", "{port}", "-b", _buffer(sndbuf_bytes), "-s", str(datagram_bytes)]
    source += ["-c", str(count), *common, *_options(cpu=source_cpu, pace=pace_mbit, gso=gso)]
    sent, received = _run_pair(network, sink, [*source, network.server.address], timeout_s)
    return UdpBulkResult(UdpSource.from_json(sent), UdpSink.from_json(received))


# ---- recordsource, recordsink --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordsResult(_Record):
    """What sending records of 20 to 100 bytes took.

    Attributes:
        records: how many were sent and received, each once and in order.
        bytes: all bytes sent, with the padding and headers of batches.
        batch: records in a send; 0 for one, unpadded.
        unbuffered: whether each send waited for its acknowledgement.
        usage: of the source, until the sink has read everything.
        records_per_s: records over wall time.
        send_us: from one send to the next.
        sends: how many sends.
        system_calls: of the source's loop.
        options: what the kernel granted the source.
        tcp_info: the source's connection at the end.
        reads: how many reads it took the sink.
        one_record_reads: of those, which returned exactly one record.
        split_records: records that came in more than one read.
        sink_usage: what the sink used.
        sink_tcp_info: the sink's connection at the end.
    """

    records: int
    bytes: int
    batch: int
    unbuffered: bool
    usage: Usage
    records_per_s: float
    send_us: Percentiles
    sends: int
    system_calls: int
    options: SocketOptions
    tcp_info: TcpInfo
    reads: int
    one_record_reads: int
    split_records: int
    sink_usage: Usage
    sink_tcp_info: TcpInfo


def records(
    network: AnyNetwork,
    *,
    count: int = 10_000,
    unbuffered: bool = False,
    nodelay: bool = False,
    batch: int | None = None,
    read_bytes: int = 200,
    quickack: QuickAck = "on",
    cpu: int | None = 0,
    congestion: str | None = None,
    port: int = 0,
    log: File | None = None,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = TIMEOUT_S,
) -> RecordsResult:
    """Sends many small records, well or badly (recordsource, recordsink).

    Args:
        network: where; the client sends.
        count: number of records, 1 to 10^7.
        unbuffered: wait after each send until it was acknowledged, as SO_SNDBUF=0 in Winsock.
        nodelay: TCP_NODELAY of the source.
        batch: send so many at a time, each padded to 100 bytes; None sends each by itself.
        read_bytes: size of the sink's reads.
        quickack: when the sink acknowledges: "on" as its kernel likes, "off" as late as it may,
            "always" at once.
        cpu: pins both programs to this CPU; None leaves them to the scheduler.
        congestion: congestion control of both ends; None for network.congestion, "system" for the
            machine's default.
        port: the sink's; 0 for a free one.
        log: file for the source's events, see read_log.
        deadline_s: each program gives up after this long without progress.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed.
    """
    common = _options(
        json=True, cpu=cpu, congestion=_congestion(network, congestion), deadline=deadline_s
    )
    sink = ["recordsink", "-p", str(port), "-r", str(read_bytes), *common]
    sink += _options(bind=network.server.address, quickack=quickack)
    source = ["recordsource", "-p", "{port}", "-c", str(count), *common]
    source += _options(unbuffered=unbuffered, nodelay=nodelay, batch=batch, log=log)
    sent, received = _run_pair(network, sink, [*source, network.server.address], timeout_s)
    if (sent["records"], sent["bytes"]) != (received["records"], received["bytes"]):
        raise LabError(
            f"recordsource sent {sent['records']} records and {sent['bytes']} bytes, recordsink got"
            f" {received['records']} and {received['bytes']}"
        )
    return RecordsResult.from_json(
        {
            **{key: received[key] for key in ("reads", "one_record_reads", "split_records")},
            "sink_usage": received,
            "sink_tcp_info": received["tcp_info"],
            **sent,
        }
    )


# ---- quoteclient, quoteserver --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuotesResult(_Record):
    """What asking for quotes took.

    Attributes:
        quotes: how many were asked for and received.
        batch: requests in a send.
        single: whether requests and quotes shared a connection.
        quickack: when the client acknowledged quotes.
        usage: of the client.
        quotes_per_s: quotes over wall time.
        exchange_us: from one request (or batch) to the next.
        system_calls: of the client's loop.
        options: what the kernel granted the client, on the connection for requests.
        tcp_info: the client's connection for requests at the end.
        reads: how many reads it took the server to get the requests.
        server_tcp_info: the server's connection for requests at the end.
    """

    quotes: int
    batch: int
    single: bool
    quickack: QuickAck
    usage: Usage
    quotes_per_s: float
    exchange_us: Percentiles
    system_calls: int
    options: SocketOptions
    tcp_info: TcpInfo
    reads: int
    server_tcp_info: TcpInfo


def quotes(
    network: AnyNetwork,
    *,
    count: int = 200,
    single: bool = False,
    nodelay: bool = False,
    batch: int = 1,
    quickack: QuickAck = "on",
    client_quickack: QuickAck = "on",
    cpu: int | None = 0,
    congestion: str | None = None,
    port: int = 0,
    log: File | None = None,
    server_log: File | None = None,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = TIMEOUT_S,
) -> QuotesResult:
    """Asks for stock quotes one after the other (quoteclient, quoteserver).

    Args:
        network: where; the client asks, the server answers.
        count: number of quotes, 1 to 10^7.
        single: requests and quotes share one connection; otherwise each has its own.
        nodelay: TCP_NODELAY of both ends.
        batch: requests in a send, 1 to 1000.
        quickack: when the server acknowledges requests: "on" as its kernel likes, "off" as late as
            it may, "always" at once.
        client_quickack: when the client acknowledges quotes.
        cpu: pins both programs to this CPU; None leaves them to the scheduler.
        congestion: congestion control of both ends; None for network.congestion, "system" for the
            machine's default.
        port: the server's; 0 for a free one.
        log: file for the client's events, see read_log.
        server_log: file for the server's events.
        deadline_s: each program gives up after this long without progress.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed.
    """
    common = _options(
        json=True, cpu=cpu, congestion=_congestion(network, congestion), deadline=deadline_s
    )
    common += _options(single=single, nodelay=nodelay)
    server = ["quoteserver", "-p", str(port), *common]
    server += _options(bind=network.server.address, quickack=quickack, log=server_log)
    client = ["quoteclient", "-p", "{port}", "-c", str(count), *common]
    client += _options(batch=batch, quickack=client_quickack, log=log)
    asked, served = _run_pair(network, server, [*client, network.server.address], timeout_s)
    return QuotesResult.from_json(
        {**asked, "reads": served["reads"], "server_tcp_info": served["tcp_info"]}
    )


# ---- filesend, filerecv, pagecache ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileReceiver(_Record):
    """What filerecv reports.

    Attributes:
        bytes: received over all connections, without headers.
        reads: how many reads that took.
        writes: how many writes; 0 when the data was discarded.
        discard: whether the data was thrown away in the kernel (MSG_TRUNC).
        usage: from the first connection to the end of the last.
        mb_per_s: bytes over wall time, in 10^6 bytes/s.
        rcvbuf_requested_bytes: asked for with SO_RCVBUF; 0 for "leave it to the kernel".
        rcvbuf_granted_bytes: SO_RCVBUF right after, which Linux doubles.
        options: what the kernel granted the first connection.
        tcp_info: the first connection at the end.
    """

    bytes: int
    reads: int
    writes: int
    discard: bool
    usage: Usage
    mb_per_s: float
    rcvbuf_requested_bytes: int
    rcvbuf_granted_bytes: int
    options: SocketOptions
    tcp_info: TcpInfo


@dataclass(frozen=True, slots=True)
class SendFileResult(_Record):
    """What sending a file took.

    Attributes:
        method: how.
        bytes: sent over all connections, headers included.
        file_bytes: size of the file.
        header_bytes: sent before the file on each connection.
        block_bytes: the most that one call might take.
        connections: at the same time.
        cache: what was asked of the page cache.
        cached_share: share of the file that was in the page cache before, 0 to 1.
        usage: from the first call until the receiver has read everything.
        mb_per_s: bytes over wall time, in 10^6 bytes/s.
        cpu_s_per_gb: user and system time for 10^9 bytes.
        system_calls: that the program made for it.
        zerocopy_sends: sends with MSG_ZEROCOPY.
        zerocopy_copied: of those, which the kernel copied after all.
        options: what the kernel granted the first connection.
        tcp_info: the first connection at the end.
        receiver: the receiver's report.
    """

    method: SendMethod
    bytes: int
    file_bytes: int
    header_bytes: int
    block_bytes: int
    connections: int
    cache: CacheState
    cached_share: float
    usage: Usage
    mb_per_s: float
    cpu_s_per_gb: float
    system_calls: int
    zerocopy_sends: int
    zerocopy_copied: int
    options: SocketOptions
    tcp_info: TcpInfo
    receiver: FileReceiver


def send_file(
    network: AnyNetwork,
    path: File,
    *,
    method: SendMethod = "sendfile",
    block_bytes: int | None = None,
    connections: int = 1,
    header_bytes: int = 0,
    cork: bool = False,
    more: bool = False,
    nodelay: bool = False,
    cache: CacheState = "asis",
    output: File | None = None,
    discard: bool = False,
    verify: bool = False,
    rcvbuf_bytes: int | None = None,
    read_bytes: int = 131072,
    source_cpu: int | None = None,
    sink_cpu: int | None = None,
    congestion: str | None = None,
    port: int = 0,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = TIMEOUT_S,
) -> SendFileResult:
    """Sends a file (filesend, filerecv).

    Args:
        network: where; the client sends.
        path: the file.
        method: how it gets from the page cache to the socket.
        block_bytes: the most that one call takes; None for the method's usual.
        connections: send it over so many at the same time, 1 to 256.
        header_bytes: send so many before the file, in a send() of their own.
        cork: TCP_CORK from before the header until after the file.
        more: MSG_MORE with the header.
        nodelay: TCP_NODELAY.
        cache: "cold" drops the file from the page cache first, "warm" reads it in; both verified.
        output: the receiver writes to this file (connections > 1: to output.1, output.2, ...);
            None for /dev/null.
        discard: the receiver throws the data away in the kernel.
        verify: compare the SHA-256 of what was written; needs output.
        rcvbuf_bytes: SO_RCVBUF of the receiver; None leaves it to the kernel.
        read_bytes: size of the receiver's reads.
        source_cpu: pins the sender to this CPU.
        sink_cpu: pins the receiver to this CPU.
        congestion: congestion control of both ends; None for network.congestion, "system" for the
            machine's default.
        port: the receiver's; 0 for a free one.
        deadline_s: each program gives up after this long without progress.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed, the cache could not be made as asked, or the sums differ.
    """
    common = _options(
        json=True,
        congestion=_congestion(network, congestion),
        deadline=deadline_s,
        header=header_bytes,
    )
    receiver = ["filerecv", "-p", str(port), "-b", _buffer(rcvbuf_bytes), "-r", str(read_bytes)]
    receiver += ["-j", str(connections), *common, *_letters(o=output)]
    receiver += _options(bind=network.server.address, cpu=sink_cpu, discard=discard)
    receiver += _options(sha256=_sha256(path) if verify else None)
    sender = ["filesend", "-p", "{port}", "-m", method, "-j", str(connections), *common]
    sender += [*_letters(s=block_bytes), *_options(cork=cork, more=more, nodelay=nodelay)]
    sender += [*_options(cache=cache, cpu=source_cpu), network.server.address, os.fspath(path)]
    sent, received = _run_pair(network, receiver, sender, timeout_s)
    return SendFileResult.from_json({**sent, "receiver": received})


def _sha256(path: File) -> str:
    import hashlib

    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def page_cache(network: AnyNetwork, path: File, state: CacheState = "asis") -> float:
    """Drops a file from the page cache ("cold") or reads it in ("warm") (pagecache).

    Returns:
        The share of the file that is in the page cache now, 0 to 1.

    Raises:
        LabError: it could not be made so.
    """
    done = network.client.run(["pagecache", "--json", "--state", state, os.fspath(path)])
    return float(_last_object(done.stdout)["cached_share"])


# ---- netcat, and chains of programs --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChainProcess:
    """What one program of a chain used, with the millisecond or two that starting it takes.

    Attributes:
        command: with its arguments.
        user_s: time in the program itself.
        system_s: time in the kernel on its behalf.
        voluntary_switches: how often it waited for data, or for room.
        involuntary_switches: how often it had to leave its CPU to another.
        bytes_per_read: mean over its calls of read(2) and the like (rchar and syscr in proc(5)),
            up to some ms before its end; None where that could not be seen, or other calls moved
            the data (recv(2), splice(2)).
        bytes_per_write: the same of write(2).
    """

    command: str
    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    bytes_per_read: float | None
    bytes_per_write: float | None

    @property
    def cpu_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class ChainResult:
    """What a chain of programs over one TCP connection took.

    Attributes:
        bytes: how much the first command was said to read or make.
        wall_s: from the start of the sending programs to the end of the receiving ones.
        cpu_s: user and system time of all programs together.
        mb_per_s: bytes over wall_s, in 10^6 bytes/s.
        processes: each program, in the order in which a byte passes them.
    """

    bytes: int
    wall_s: float
    cpu_s: float
    mb_per_s: float
    processes: Sequence[ChainProcess] = ()


def pipe_chain(
    network: AnyNetwork,
    sending: Sequence[Sequence[str]],
    receiving: Sequence[Sequence[str]],
    *,
    bytes_expected: int,
    source: File | None = None,
    output: File = os.devnull,
    port: int = 5001,
    timeout_s: float = TIMEOUT_S,
) -> ChainResult:
    """Runs `sending | ... | over TCP | receiving | ...`, as a shell would, and times it.

    The last program of ``sending`` connects; the first of ``receiving`` listens. The arguments
    "{port}" and "{host}" stand for where it does: ``[["dd", "if=/dev/zero", "bs=1M", "count=100"],
    ["netcat", "{host}", "{port}"]]``.

    Args:
        network: where; ``sending`` runs on the client, ``receiving`` on the server.
        sending: commands, each reading the output of the one before.
        receiving: commands, each reading the output of the one before.
        bytes_expected: how much the first command reads or makes; for the rate.
        source: file that the first command reads; None for nothing.
        output: file that the last command writes to.
        port: where to listen; 5001 as in the text.
        timeout_s: the whole run may take this long.

    Raises:
        LabError: a program failed or does not exist, or the run took too long.
    """
    values = {"{port}": str(port), "{host}": network.server.address}
    started: list[_Stage] = []
    with Path(source or os.devnull).open("rb") as first, Path(output).open("wb") as last:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            _start_chain(started, network.server, receiving, values, subprocess.DEVNULL, last)
            _await_listener(network.server, port, started[0], timeout_s)
            start = time.monotonic()
            _start_chain(started, network.client, sending, values, first, subprocess.DEVNULL)
            _await_chain(started, start + timeout_s)
            wall_s = time.monotonic() - start
        finally:
            for stage in started:
                stage.end()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    in_order = [*started[len(receiving) :], *started[: len(receiving)]]
    used = [stage.used() for stage in in_order]
    return ChainResult(bytes_expected, wall_s, cpu_s, bytes_expected / wall_s / 1e6, used)


class _Stage:
    """A program of a chain: while it runs, and what it used once it has ended."""

    def __init__(self, shown: str, process: subprocess.Popen[bytes]) -> None:
        self.shown = shown
        self.process = process
        self._usage: resource.struct_rusage | None = None
        self._pid: int | None = None
        self._io: dict[str, int] = {}

    def ended(self) -> bool:
        """Whether it has; Popen would not tell what it used."""
        if self.process.returncode is None:
            try:
                pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else asked before us
                self.process.wait()
                return True
            if pid == 0:
                return False
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self._usage = usage
        return True

    def look(self) -> None:
        """Notes what it has read and written so far, where /proc tells."""
        try:
            self._pid = self._pid or _program_under(self.process.pid, self.shown.split()[0])
            if self._pid is not None:
                lines = Path(f"/proc/{self._pid}/io").read_text().splitlines()
                self._io = {name: int(value) for name, value in (x.split(": ") for x in lines)}
        except (OSError, ValueError):
            pass  # it has ended, or this kernel does not count

    def used(self) -> ChainProcess:
        """What it used."""
        usage, io = self._usage, self._io
        return ChainProcess(
            self.shown,
            usage.ru_utime if usage else 0.0,
            usage.ru_stime if usage else 0.0,
            usage.ru_nvcsw if usage else 0,
            usage.ru_nivcsw if usage else 0,
            _mean(io.get("rchar", 0), io.get("syscr", 0)),
            _mean(io.get("wchar", 0), io.get("syscw", 0)),
        )

    def end(self) -> None:
        """Ends it if it has not, and closes what we hold of it."""
        if not self.ended():
            self.process.kill()
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def _mean(size_bytes: int, calls: int) -> float | None:
    """Bytes a call, unless all that was read is the program itself as it was loaded."""
    return size_bytes / calls if calls and size_bytes > 65_536 else None


def _program_under(pid: int, command: str) -> int | None:
    """The process in which a lab_exec and its guard run the command; None before that exists."""
    name = Path(command).name[:15]  # as much as the kernel keeps of it (proc(5), comm)
    while Path(f"/proc/{pid}/comm").read_text().strip() != name:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return None
        pid = int(children[0])
    return pid


def _start_chain(
    started: list[_Stage],
    host: Host,
    commands: Sequence[Sequence[str]],
    values: Mapping[str, str],
    first: Any,
    last: Any,
) -> None:
    """Starts the commands, each reading what the one before writes, and adds them to the list."""
    stdin = first
    for position, command in enumerate(commands):
        argv = [values.get(word, word) for word in command]
        stdout = last if position == len(commands) - 1 else subprocess.PIPE
        try:
            process = host.start(
                argv, text=False, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
            )
        finally:
            # The pipe belongs to the two programs now: held open here, neither would see its end.
            if stdin is not first:
                stdin.close()
        started.append(_Stage(" ".join(argv), process))
        stdin = process.stdout


def _await_listener(host: Host, port: int, listener: _Stage, timeout_s: float) -> None:
    """Returns when something listens on the port: other programs than ours don't say so."""
    end = time.monotonic() + min(timeout_s, 10)
    while not _listens(host, port):
        if listener.ended():
            raise LabError(f"'{listener.shown}' {_last_line(listener.process)}")
        if time.monotonic() > end:
            raise LabError(f"'{listener.shown}' does not listen on port {port}")
        time.sleep(0.005)


def _listens(host: Host, port: int) -> bool:
    listening = f":{port:04X} "
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in host.read(table).splitlines()[1:]:
            _slot, local, _remote, state, *_rest = line.split()
            if state == "0A" and f"{local} ".endswith(listening):
                return True
    return False


def _await_chain(stages: Sequence[_Stage], end: float) -> None:
    """Returns when all have ended well; soon after the first that failed, else raises LabError."""
    ticks = 0
    while running := [stage for stage in stages if not stage.ended()]:
        if any(stage.process.returncode for stage in stages):
            # The others end too, or wait for ever for one that is gone.
            end = min(end, time.monotonic() + 0.5)
        if time.monotonic() > end:
            break
        if ticks % 8 == 0:
            for stage in running:
                stage.look()
        ticks += 1
        time.sleep(0.001)
    for stage in stages:
        if stage.process.returncode:
            raise LabError(f"'{stage.shown}' {_last_line(stage.process)}")
    if running:
        raise LabError(f"'{running[0].shown}' did not end in time")


def _last_line(process: subprocess.Popen[bytes]) -> str:
    _out, err = process.communicate()
    lines = err.decode(errors="replace").strip().splitlines()
    return f"failed (exit {process.returncode}): {lines[-1] if lines else 'no message'}"
