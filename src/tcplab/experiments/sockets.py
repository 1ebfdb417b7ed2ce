"""Connect the hosts of a network with Python sockets."""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tcplab.lab import Network

MSS_BYTES: Final = 1448  # MTU 1500 minus 20 (IP), 20 (TCP) and 12 (timestamps option)


@contextmanager
def connection(
    network: Network, *, before: int | None = None, after: int | None = None, first: bytes = b""
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield a connected sender and receiver; set SO_RCVBUF `before` listen(), `after` accept().

    The sender sends `first` as soon as it is connected, half a round trip before the receiver is.
    """
    with network.server.socket() as listener, network.client.socket() as sender:
        for end in (listener, sender):
            end.settimeout(30)
        if before is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, before)
        listener.bind((network.server.address, 0))
        listener.listen()
        sender.connect(listener.getsockname())
        sender.sendall(first)
        receiver, _address = listener.accept()
        with receiver:
            receiver.settimeout(30)
            if after is not None:
                receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, after)
            yield sender, receiver
        # Segments that are still in flight must reach the recorders.
        time.sleep(network.rtt_ms / 1e3 + 0.02)


@contextmanager
def sending(sender: socket.socket, size: int, *, end: bool = True) -> Iterator[None]:
    """Send `size` bytes, and a FIN if `end` is set, in a thread during a with statement."""

    def send() -> None:
        sender.sendall(bytes(size))
        if end:
            sender.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    thread.join()


def send_and_wait(
    network: Network, sender: socket.socket, receiver: socket.socket, size: int
) -> None:
    """Send `size` bytes, and wait until the receiver has read and acknowledged them."""
    with sending(sender, size, end=False):
        read_all(receiver, size)
    time.sleep(network.rtt_ms / 1e3)  # the last ACK is still in flight


def read_all(receiver: socket.socket, most: float = math.inf) -> int:
    """Read until EOF or until `most` bytes have arrived; return the number of bytes read."""
    total = 0
    while total < most and (got := len(receiver.recv(1 << 16))):
        total += got
    return total
