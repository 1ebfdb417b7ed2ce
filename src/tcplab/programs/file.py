"""Files over TCP and in the page cache: sendfile_client, sendfile_server, pagecache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tcplab.programs.logs import File
from tcplab.programs.pair import (
    AnyNetwork,
    RunOptions,
    buffer_size,
    last_object,
    long_options,
    run_pair,
    short_options,
)
from tcplab.programs.reports import Report, SocketOptions, TcpInfo, Usage

SendMethod = Literal["read", "mmap", "sendfile", "splice", "zerocopy"]
CacheState = Literal["cold", "warm", "asis"]


@dataclass(frozen=True, slots=True)
class FileReceiver(Report):
    """What sendfile_server reports.

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
class SendFileResult(Report):
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


@dataclass(frozen=True, slots=True)
class HeaderOptions:
    """A header before the file, and what decides whether both share a segment.

    Attributes:
        header_bytes: sent before the file, in a send() of their own; 0 for none.
        cork: TCP_CORK from before the header until after the file.
        more: MSG_MORE with the header.
        nodelay: TCP_NODELAY.
    """

    header_bytes: int = 0
    cork: bool = False
    more: bool = False
    nodelay: bool = False


@dataclass(frozen=True, slots=True)
class ReceiverOptions:
    """What becomes of a file at the receiver.

    Attributes:
        output: file to write to (several connections: output.1, output.2, ...); None for /dev/null.
        discard: throw the data away in the kernel.
        verify: compare the SHA-256 of what was written; needs output.
        rcvbuf_bytes: SO_RCVBUF; None leaves it to the kernel.
        read_bytes: size of a read.
    """

    output: File | None = None
    discard: bool = False
    verify: bool = False
    rcvbuf_bytes: int | None = None
    read_bytes: int = 131072


def send_file(
    network: AnyNetwork,
    path: File,
    *,
    method: SendMethod = "sendfile",
    block_bytes: int | None = None,
    connections: int = 1,
    cache: CacheState = "asis",
    header: HeaderOptions | None = None,
    receiver: ReceiverOptions | None = None,
    run: RunOptions | None = None,
) -> SendFileResult:
    """Sends a file (sendfile_client, sendfile_server).

    Args:
        network: where; the client sends.
        path: the file.
        method: how it gets from the page cache to the socket.
        block_bytes: the most that one call takes; None for the method's usual.
        connections: send it over so many at the same time, 1 to 256.
        cache: "cold" drops the file from the page cache first, "warm" reads it in; both verified.
        header: what is sent before the file, and how.
        receiver: what becomes of it at the other end.
        run: CPU, congestion control, port and deadlines.

    Raises:
        LabError: a program failed, the cache could not be made as asked, or the sums differ.
    """
    header, receiver = header or HeaderOptions(), receiver or ReceiverOptions()
    run = run or RunOptions()
    both = ["-j", str(connections), "--header", str(header.header_bytes)]
    taker = [
        "sendfile_server",
        "-p",
        str(run.port),
        "-b",
        buffer_size(receiver.rcvbuf_bytes),
        *both,
    ]
    taker += [*run.server_options(network), *short_options(o=receiver.output)]
    taker += [*short_options(r=receiver.read_bytes), *long_options(discard=receiver.discard)]
    taker += long_options(sha256=_sha256(path) if receiver.verify else None)
    sender = ["sendfile_client", "-p", "{port}", "-m", method, *both, *run.client_options(network)]
    sender += long_options(cork=header.cork, more=header.more, nodelay=header.nodelay, cache=cache)
    sender += [*short_options(s=block_bytes), network.server.address, os.fspath(path)]
    sent, received = run_pair(network, taker, sender, run.timeout_s)
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
    return float(last_object(done.stdout)["cached_share"])
