"""Exchange messages in small writes with tcp_nodelay_client, recordsource and quoteclient."""

from dataclasses import dataclass
from typing import Literal

from tcplab.errors import LabError
from tcplab.programs.logs import File
from tcplab.programs.pair import AnyNetwork, RunOptions, arguments, run_pair
from tcplab.programs.reports import Percentiles, Report, SocketOptions, TcpInfo, Usage

QuickAck = Literal["on", "off", "always"]
SmallWritesMode = Literal["default", "no_delay", "cork", "msg_more", "writev"]


@dataclass(frozen=True, slots=True)
class SmallWritesResult(Report):
    """The reports of tcp_nodelay_client and tcp_nodelay_server."""

    mode: SmallWritesMode  #: How the writes were handed to TCP
    messages: int  #: Number of messages sent and answered
    writes: int  #: Writes per message
    write_bytes: int  #: Bytes per write
    bytes: int  #: Payload of all messages together
    usage: Usage  #: Resources used by the client
    bytes_per_ms: float  #: Payload over wall time
    message_us: Percentiles  #: Time from one reply to the next
    system_calls: int  #: System calls of the client's loop
    options: SocketOptions  #: Options granted by the kernel to the client
    tcp_info: TcpInfo  #: The client's connection at the end of the measurement

    @property
    def ms_per_message(self) -> float:
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
    """Send messages with tcp_nodelay_client, each in several writes, and await each reply."""
    run = run or RunOptions.on_one_cpu()
    shape = arguments(writes=writes, write_bytes=write_bytes, reply_bytes=reply_bytes)
    server = ["tcp_nodelay_server", "0", str(messages), *shape]
    server += run.server_options(network)
    server += arguments(quickack=quickack, log=peer_log)
    client = ["tcp_nodelay_client", network.server.address, "{port}", str(messages), mode, *shape]
    client += [*run.client_options(network), *arguments(log=log)]
    sent, _served = run_pair(network, server, client)
    return SmallWritesResult.from_json(sent)


@dataclass(frozen=True, slots=True)
class RecordsResult(Report):
    """The reports of recordsource and recordsink, for records of 20 to 100 bytes."""

    records: int  #: Number of records sent and received; each arrived once and in order
    bytes: int  #: Total bytes sent, including the padding and headers of batches
    batch: int  #: Records per send, each padded to 100 bytes, or 0 for one unpadded record
    unbuffered: bool  #: True if each send waited for its acknowledgement
    usage: Usage  #: Resources used by the source, until the sink has read everything
    records_per_s: float  #: Records over wall time
    send_us: Percentiles  #: Time from one send to the next
    sends: int
    system_calls: int  #: System calls of the source's loop
    options: SocketOptions  #: Options granted by the kernel to the source
    tcp_info: TcpInfo  #: The source's connection at the end of the measurement
    reads: int  #: Number of reads of the sink
    one_record_reads: int  #: How many of these reads returned exactly one record


def records(
    network: AnyNetwork,
    *,
    count: int = 10_000,
    unbuffered: bool = False,
    nodelay: bool = False,
    batch: int | None = None,
    quickack: QuickAck = "on",
    log: File | None = None,
) -> RecordsResult:
    """Send many small records from recordsource to recordsink, one or several per send.

    Args:
        count: number of records
        unbuffered: wait after each send until it is acknowledged, like SO_SNDBUF=0 in Winsock
        nodelay: set TCP_NODELAY in recordsource
        batch: records per send, each padded to 100 bytes, or None for one unpadded record per send
    """
    run = RunOptions.on_one_cpu()
    sink = ["recordsink", "-p", "0", *run.server_options(network), *arguments(quickack=quickack)]
    source = ["recordsource", "-p", "{port}", "-c", str(count), *run.client_options(network)]
    source += arguments(unbuffered=unbuffered, nodelay=nodelay, batch=batch, log=log)
    source += [network.server.address]
    sent, received = run_pair(network, sink, source)
    if (sent["records"], sent["bytes"]) != (received["records"], received["bytes"]):
        raise LabError(
            f"recordsource sent {sent['records']} records and {sent['bytes']} bytes, recordsink got"
            f" {received['records']} and {received['bytes']}"
        )
    return RecordsResult.from_json({**received, **sent})


@dataclass(frozen=True, slots=True)
class QuotesResult(Report):
    """The reports of quoteclient and quoteserver."""

    quotes: int  #: Number of quotes requested and received
    batch: int  #: Requests per send
    single: bool  #: True if requests and quotes shared a connection
    usage: Usage  #: Resources used by the client
    quotes_per_s: float  #: Quotes over wall time
    system_calls: int  #: System calls of the client's loop
    #: Options granted by the kernel to the client, on the connection for requests
    options: SocketOptions
    tcp_info: TcpInfo  #: The client's connection for requests at the end of the measurement
    reads: int  #: Number of reads in which the server received the requests


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
) -> QuotesResult:
    """Request stock quotes from quoteserver with quoteclient, one batch after the other.

    With `single`, requests and quotes share one connection; otherwise there is one for requests and
    one for quotes. `batch` is the number of requests per send, and `nodelay` applies to both ends.
    """
    run = RunOptions.on_one_cpu()
    both = arguments(single=single, nodelay=nodelay)
    server = ["quoteserver", "-p", "0", *both, *run.server_options(network)]
    server += arguments(quickack=quickack, log=peer_log)
    client = ["quoteclient", "-p", "{port}", "-c", str(count), *both, *run.client_options(network)]
    client += arguments(batch=batch, log=log)
    client += [network.server.address]
    asked, served = run_pair(network, server, client)
    return QuotesResult.from_json({**asked, "reads": served["reads"]})
