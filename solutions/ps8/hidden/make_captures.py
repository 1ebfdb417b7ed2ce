"""Makes captures/N.pcapng anew, in a Lab: one for each of six causes that make a sender slow.

python solutions/ps8/hidden/make_captures.py [NAME...]

Three are the faults of lesson 08's programs, the others are what they are easily mistaken for. The
client always sends, and the recorder is always on its interface.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import finish, make_captures, record_connection

HEADER, BODY, ANSWER = b"0100", b"b" * 100, b"ok"
MSS_BYTES = 1448


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

    Attributes:
        cause: of what is to be seen.
        send: what the client does with its connection.
        serve: what the server does.
        rtt_ms: of the wire.
        rcvbuf_bytes: SO_RCVBUF of the server, set before listen(); 0 leaves it alone.
        lost: the client's data packets, counted from 1, that the wire drops.
    """

    cause: str
    send: Callable[[socket.socket], None]
    serve: Callable[[socket.socket], None]
    rtt_ms: float = 20
    rcvbuf_bytes: int = 0
    lost: str = ""


# ---- the clients ----


def ask(connection: socket.socket) -> None:
    """Requests one after the other, each in two writes."""
    for _ in range(7):
        connection.sendall(HEADER)
        connection.sendall(BODY)
        connection.recv(len(ANSWER))


def ask_corked(connection: socket.socket) -> None:
    """The same under a cork that nobody pulls."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    ask(connection)


def tick(connection: socket.socket) -> None:
    """A character at a time, sent at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for character in b"tick 00000000 price 0000000000 EUR.\n":
        connection.sendall(bytes([character]))
        time.sleep(0.004)


def sender(size: int) -> Callable[[socket.socket], None]:
    """All at once."""

    def send(connection: socket.socket) -> None:
        connection.sendall(b"d" * size)

    return send


# ---- the servers ----


def answer(connection: socket.socket) -> None:
    """Answers each complete request."""
    received = 0
    while block := connection.recv(4096):
        before, received = received, received + len(block)
        size = len(HEADER + BODY)
        for _ in range(received // size - before // size):
            connection.sendall(ANSWER)


def read(connection: socket.socket) -> None:
    """Reads as fast as data come."""
    while connection.recv(65536):
        pass


def read_seldom(connection: socket.socket) -> None:
    """Has other things to do in between."""
    time.sleep(0.25)
    while connection.recv(65536):
        time.sleep(0.25)


SCENES = {
    "1": Scene("window-smaller-than-bdp", sender(33_000), read, 30, rcvbuf_bytes=4600),
    "2": Scene("small-writes-and-delayed-ack", ask, answer, 16),
    "3": Scene("tiny-segments", tick, read, 12),
    "4": Scene("receiver-does-not-read", sender(26_000), read_seldom, 60, rcvbuf_bytes=9000),
    "5": Scene("cork-not-pulled", ask_corked, answer, 18),
    "6": Scene("segment-lost", sender(13_600), read, 22, lost="10-11"),
}


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host."""

    def prepare(listener: socket.socket, _: socket.socket) -> None:
        if scene.rcvbuf_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)

    def client(connection: socket.socket) -> None:
        scene.send(connection)
        finish(connection)

    with Lab(rtt_ms=scene.rtt_ms) as lab:
        if scene.lost:
            # The last segment and the probe for it: what is left is the retransmission timer.
            lab.link.script("client->server", f"drop data nth={scene.lost}")
        record_connection(lab, path, client, scene.serve, prepare=prepare, snaplen=66)


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.cause for name, each in SCENES.items()})
