"""Files over TCP, and their place in the page cache: filesend, filerecv, pagecache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tcplab.programs.logs import File
from tcplab.programs.pair import (
    DEADLINE_S,
    TIMEOUT_S,
    AnyNetwork,
    buffer_size,
    congestion_of,
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
    common = long_options(
        json=True,
        congestion=congestion_of(network, congestion),
        deadline=deadline_s,
        header=header_bytes,
    )
    receiver = ["filerecv", "-p", str(port), "-b", buffer_size(rcvbuf_bytes), "-r", str(read_bytes)]
    receiver += ["-j", str(connections), *common, *short_options(o=output)]
    receiver += long_options(bind=network.server.address, cpu=sink_cpu, discard=discard)
    receiver += long_options(sha256=_sha256(path) if verify else None)
    sender = ["filesend", "-p", "{port}", "-m", method, "-j", str(connections), *common]
    sender += [*short_options(s=block_bytes), *long_options(cork=cork, more=more, nodelay=nodelay)]
    sender += [*long_options(cache=cache, cpu=source_cpu), network.server.address, os.fspath(path)]
    sent, received = run_pair(network, receiver, sender, timeout_s)
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
