"""Scenes for the problem set "buffers": four causes that limit a sender (see `tcplab draw`).

A client sends a file over a link with a 20 ms RTT, and the server reads it. In every scene both
buffers have a fixed size and the writer pauses, but only one cause limits the sender for long.
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

ANSWER = "q6_reason"
CAUSES = ("application", "congestion-window", "receive-window", "send-buffer")
MSS_BYTES = 1448


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    file_bytes: int  #: size of the file that the client sends
    rcvbuf_bytes: int  #: SO_RCVBUF of the server
    sndbuf_bytes: int  #: SO_SNDBUF of the client
    reader_naps_s: float  #: pause before the server's first read
    writer_naps_s: float  #: pause in the middle of the file
    quick: bool = False  #: whether the server acknowledges its first segments one by one
    pauses: int = 0  #: more pauses of the server, so that pauses do not reveal the cause


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    # A whole number of segments, so that the last one is full, whatever limits the sender.
    size = rng.randrange(28, 46) * MSS_BYTES
    quick = rng.random() < 0.5
    roomy, short_s = rng.randrange(100_000, 280_000), rng.randrange(3, 9) / 1000
    if cause == "receive-window":
        naps_s = rng.choice([0.0, rng.randrange(100, 200) / 1000])
        return Scene(size, rng.randrange(6000, 13_000), roomy, naps_s, short_s, quick)
    if cause == "send-buffer":
        return Scene(size, roomy, rng.randrange(4608, 7400), 0.0, short_s)
    if cause == "congestion-window":
        return Scene(size, roomy, roomy, 0.0, short_s, quick, pauses=rng.randrange(2, 7))
    small = rng.choice([rng.randrange(6000, 13_000), roomy])
    return Scene(size, small, roomy, 0.0, rng.randrange(80, 190) / 1000, quick)


def send(connection: socket.socket, scene: Scene) -> None:
    """Send the file, one segment per write if the send buffer is small, and pause in the middle."""
    file, half = bytes(scene.file_bytes), scene.file_bytes // 2 // MSS_BYTES * MSS_BYTES
    small = scene.sndbuf_bytes < 10_000
    for start in range(0, scene.file_bytes, MSS_BYTES if small else half):
        if start == half:
            time.sleep(scene.writer_naps_s)
        connection.sendall(file[start : start + (MSS_BYTES if small else half)])
    finish(connection)


def serve(connection: socket.socket, scene: Scene) -> None:
    """Pause, then read to the end. Acknowledge every other segment, like a small window."""
    if scene.quick:
        connection.recv(1, socket.MSG_PEEK)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    time.sleep(scene.reader_naps_s)
    while connection.recv(65536):
        pass


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""

    def prepare(listener: socket.socket, connection: socket.socket) -> None:
        for end in (listener, connection):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, scene.sndbuf_bytes)

    talk = small_talk(50, 40_000, last_s=[0.02] * scene.pauses)
    with Lab(rtt_ms=20) as lab:
        client, server = partial(send, scene=scene), partial(serve, scene=scene)
        record_connection(lab, path, client, server, prepare=prepare, talk=talk)
