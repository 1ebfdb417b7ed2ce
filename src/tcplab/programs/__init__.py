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

from tcplab.programs.bulk import (
    TcpBulkResult,
    TcpSink,
    TcpSource,
    UdpBulkResult,
    UdpSink,
    UdpSource,
    tcp_bulk,
    udp_bulk,
)
from tcplab.programs.chain import ChainProcess, ChainResult, pipe_chain
from tcplab.programs.file import (
    CacheState,
    FileReceiver,
    SendFileResult,
    SendMethod,
    page_cache,
    send_file,
)
from tcplab.programs.logs import Event, read_log
from tcplab.programs.messages import (
    QuickAck,
    QuotesResult,
    RecordsResult,
    SmallWritesMode,
    SmallWritesResult,
    quotes,
    records,
    small_writes,
)
from tcplab.programs.pair import AnyNetwork
from tcplab.programs.reports import Percentiles, SocketOptions, TcpInfo, Usage

__all__ = [
    "AnyNetwork",
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
