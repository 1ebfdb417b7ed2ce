"""The client's last segments, which make counts of a capture independent of its cause.

A scene's totals are drawn before its cause matters. After its own part, the client sends small
segments, and the server delays ACKs or does not, until the totals are reached.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tcplab.grading.captures import finish

#: Offsets of counters in the kernel's struct tcp_info.
_UNACKED, _SEGS_OUT, _NOTSENT_BYTES, _DATA_SEGS_IN, _DATA_SEGS_OUT = 24, 136, 144, 152, 156
End = Callable[[socket.socket], None]


class Totals(NamedTuple):
    """Counts of a capture that do not depend on its cause."""

    data_segments: int  #: the client's segments with data
    acks: int  #: the server's segments without data
    sizes: Sequence[int]  #: bytes of the client's last segments; the last size is repeated
    lasts_s: float = 0.0  #: time from with_farewell() to the FIN, if it takes no longer anyway


def _top_up(client: socket.socket, server: socket.socket, totals: Totals) -> None:
    """Send segments from the client, while another thread reads, until the totals are reached."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while _info(client, _UNACKED) or _info(client, _NOTSENT_BYTES):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        time.sleep(0.001)
    missing = totals.data_segments - _info(client, _DATA_SEGS_OUT)
    for number in range(missing):
        arrived = _info(server, _DATA_SEGS_IN)
        # The kernel leaves this mode whenever it has delayed an ACK.
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        client.sendall(bytes(totals.sizes[min(number, len(totals.sizes) - 1)]))
        while _info(server, _DATA_SEGS_IN) == arrived:
            time.sleep(0.001)
        acks = _info(server, _SEGS_OUT) - _info(server, _DATA_SEGS_OUT)
        if totals.acks - acks >= missing - number:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _info(connection: socket.socket, offset: int) -> int:
    """Return a counter of the kernel's TCP_INFO."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return int.from_bytes(info[offset : offset + 4], sys.byteorder)


def with_farewell(totals: Totals, client: End, server: End) -> tuple[End, End]:
    """Return a client that says farewell after its part, and a server that waits for its end.

    The server has to read to the end, at once when the client's own part is over.
    """
    accepted: list[socket.socket] = []
    started_s = time.monotonic()

    def first(connection: socket.socket) -> None:
        client(connection)
        _top_up(connection, accepted[0], totals)
        time.sleep(max(0.0, started_s + totals.lasts_s - time.monotonic()))
        finish(connection)

    def second(connection: socket.socket) -> None:
        accepted.append(connection)
        server(connection)

    return first, second
