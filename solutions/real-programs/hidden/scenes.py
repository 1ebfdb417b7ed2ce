"""Scenes for the problem set "real-programs": five causes of late, small or lost answers.

The recorder is on the client's interface. Every scene has several requests of the same kind, one
harmless pause of the client, and answers of similar sizes.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import finish, record_connection, small_talk

ANSWER = "q4_cause"
CAUSES = load_module(
    Path(__file__).parent.parent / "task.py", "tcplab_task_of_real_programs_in_scenes"
).CAUSES
PORT = 80


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    requests: tuple[int, ...]  #: bytes of each request
    answers: tuple[int, ...]  #: total bytes of each answer
    pause_s: float  #: pause of the client before its last request
    serve: Callable[..., None]  #: function that the server calls with socket, requests and answers
    rtt_ms: float  #: round-trip time of the link
    early: tuple[tuple[float, int], ...]  #: messages of the greeting, as many as small writes
    quick: bool  #: whether the client acknowledges every segment of an answer at once


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    requests = tuple(rng.randrange(60, 400) for _ in range(rng.randrange(4, 7)))
    # The last request is the largest one in every scene, and no request takes two segments.
    unread = rng.randrange(500, 1000)
    requests = (*requests[:-1], requests[-1] + unread)
    answers = tuple(rng.randrange(300, 900) for _ in requests)
    header = rng.randrange(90, 200)
    rtt_ms = rng.randrange(12, 60)
    think_s, piece = 0.0, rng.randrange(35, 48)
    # Eight fit into a congestion window. More at a time would leave in longer segments.
    early = tuple(
        (0.0 if at % 8 else rtt_ms / 1000, piece)
        for at in range(sum(size // piece for size in answers))
    )
    if cause == "program-thinks":
        think_s = rtt_ms * rng.uniform(1.3, 2) / 1000
    elif cause == "many-small-writes":
        early = early[::8]  # One message per round trip takes as long.
    serve = partial(
        answer,
        header_bytes=header if cause == "body-waits-for-ack" else 0,
        think_s=think_s,
        unread_bytes=unread if cause == "closed-with-bytes-unread" else 0,
        piece_bytes=piece if cause == "many-small-writes" else 0,
    )
    pause_s = rng.randrange(20, 50) / 1000
    return Scene(
        requests, answers, pause_s, serve, rtt_ms, early, quick=cause == "many-small-writes"
    )


def answer(
    connection: socket.socket,
    requests: tuple[int, ...],
    answers: tuple[int, ...],
    header_bytes: int,
    think_s: float,
    unread_bytes: int,
    piece_bytes: int,
) -> None:
    """Read each request, except `unread_bytes` of the last one, and answer it in the given way.

    Each request is acknowledged before the answer, as if the server had thought for longer than a
    delayed ACK takes.
    """
    for number, (asked, size) in enumerate(zip(requests, answers, strict=True)):
        if number == len(requests) - 1:
            asked -= unread_bytes
        read(connection, asked)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        time.sleep(think_s)
        if piece_bytes:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for first in range(0, size, piece_bytes):
                connection.sendall(bytes(min(piece_bytes, size - first)))
                time.sleep(0.001)  # so that the client reads and acknowledges each
        elif header_bytes:
            connection.sendall(bytes(header_bytes))
            connection.sendall(bytes(size - header_bytes))
        else:
            connection.sendall(bytes(size))
    if not unread_bytes:
        read(connection, 1)


def read(connection: socket.socket, size: int, quick: bool = False) -> None:
    """Read `size` bytes, or fewer if the stream ends before; acknowledge all at once if `quick`."""
    while size > 0 and (block := connection.recv(size)):
        size -= len(block)
        if quick:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""

    def client(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, size in enumerate(scene.requests):
            if number == len(scene.requests) - 1:
                time.sleep(scene.pause_s)
            connection.sendall(bytes(size))
            read(connection, scene.answers[number], scene.quick)
        with contextlib.suppress(OSError):  # raised after a reset
            finish(connection)

    with Lab(rtt_ms=scene.rtt_ms) as lab:
        talk = [*scene.early, *small_talk(messages=130, bulk_bytes=120_000)]
        server = partial(_serve, scene)
        record_connection(lab, path, client, server, port=PORT, snaplen=66, talk=talk)


def _serve(scene: Scene, connection: socket.socket) -> None:
    scene.serve(connection, scene.requests, scene.answers)
