"""Scenes for the problem set "real-programs": five causes of late, small or lost answers.

The recorder is on the client's interface. In every scene the client requests pages and files in a
random order, and pauses once. The server makes its pages in the way that the cause says, and sends
each file in one call. The files make up for the segments that the cause adds or saves.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
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
class Answer:
    """A request and the answer to it."""

    request_bytes: int
    size_bytes: int
    is_file: bool  #: whether the server sends it in one call, whatever the cause
    quick: bool  #: whether the client acknowledges each of its segments at once


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    answers: tuple[Answer, ...]
    pause_s: float  #: pause of the client before its last request
    rtt_ms: float  #: round-trip time of the link
    early_s: float  #: pause in the greeting, which makes up for the waits of other causes
    think_s: float = 0.0  #: pause of the server before each page
    header_bytes: int = 0  #: size of the first of two writes of a page; 0 for a single write
    piece_bytes: int = 0  #: size of each of a page's many writes; 0 for a single write
    unread_bytes: int = 0  #: bytes of the last request that the server does not read


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    rtt_ms = rng.randrange(12, 60)
    pages = [rng.randrange(110, 320) for _ in range(rng.randrange(8, 14))]
    piece, header, unread = rng.randrange(35, 48), rng.randrange(50, 100), rng.randrange(500, 1000)
    think_s = rtt_ms * rng.uniform(1.3, 2) / 1000
    count, often = rng.randrange(10, 20), rng.random()
    # The segments of the files, so that all answers together have as many, whatever the cause.
    own = {"many-small-writes": sum(-(-size // piece) for size in pages)}
    own["body-waits-for-ack"] = 2 * len(pages)
    left = round(len(pages) * 7 + count * rng.uniform(1.5, 6)) - own.get(cause, len(pages))
    files = []
    for others in range(count - 1, -1, -1):
        # Up to ten segments fit into the first congestion window.
        full = min(9, max(0, round(left / (others + 1) + rng.uniform(-2, 2)) - 1))
        left -= full + 1
        files.append(full * 1448 + rng.randrange(60, 1448))
    sizes = [(size, False) for size in pages] + [(size, True) for size in files]
    rng.shuffle(sizes)
    # The last request is the largest one in every scene, and no request takes two segments.
    answers = tuple(
        Answer(
            rng.randrange(60, 400) + unread * (number == len(sizes) - 1),
            size,
            is_file,
            rng.random() < often,
        )
        for number, (size, is_file) in enumerate(sizes)
    )
    waits_s = {"program-thinks": think_s, "body-waits-for-ack": rtt_ms / 1000 + 0.04}
    early_s = len(pages) * (rng.choice([0.0, *waits_s.values()]) if cause not in waits_s else 0.0)
    return Scene(
        answers,
        rng.randrange(20, 50) / 1000,
        rtt_ms,
        early_s,
        think_s if cause == "program-thinks" else 0.0,
        header if cause == "body-waits-for-ack" else 0,
        piece if cause == "many-small-writes" else 0,
        unread if cause == "closed-with-bytes-unread" else 0,
    )


def serve(connection: socket.socket, scene: Scene) -> None:
    """Read each request, except `unread_bytes` of the last one, and answer it.

    Each request is acknowledged before the answer, as if the server had thought for longer than a
    delayed ACK takes.
    """
    for answer in scene.answers:
        unread = scene.unread_bytes if answer is scene.answers[-1] else 0
        read(connection, answer.request_bytes - unread)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        if answer.is_file:
            connection.sendall(bytes(answer.size_bytes))
            continue
        time.sleep(scene.think_s)
        if scene.piece_bytes:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for first in range(0, answer.size_bytes, scene.piece_bytes):
                connection.sendall(bytes(min(scene.piece_bytes, answer.size_bytes - first)))
                time.sleep(0.001)  # so that the client reads and acknowledges each
        elif scene.header_bytes:
            connection.sendall(bytes(scene.header_bytes))
            connection.sendall(bytes(answer.size_bytes - scene.header_bytes))
        else:
            connection.sendall(bytes(answer.size_bytes))
    if not scene.unread_bytes:
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
        for answer in scene.answers:
            if answer is scene.answers[-1]:
                time.sleep(scene.pause_s)
            connection.sendall(bytes(answer.request_bytes))
            read(connection, answer.size_bytes, answer.quick)
        with contextlib.suppress(OSError):  # raised after a reset
            finish(connection)

    with Lab(rtt_ms=scene.rtt_ms) as lab:
        talk = [(scene.early_s, 100), *small_talk(40, 40_000)]
        server = partial(serve, scene=scene)
        record_connection(lab, path, client, server, port=PORT, snaplen=66, talk=talk)
