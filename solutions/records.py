"""Even out counts of a capture, by records of the client and by ACKs that the server delays.

A scene's totals are drawn before its cause matters. The client sends one record at a time before
and after its own part, and the server delays ACKs or does not, until the totals are reached.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Sequence
from queue import Queue
from typing import NamedTuple

from tcplab.grading.captures import finish

#: Offsets of counters in the kernel's struct tcp_info.
_UNACKED, _SEGS_OUT, _NOTSENT_BYTES, _DATA_SEGS_IN, _DATA_SEGS_OUT = 24, 136, 144, 152, 156
End = Callable[[socket.socket], None]


class Totals(NamedTuple):
    """Counts of a capture that do not depend on its cause."""

    data_segments: int  #: the client's segments with data
    acks: int  #: the server's segments without data
    sizes: Sequence[int]  #: bytes of the client's records; the last size is repeated
    before: int  #: number of records before the client's own part
    lasts_s: float = 0.0  #: time from with_records() to the FIN, if it takes no longer anyway

    def size(self, number: int) -> int:
        """Return the size of a record. The first record has the number 0."""
        return self.sizes[min(number, len(self.sizes) - 1)]


def acknowledge(server: socket.socket, acks: int, data_segments: int) -> None:
    """Acknowledge at once, or later if enough ACKs left for the segments that have arrived."""
    arrived = _info(server, _DATA_SEGS_IN)
    sent = _info(server, _SEGS_OUT) - _info(server, _DATA_SEGS_OUT)
    # The kernel leaves this mode whenever it has delayed an ACK.
    quick = sent * data_segments <= arrived * acks
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, int(quick))


def awaits_acks(client: socket.socket) -> bool:
    """Return whether the client has data that is not yet sent, or not yet acknowledged."""
    return bool(_info(client, _UNACKED) or _info(client, _NOTSENT_BYTES))


def _settle(client: socket.socket, server: socket.socket) -> None:
    """Wait until everything is sent and acknowledged, without delayed ACKs."""
    while awaits_acks(client):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        time.sleep(0.001)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


def _send(client: socket.socket, server: socket.socket, totals: Totals, numbers: range) -> None:
    """Send records from the client, while another thread reads, with the totals' share of ACKs."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in numbers:
        arrived = _info(server, _DATA_SEGS_IN)
        acknowledge(server, totals.acks, totals.data_segments)
        client.sendall(bytes(totals.size(number)))
        while _info(server, _DATA_SEGS_IN) == arrived:
            time.sleep(0.001)
    _settle(client, server)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)


def _info(connection: socket.socket, offset: int) -> int:
    """Return a counter of the kernel's TCP_INFO."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return int.from_bytes(info[offset : offset + 4], sys.byteorder)


def with_records(totals: Totals, client: End, server: End) -> tuple[End, End]:
    """Return a client that sends records around its part, and a server that waits for its end.

    The server has to read to the end, at once when the client's own part is over.
    """
    accepted: Queue[socket.socket] = Queue()
    started_s = time.monotonic()

    def first(connection: socket.socket) -> None:
        peer = accepted.get()
        _send(connection, peer, totals, range(totals.before))
        client(connection)
        _settle(connection, peer)
        more = totals.data_segments - _info(connection, _DATA_SEGS_OUT)
        _send(connection, peer, totals, range(totals.before, totals.before + more))
        time.sleep(max(0.0, started_s + totals.lasts_s - time.monotonic()))
        finish(connection)

    def second(connection: socket.socket) -> None:
        accepted.put(connection)
        connection.recv(sum(map(totals.size, range(totals.before))), socket.MSG_WAITALL)
        server(connection)

    return first, second
