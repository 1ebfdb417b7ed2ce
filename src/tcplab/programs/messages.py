"""Messages and small writes: tcp_nodelay_client, recordsource, quoteclient and their peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcplab.errors import LabError
from tcplab.programs.logs import File
from tcplab.programs.pair import AnyNetwork, RunOptions, long_options, run_pair
from tcplab.programs.reports import Percentiles, Report, SocketOptions, TcpInfo, Usage

QuickAck = Literal["on", "off", "always"]
SmallWritesMode = Literal["default", "no_delay", "cork", "msg_more", "writev"]


@dataclass(frozen=True, slots=True)
class SmallWritesResult(Report):
    """Reports of tcp_nodelay_client and tcp_nodelay_server."""

    mode: SmallWritesMode  #: How the writes were handed to TCP
    messages: int  #: How many were sent and answered
    writes: int  #: Writes per message
    write_bytes: int  #: Bytes per write
    bytes: int  #: Payload of all messages together
    usage: Usage  #: What the client used
    bytes_per_ms: float  #: Payload over wall time
    message_us: Percentiles  #: From one reply to the next
    system_calls: int  #: Of the client's loop
    options: SocketOptions  #: What the kernel granted the client
    tcp_info: TcpInfo  #: The client's connection at the end
    server_usage: Usage  #: What the server used
    server_system_calls: int  #: Of the server's loop
    server_options: SocketOptions  #: What the kernel granted the server
    server_tcp_info: TcpInfo  #: The server's connection at the end

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
    write_bytes: int = 2,
    reply_bytes: int = 2,
    quickack: QuickAck = "on",
    log: File | None = None,
    peer_log: File | None = None,
    run: RunOptions | None = None,
) -> SmallWritesResult:
    """Sends messages in several small writes each, and awaits each reply (tcp_nodelay_client).

    Args:
        mode: how the client hands the writes to TCP.
        messages: how many, 1 to 10^7.
        writes: writes per message, 1 to 1024.
        write_bytes: bytes per write.
        reply_bytes: bytes per reply.
    """
    run = run or RunOptions.on_one_cpu()
    shape = long_options(writes=writes, write_bytes=write_bytes, reply_bytes=reply_bytes)
    server = ["tcp_nodelay_server", str(run.port), str(messages), *shape]
    server += run.server_options(network)
    server += long_options(quickack=quickack, log=peer_log)
    client = ["tcp_nodelay_client", network.server.address, "{port}", str(messages), mode, *shape]
    client += [*run.client_options(network), *long_options(log=log)]
    sent, served = run_pair(network, server, client, run.timeout_s)
    report = {f"server_{name}": value for name, value in served.items()}
    return SmallWritesResult.from_json({**report, **sent})


@dataclass(frozen=True, slots=True)
class RecordsResult(Report):
    """Reports of recordsource and recordsink, on records of 20 to 100 bytes."""

    records: int  #: How many were sent and received, each once and in order
    bytes: int  #: All bytes sent, with the padding and headers of batches
    batch: int  #: Records per send; 0 for one, unpadded
    unbuffered: bool  #: Whether each send waited for its acknowledgement
    usage: Usage  #: Of the source, until the sink has read everything
    records_per_s: float  #: Records over wall time
    send_us: Percentiles  #: From one send to the next
    sends: int  #: How many sends
    system_calls: int  #: Of the source's loop
    options: SocketOptions  #: What the kernel granted the source
    tcp_info: TcpInfo  #: The source's connection at the end
    reads: int  #: How many reads it took the sink
    one_record_reads: int  #: Of those, which returned exactly one record
    split_records: int  #: Records that came in more than one read
    sink_usage: Usage  #: What the sink used
    sink_tcp_info: TcpInfo  #: The sink's connection at the end


def records(
    network: AnyNetwork,
    *,
    count: int = 10_000,
    unbuffered: bool = False,
    nodelay: bool = False,
    batch: int | None = None,
    read_bytes: int = 200,
    quickack: QuickAck = "on",
    log: File | None = None,
    run: RunOptions | None = None,
) -> RecordsResult:
    """Sends many small records, well or badly (recordsource, recordsink).

    Args:
        count: number of records, 1 to 10^7.
        unbuffered: wait after each send until it was acknowledged, as SO_SNDBUF=0 in Winsock.
        nodelay: TCP_NODELAY of the source.
        batch: records per send, each padded to 100 bytes; None sends each record by itself.
        read_bytes: size of the sink's reads.
    """
    run = run or RunOptions.on_one_cpu()
    sink = ["recordsink", "-p", str(run.port), "-r", str(read_bytes)]
    sink += [*run.server_options(network), *long_options(quickack=quickack)]
    source = ["recordsource", "-p", "{port}", "-c", str(count), *run.client_options(network)]
    source += long_options(unbuffered=unbuffered, nodelay=nodelay, batch=batch, log=log)
    source += [network.server.address]
    sent, received = run_pair(network, sink, source, run.timeout_s)
    if (sent["records"], sent["bytes"]) != (received["records"], received["bytes"]):
        raise LabError(
            f"recordsource sent {sent['records']} records and {sent['bytes']} bytes, recordsink got"
            f" {received['records']} and {received['bytes']}"
        )
    return RecordsResult.from_json(
        {
            **{key: received[key] for key in ("reads", "one_record_reads", "split_records")},
            "sink_usage": received["usage"],
            "sink_tcp_info": received["tcp_info"],
            **sent,
        }
    )


@dataclass(frozen=True, slots=True)
class QuotesResult(Report):
    """Reports of quoteclient and quoteserver."""

    quotes: int  #: How many were asked for and received
    batch: int  #: Requests per send
    single: bool  #: Whether requests and quotes shared a connection
    usage: Usage  #: Of the client
    quotes_per_s: float  #: Quotes over wall time
    exchange_us: Percentiles  #: From one request (or batch) to the next
    system_calls: int  #: Of the client's loop
    options: SocketOptions  #: What the kernel granted the client, on the connection for requests
    tcp_info: TcpInfo  #: The client's connection for requests at the end
    reads: int  #: How many reads it took the server to get the requests
    server_tcp_info: TcpInfo  #: The server's connection for requests at the end


def quotes(
    network: AnyNetwork,
    *,
    count: int = 200,
    single: bool = False,
    nodelay: bool = False,
    batch: int = 1,
    quickack: QuickAck = "on",
    log: File | None = None,
    peer_log: File | None = None,
    run: RunOptions | None = None,
) -> QuotesResult:
    """Asks for stock quotes one after the other (quoteclient, quoteserver).

    Args:
        count: number of quotes, 1 to 10^7.
        single: requests and quotes share one connection; otherwise each has its own.
        nodelay: TCP_NODELAY of both ends.
        batch: requests per send, 1 to 1000.
    """
    run = run or RunOptions.on_one_cpu()
    both = long_options(single=single, nodelay=nodelay)
    server = ["quoteserver", "-p", str(run.port), *both, *run.server_options(network)]
    server += long_options(quickack=quickack, log=peer_log)
    client = ["quoteclient", "-p", "{port}", "-c", str(count), *both, *run.client_options(network)]
    client += long_options(batch=batch, log=log)
    client += [network.server.address]
    asked, served = run_pair(network, server, client, run.timeout_s)
    return QuotesResult.from_json(
        {**asked, "reads": served["reads"], "server_tcp_info": served["tcp_info"]}
    )
