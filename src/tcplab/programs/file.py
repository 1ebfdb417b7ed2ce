"""Send files over TCP with sendfile_client and sendfile_server, and control the page cache."""

import os
from dataclasses import dataclass
from typing import Literal

from tcplab.programs.logs import File
from tcplab.programs.pair import AnyNetwork, RunOptions, arguments, last_object, run_pair
from tcplab.programs.reports import Report, Usage

SendMethod = Literal["read", "mmap", "sendfile", "splice", "zerocopy"]
CacheState = Literal["cold", "warm", "asis"]


@dataclass(frozen=True, slots=True)
class FileReceiver(Report):
    """The report of sendfile_server."""

    bytes: int  #: Bytes of file data received over all connections, without headers before the file
    usage: Usage  #: Resources used from the first connection to the end of the last


@dataclass(frozen=True, slots=True)
class SendFileResult(Report):
    """The report of sendfile_client, including the report of sendfile_server."""

    bytes: int  #: Bytes sent over all connections, including the headers before the file
    usage: Usage  #: Resources used from the first call until the receiver has read everything
    mb_per_s: float  #: Payload over wall time, in 10^6 bytes/s
    cpu_s_per_gb: float  #: User plus system time per 10^9 bytes
    system_calls: int  #: System calls that sent the data
    zerocopy_sends: int  #: Sends with MSG_ZEROCOPY
    zerocopy_copied: int  #: How many of these sends the kernel copied after all
    receiver: FileReceiver  #: The receiver's report


@dataclass(frozen=True, slots=True)
class HeaderOptions:
    """A header before the file, and the options that can put both into one segment."""

    header_bytes: int = 0  #: Bytes sent before the file, in a separate send(); 0 for none
    cork: bool = False  #: Set TCP_CORK before the header, and clear it after the file
    leave_corked: bool = False  #: Set TCP_CORK before the header, and leave it set
    more: bool = False  #: Send the header with MSG_MORE
    nodelay: bool = False  #: Set TCP_NODELAY


def send_file(
    network: AnyNetwork,
    path: File,
    *,
    method: SendMethod = "sendfile",
    block_bytes: int | None = None,
    connections: int = 1,
    cache: CacheState = "asis",
    header: HeaderOptions | None = None,
    output: File | None = None,
    discard: bool = False,
    run: RunOptions | None = None,
) -> SendFileResult:
    """Send a file from sendfile_client to sendfile_server.

    Args:
        method: how the data gets from the file to the socket
        block_bytes: maximum bytes passed in one call, or None for the method's default
        connections: number of connections that send the file at the same time, 1 to 256
        cache: "cold" drops the file from the page cache first, "warm" reads it, "asis" does neither
        header: a header to send before the file; none unless given
        output: file to which sendfile_server writes, or None for /dev/null. Several connections
            write to output.1, output.2, ...
        discard: discard the data in the receiver's kernel
    """
    header, run = header or HeaderOptions(), run or RunOptions()
    both = arguments(j=connections, header=header.header_bytes)
    taker = ["sendfile_server", "-p", "0", *both, *run.server_options(network)]
    taker += arguments(o=output, discard=discard)
    sender = ["sendfile_client", "-p", "{port}", "-m", method, *both, *run.client_options(network)]
    sender += arguments(cork=header.cork, leave_corked=header.leave_corked, more=header.more)
    sender += arguments(nodelay=header.nodelay, cache=cache, s=block_bytes)
    sender += [network.server.address, os.fspath(path)]
    sent, received = run_pair(network, taker, sender)
    return SendFileResult.from_json({**sent, "receiver": received})


def page_cache(network: AnyNetwork, path: File, state: CacheState = "asis") -> float:
    """Set a file's state in the page cache of the machine; return its cached share, 0 to 1.

    The state "cold" drops the file from the cache, "warm" reads it in, and "asis" changes nothing.
    """
    done = network.client.run(["pagecache", "--json", "--state", state, os.fspath(path)])
    return float(last_object(done.stdout)["cached_share"])
