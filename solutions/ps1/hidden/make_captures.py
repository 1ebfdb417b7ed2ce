"""Makes captures/N.pcapng anew, in a Lab: three causes of a pause, two captures of each.

python solutions/ps1/hidden/make_captures.py [NAME...]

A client sends a file and ends its direction; a server greets, and answers after the file's end.
"""

from __future__ import annotations

import random
import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import finish, make_captures, record_connection


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

    Attributes:
        reason: of the longest pause.
        file_bytes: that the client sends.
        greeting_bytes: that the server sends at once.
        answer: the server's writes after the client's end, in bytes.
        pause_after: where the sender or the receiver pauses, or whose segment is lost, in bytes.
        pause_s: for how long the sender or the receiver does nothing.
    """

    reason: str
    file_bytes: int
    greeting_bytes: int
    answer: tuple[int, ...]
    pause_after: int
    pause_s: float = 0.0


SCENES = {
    "1": Scene("segment-lost", 12_345, 220, (700, 1200), 12_345),
    "2": Scene("receiver-full", 31_000, 64, (1448, 333), 1448, 0.17),
    "3": Scene("sender-idle", 17_777, 512, (90, 2000), 8192, 0.21),
    "4": Scene("segment-lost", 13_600, 31, (410,), 13_600),
    "5": Scene("receiver-full", 36_500, 150, (80, 80, 80), 2000, 0.26),
    "6": Scene("sender-idle", 15_203, 1000, (2500,), 4096, 0.16),
}


def send(connection: socket.socket, scene: Scene) -> None:
    """The client: the file, our end, and then everything that the server says."""
    file = random.Random(scene.file_bytes).randbytes(scene.file_bytes)
    time.sleep(0.03)  # the greeting comes before the file's end
    if scene.reason == "sender-idle":
        connection.sendall(file[: scene.pause_after])
        time.sleep(scene.pause_s)
        connection.sendall(file[scene.pause_after :])
    else:
        connection.sendall(file)
    finish(connection)


def serve(connection: socket.socket, scene: Scene) -> None:
    """The server: greets, reads to the end, answers."""
    connection.sendall(b"g" * scene.greeting_bytes)
    received = 0
    while block := connection.recv(4096):
        passed = received < scene.pause_after <= received + len(block)
        received += len(block)
        if passed and scene.reason == "receiver-full":
            time.sleep(scene.pause_s)
    for size in scene.answer:
        connection.sendall(b"a" * size)
        time.sleep(0.002)


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host."""

    def prepare(listener: socket.socket, _: socket.socket) -> None:
        if scene.reason == "receiver-full":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 14000)

    with Lab(rtt_ms=10) as lab:
        if scene.reason == "segment-lost":
            # The last segment and the probe for it: what is left is the retransmission timer.
            last = -(-scene.file_bytes // 1448)
            lab.link.script("client->server", f"drop data nth={last}-{last + 1}")
        client, server = partial(send, scene=scene), partial(serve, scene=scene)
        record_connection(lab, path, client, server, prepare=prepare)


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.reason for name, each in SCENES.items()})
