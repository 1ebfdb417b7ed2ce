"""Find out whether full send queues hold copies of the data, or references to a file.

The kernel's accounts of socket memory do not tell the two apart, so the file is overwritten while
it is queued. If the data arrives unchanged, it was copied. If not, the queue held references.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Annotated, Final, Literal

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.files import file_of
from tcplab.experiments.mode import open_loopback
from tcplab.experiments.quantities import Variant, column, computed
from tcplab.lab import Loopback

Method = Literal["read + send", "sendfile"]

FILE_BYTES: Final = 16_000_000  # more than a send queue and a receive queue hold together
BLOCK_BYTES: Final = 4096
_BEFORE, _AFTER = b"\0", b"\1"  # bytes that fill the file before and after it is queued


class Queue(Variant):
    """The data queued by one method, and how much of it was copied."""

    method: Method = column("method")
    clients: int = column("clients", "d", is_setting=True)
    queued_bytes: int  #: sum over all queues
    copied_bytes: int  #: bytes that did not change with the file
    queued_mb = computed(lambda queue: queue.queued_bytes / 1e6, "queued (MB)", ".1f")
    copied_mb = computed(lambda queue: queue.copied_bytes / 1e6, "copied (MB)", ".1f")
    copied_per_byte = computed(
        lambda queue: queue.copied_bytes / queue.queued_bytes, "copied / queued", ".2f"
    )


@experiment("send-queue", on_loopback=True, figure=("copied_mb", "queued_mb"))
def measure(clients: Annotated[int, Between(1, 64)] = 32) -> Result[Queue]:
    """Find out whether queued data was copied (by send()) or refers to the file (sendfile()).

    A file is sent to clients that do not read, until the queues are full. Then the file is
    overwritten, and the clients read. Data that has changed was never copied.

    Args:
        clients: connections, each of which takes up to 12 MB of memory
    """
    with open_loopback() as network, file_of(FILE_BYTES) as path, path.open("r+b") as file:
        queues = [
            Queue(method, clients, *_queue_and_overwrite(network, file.fileno(), send, clients))
            for method, send in _SENDERS.items()
        ]
        return Result(queues, provenance(network, file_bytes=FILE_BYTES))


_Sender = Callable[[int, int, int, int], int]


def _read_and_send(to: int, file: int, at: int, most: int) -> int:
    return os.write(to, os.pread(file, min(most, BLOCK_BYTES), at))


_SENDERS: Final[Mapping[Method, _Sender]] = {"read + send": _read_and_send, "sendfile": os.sendfile}


def _queue_and_overwrite(
    network: Loopback, file: int, send: _Sender, clients: int
) -> tuple[int, int]:
    """Return the number of queued bytes, and how many of them did not change with the file."""
    os.pwrite(file, _BEFORE * FILE_BYTES, 0)
    with _connections(network, clients) as connections:
        queued = sum(_fill(server.fileno(), file, send) for _client, server in connections)
        os.pwrite(file, _AFTER * FILE_BYTES, 0)
        for _client, server in connections:
            server.shutdown(socket.SHUT_WR)
        return queued, sum(_count(client, _BEFORE) for client, _server in connections)


def _count(client: socket.socket, byte: bytes) -> int:
    count = 0
    while data := client.recv(1 << 20):
        count += data.count(byte)
    return count


def _fill(to: int, file: int, send: _Sender) -> int:
    at = 0
    try:
        while at < FILE_BYTES:
            at += send(to, file, at, FILE_BYTES - at)
    except BlockingIOError:
        pass
    return at


@contextmanager
def _connections(
    network: Loopback, clients: int
) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    pairs = []
    with ExitStack() as stack:
        listener = stack.enter_context(network.server.socket())
        listener.bind((network.server.address, 0))
        listener.listen(clients)
        for _number in range(clients):
            client = stack.enter_context(network.client.socket())
            client.connect(listener.getsockname())
            connection, _address = listener.accept()
            stack.enter_context(connection).setblocking(False)
            pairs.append((client, connection))
        yield pairs
