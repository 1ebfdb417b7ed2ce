"""The memory that data takes while it waits in send queues: after send(), and after sendfile().

Many clients that read slowly, or not at all, keep their server's send queues full. After send() a
queue holds copies of the data; after sendfile() it refers to pages of the page cache, which are
there once, however many queues refer to them. The kernel's own account of socket memory (TCP_INFO,
/proc/net/sockstat) does not tell the two apart; how much memory is left free does.
"""

from __future__ import annotations

import os
import re
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, Variant, experiment, provenance
from tcplab.experiments.files import file_of
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Loopback
from tcplab.tables import Column

Method = Literal["read + send", "sendfile"]

FILE_BYTES: Final = 16_000_000  # more than a send queue and a receive queue take together
BLOCK_BYTES: Final = 4096
SETTLE_S: Final = 0.5  # the kernel frees memory of closed sockets a moment later
NEEDED_BYTES: Final = 12_000_000  # a client's queues, with the kernel's own overhead


@dataclass(frozen=True, slots=True)
class Queue(Variant):
    """Data that was queued by one method, and the memory that it took."""

    method: Method  #: How it got into the queues
    clients: int  #: Connections
    queued_bytes: Sequence[int]  #: In all queues together, of each run
    #: By how much less memory was free then, of each run; what other programs do meanwhile is in
    #: it, so it may be negative
    memory_bytes: Sequence[int]

    @property
    def memory_per_byte(self) -> float:
        """Median of memory over data."""
        pairs = zip(self.memory_bytes, self.queued_bytes, strict=True)
        return statistics.median(memory / queued for memory, queued in pairs)

    def row(self) -> dict[str, Any]:
        """The plain fields, and of the runs the medians."""
        return Variant.row(self) | {
            "queued_mb": statistics.median(self.queued_bytes) / 1e6,
            "memory_mb": statistics.median(self.memory_bytes) / 1e6,
            "memory_per_byte": self.memory_per_byte,
        }


class Queues(Result[Queue]):
    """Both methods, measured in turn; the key is the method."""

    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "method"),
        Column("clients", "clients", "d", is_setting=True),
        Column("queued_mb", "queued (MB)", ".1f"),
        Column("memory_mb", "memory taken (MB)", ".1f"),
        Column("memory_per_byte", "bytes of memory per byte", ".2f"),
    )


@experiment("send-queue", on_loopback=True)
def measure(
    clients: Annotated[int, Between(1, 400)] = 32, runs: Annotated[int, Between(1, 100)] = 3
) -> Queues:
    """Memory that full send queues take: after send(), and after sendfile().

    A file is sent to clients that never read, until nothing more goes in.

    Args:
        clients: connections, each of which takes up to 12 MB of memory.
        runs: rounds of both methods.
    """
    if (available := _meminfo_bytes("MemAvailable")) < 2 * clients * NEEDED_BYTES:
        raise LabError(
            f"{clients} clients may take {clients * NEEDED_BYTES / 1e6:.0f} MB, and"
            f" {available / 1e6:.0f} MB are available; try fewer clients"
        )
    with open_loopback() as network, file_of(FILE_BYTES) as path, path.open("rb") as file:
        # The first fill moves the kernel's reserves about, and is not counted.
        _fill_queues(network, file.fileno(), _read_and_send, clients)
        results, done = in_rounds(
            "send-queue",
            runs,
            list(_SENDERS),
            lambda method: _fill_queues(network, file.fileno(), _SENDERS[method], clients),
        )
        queues = [
            Queue(method, clients, [queued for queued, _ in each], [memory for _, memory in each])
            for method, each in results.items()
        ]
        return Queues(queues, provenance(network, file_bytes=FILE_BYTES, **done))


_Sender = Callable[[int, int, int, int], int]


def _read_and_send(to: int, file: int, at: int, most: int) -> int:
    return os.write(to, os.pread(file, min(most, BLOCK_BYTES), at))


_SENDERS: Final[Mapping[Method, _Sender]] = {"read + send": _read_and_send, "sendfile": os.sendfile}


def _fill_queues(network: Loopback, file: int, send: _Sender, clients: int) -> tuple[int, int]:
    """Bytes that the queues took, and bytes of memory that were gone then."""
    with _connections(network, clients) as connections:
        time.sleep(SETTLE_S)
        before = _free_bytes()
        queued = sum(_fill(each.fileno(), file, send) for each in connections)
        return queued, before - _free_bytes()


def _fill(to: int, file: int, send: _Sender) -> int:
    """Sends from the start of the file until the socket takes no more; how much it took."""
    at = 0
    try:
        while at < FILE_BYTES:
            at += send(to, file, at, FILE_BYTES - at)
    except BlockingIOError:
        pass
    return at


@contextmanager
def _connections(network: Loopback, clients: int) -> Iterator[list[socket.socket]]:
    """Sockets of a server, non-blocking, each connected to a client that does not read."""
    with ExitStack() as stack:
        listener = stack.enter_context(network.server.socket())
        listener.bind((network.server.address, 0))
        listener.listen(clients)
        accepted = []
        for _number in range(clients):
            client = stack.enter_context(network.client.socket())
            client.connect(listener.getsockname())
            connection, _address = listener.accept()
            stack.enter_context(connection).setblocking(False)
            accepted.append(connection)
        yield accepted


def _free_bytes() -> int:
    """Memory that nobody uses: MemFree, and what each CPU keeps at hand (proc(5), zoneinfo).

    The latter can be hundreds of megabytes, from which small allocations are served first.
    """
    kept = re.findall(r"^\s+count:\s+(\d+)$", Path("/proc/zoneinfo").read_text(), re.M)
    return _meminfo_bytes("MemFree") + sum(map(int, kept)) * os.sysconf("SC_PAGESIZE")


def _meminfo_bytes(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LabError(f"/proc/meminfo has no {name}; this needs Linux 3.14 or newer")
