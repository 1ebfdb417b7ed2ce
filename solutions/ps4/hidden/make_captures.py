"""Makes captures/N.pcapng anew, in a Lab: what holds a sender back, four causes.

python solutions/ps4/hidden/make_captures.py [NAME...]

A client sends a file over a wire of 20 ms, and the server reads it.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import finish, make_captures, record_connection

MSS_BYTES = 1448


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

    Attributes:
        reason: of the longest pause between data segments.
        file_bytes: that the client sends.
        rcvbuf_bytes: of the server; 0 leaves it to the kernel.
        sndbuf_bytes: of the client; 0 leaves it to the kernel.
        reader_sleeps_s: before the server's first read.
        writer_sleeps_s: in the middle of the file.
    """

    reason: str
    file_bytes: int
    rcvbuf_bytes: int = 0
    sndbuf_bytes: int = 0
    reader_sleeps_s: float = 0.0
    writer_sleeps_s: float = 0.0


SCENES = {
    "1": Scene("receive-window", 43_000, rcvbuf_bytes=8192),
    "2": Scene("send-buffer", 26_064, sndbuf_bytes=4608),
    "3": Scene("congestion-window", 62_000),
    "4": Scene("application", 24_000, writer_sleeps_s=0.13),
    "5": Scene("receive-window", 38_000, rcvbuf_bytes=11_000, reader_sleeps_s=0.17),
    "6": Scene("send-buffer", 31_856, sndbuf_bytes=7000),
}


def send(connection: socket.socket, scene: Scene) -> None:
    """The file, in writes of a segment each when the send buffer is small."""
    file = bytes(scene.file_bytes)
    size = MSS_BYTES if scene.sndbuf_bytes else scene.file_bytes
    if scene.writer_sleeps_s:
        size = scene.file_bytes // 2
    for start in range(0, scene.file_bytes, size):
        if start:
            time.sleep(scene.writer_sleeps_s)
        connection.sendall(file[start : start + size])
    finish(connection)


def serve(connection: socket.socket, scene: Scene) -> None:
    """Reads to the end."""
    time.sleep(scene.reader_sleeps_s)
    while connection.recv(65536):
        pass


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host."""

    def prepare(listener: socket.socket, connection: socket.socket) -> None:
        for end in (listener, connection):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        if scene.rcvbuf_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)
        if scene.sndbuf_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, scene.sndbuf_bytes)

    with Lab(rtt_ms=20) as lab:
        client, server = partial(send, scene=scene), partial(serve, scene=scene)
        record_connection(lab, path, client, server, prepare=prepare)


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.reason for name, each in SCENES.items()})
