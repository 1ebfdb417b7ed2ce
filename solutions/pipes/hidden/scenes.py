"""Scenes for the problem set "pipes": three causes of the longest pause (see `tcplab draw`).

A client sends a file and a FIN. A server sends a greeting, and an answer after the end of the file.
In every scene the sender pauses once, the receiver pauses once with a small buffer, and at least
one segment is lost. Only one of these events causes a long pause.
"""

from __future__ import annotations

import random
import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import finish, record_connection, small_talk

ANSWER = "q5_reason"
CAUSES = ("receiver-full", "segment-lost", "sender-idle")
MSS_BYTES = 1448


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    file_bytes: int  #: size of the file that the client sends
    greeting_bytes: int  #: size of the greeting that the server sends at once
    answer: tuple[int, ...]  #: sizes of the server's writes after the client's FIN
    sender_naps_s: float  #: pause in the middle of the file
    reader_naps_s: float  #: pause of the server after its first read
    rcvbuf_bytes: int  #: SO_RCVBUF of the server
    lost: str  #: the client's data segments that the link drops, counted from 1


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    size = rng.randrange(40_000, 120_000)
    last = -(-size // MSS_BYTES)
    # A loss in the middle is revealed by later segments, and a loss at the end only by a timer.
    lost = f"{rng.randrange(4, 8)}"
    if cause == "segment-lost":
        # The last segment and its probe are lost, so only the retransmission timer is left.
        lost += f",{last + 1}-{last + 2}"
    long_s = rng.randrange(150, 290, 3) / 1000
    short_s = [rng.randrange(15, 60) / 1000 for _ in range(2)]
    return Scene(
        size,
        rng.randrange(30, 1000),
        tuple(rng.randrange(60, 2400) for _ in range(rng.randrange(1, 16))),
        long_s if cause == "sender-idle" else short_s[0],
        long_s if cause == "receiver-full" else short_s[1],
        rng.randrange(12_000, 16_000),
        lost,
    )


def send(connection: socket.socket, scene: Scene) -> None:
    """Send the file and a FIN, and read everything that the server sends."""
    file = random.Random(scene.file_bytes).randbytes(scene.file_bytes)
    time.sleep(0.03)  # the greeting arrives before the file ends
    half = scene.file_bytes * 2 // 3 // MSS_BYTES * MSS_BYTES
    connection.sendall(file[:half])
    time.sleep(scene.sender_naps_s)
    connection.sendall(file[half:])
    finish(connection)


def serve(connection: socket.socket, scene: Scene) -> None:
    """Send the greeting, read to the end, and send the answer."""
    connection.sendall(b"g" * scene.greeting_bytes)
    connection.recv(2 * MSS_BYTES)
    time.sleep(scene.reader_naps_s)
    while connection.recv(4096):
        pass
    for size in scene.answer:
        connection.sendall(b"a" * size)
        time.sleep(0.002)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""

    def prepare(listener: socket.socket, _: socket.socket) -> None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)

    with Lab(rtt_ms=10) as lab:
        lab.link.script("client->server", f"drop data nth={scene.lost}")
        client, server = partial(send, scene=scene), partial(serve, scene=scene)
        talk = small_talk(19, 19_000)
        record_connection(lab, path, client, server, prepare=prepare, talk=talk)
