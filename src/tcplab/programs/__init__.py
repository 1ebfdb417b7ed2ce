"""Run the course's C programs, and return dataclasses with the results.

Most functions start a listening program on the network's server, wait for the line that announces
its port, run another program on the client, and read the JSON object that each of the two prints.
The top of each source in ``src/programs/`` explains what the program measures, and why.

These arguments are common to several functions:

network
    A Lab, a Loopback or a Pair. One program runs on its client, and the other on its server.
run
    CPU, congestion control and deadline. Programs that exchange small messages run on one
    CPU by default.
log, peer_log
    Files for the events of the client and of the server (see :func:`read_log`).
quickack
    When the server acknowledges: "on" leaves it to the kernel, "off" waits as long as possible,
    "always" acknowledges at once.

Every function raises :class:`~tcplab.errors.LabError` if a program fails. The message includes the
last line that the program wrote to standard error.
"""

from tcplab.programs.bulk import (
    SinkOptions,
    TcpBulkResult,
    UdpBulkResult,
    tcp_bulk,
    tcp_source,
    tcp_transfer,
    udp_bulk,
)
from tcplab.programs.calls import CallLog, SocketCalls
from tcplab.programs.file import HeaderOptions, page_cache, send_file
from tcplab.programs.logs import Event, read_log
from tcplab.programs.messages import small_writes
from tcplab.programs.pair import RunOptions, run_pair
from tcplab.programs.patterns import writepattern_peer
from tcplab.programs.reports import SocketOptions

__all__ = [
    "CallLog",
    "Event",
    "HeaderOptions",
    "RunOptions",
    "SinkOptions",
    "SocketCalls",
    "SocketOptions",
    "TcpBulkResult",
    "UdpBulkResult",
    "page_cache",
    "read_log",
    "run_pair",
    "send_file",
    "small_writes",
    "tcp_bulk",
    "tcp_source",
    "tcp_transfer",
    "udp_bulk",
    "writepattern_peer",
]
