"""Scenes for the problem set "diagnosis": six causes of a slow sender (see `tcplab draw`).

Three causes are the faults of the lesson's programs, and the others are easily mistaken for them.
The client always sends, and the capture shows its interface. If the client sends requests, one of
them is a single write. In the two scenes with a small receive buffer, the client pauses once.
At the start, the server makes pauses that are typical of two causes that are drawn. Before and
after the transfer, the client sends records, which go well.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import record_connection, small_talk

records = load_module(Path(__file__).parents[2] / "records.py", "tcplab_records_of_diagnosis")

ANSWER = "q4_causes"
CAUSES = load_module(
    Path(__file__).parent.parent / "task.py", "tcplab_task_of_diagnosis_in_scenes"
).CAUSES
#: For each cause, groups of pauses (minimum and maximum number, minimum and maximum length in s).
PAUSES = {
    "cork-not-pulled": [(4, 7, 0.217, 0.238), (10, 18, 0.012, 0.03)],
    "receiver-does-not-read": [(1, 1, 0.21, 0.5), (1, 2, 0.08, 0.2), (4, 7, 0.035, 0.1)],
    "segment-lost": [(1, 1, 0.217, 0.235), (3, 3, 0.012, 0.03)],
    "small-writes-and-delayed-ack": [(4, 6, 0.057, 0.076), (10, 18, 0.012, 0.03)],
    "tiny-segments": [(25, 44, 0.002, 0.006)],
    "window-smaller-than-bdp": [(4, 8, 0.024, 0.045)],
}
REPLY = b"ok"
MSS_BYTES = 1448


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    totals: records.Totals  #: counts of the capture, whatever its cause
    send: Callable[[socket.socket], None]  #: function that the client runs on its connection
    serve: Callable[[socket.socket], None]  #: function that the server runs on its connection
    rtt_ms: float  #: round-trip time of the link
    rcvbuf_bytes: int = 0  #: SO_RCVBUF of the server, set before listen(); 0 for the default
    lost: str = ""  #: the client's data packets, counted from 1, that the link drops
    pauses_s: tuple[float, ...] = ()  #: pauses of the server that are typical of the other causes


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    # The cause itself has as many messages, without pauses. A reply to a request is a message, too.
    pauses_s = [
        0.0 if other == cause else rng.uniform(shortest_s, longest_s)
        for other in rng.sample(CAUSES, 2)
        for least, most, shortest_s, longest_s in PAUSES[other]
        for _ in range(rng.randint(least, most))
    ]
    rng.shuffle(pauses_s)
    if cause not in ("cork-not-pulled", "small-writes-and-delayed-ack"):
        pauses_s += [0.0] * rng.randrange(5, 9)
    segments = rng.randrange(90, 150)
    sizes = (MSS_BYTES, *rng.sample(range(30, 400), rng.randrange(2, 12)))
    acks, lasts_s = segments * rng.randrange(75, 92) // 100, rng.uniform(9, 13)
    before = rng.randrange(5, segments // 2 - 20)
    totals = records.Totals(segments, acks, sizes, before, lasts_s)
    return replace(_draw(rng, cause, totals), pauses_s=tuple(pauses_s))


def _draw(rng: random.Random, cause: str, totals: records.Totals) -> Scene:
    rtt_ms = rng.randrange(12, 30)
    if cause in ("cork-not-pulled", "small-writes-and-delayed-ack"):
        header, body = rng.randrange(4, 40), rng.randrange(60, 600)
        requests = [(header, body)] * rng.randrange(5, 9)
        requests[rng.randrange(1, 4)] = (header + body,)  # this request is sent in one write
        return Scene(
            totals,
            partial(ask, requests=requests, cork=cause == "cork-not-pulled"),
            partial(answer, request_bytes=header + body, requests=len(requests)),
            rtt_ms,
        )
    if cause == "tiny-segments":
        # They are more than half of the segments.
        line = totals.data_segments // 2 + rng.randrange(2, 5)
        every_s = rng.randrange(2, 7) / 1000
        return Scene(totals, partial(tick, line_bytes=line, every_s=every_s), read, rtt_ms)
    # The last segment is full, too, because the window lets its last flight wait the longest.
    size = rng.randrange(11, 16) * MSS_BYTES
    send = partial(send_all, size=size, nap_s=rng.randrange(4, 9) / 1000)
    if cause == "window-smaller-than-bdp":
        return Scene(totals, send, read, rng.randrange(24, 45), rng.randrange(4400, 6500))
    if cause == "receiver-does-not-read":
        serve = partial(read, slow_bytes=size, nap_s=rng.randrange(150, 300) / 1000)
        return Scene(totals, send, serve, rng.randrange(20, 60), rng.randrange(8000, 11_000))
    # The last segment and its probe are lost, so only the retransmission timer is left.
    size = rng.randrange(9000, 14_400)
    last = totals.before - (-size // MSS_BYTES)
    send = partial(send_all, size=size, nap_s=0.0)
    return Scene(totals, send, read, rtt_ms, lost=f"{last}-{last + 1}")


def ask(connection: socket.socket, requests: list[tuple[int, ...]], cork: bool) -> None:
    """Send each request in the given writes, under a cork if `cork`, and await each reply."""
    if cork:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    for writes in requests:
        for size in writes:
            connection.sendall(b"r" * size)
        connection.recv(len(REPLY))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def tick(connection: socket.socket, line_bytes: int, every_s: float) -> None:
    """Send one character every `every_s` seconds, with TCP_NODELAY."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(line_bytes):
        connection.sendall(b"c")
        time.sleep(every_s)


def send_all(connection: socket.socket, size: int, nap_s: float) -> None:
    """Send `size` bytes, with a pause of `nap_s` in the middle."""
    half = size // 2 // MSS_BYTES * MSS_BYTES
    connection.sendall(b"d" * half)
    time.sleep(nap_s)
    connection.sendall(b"d" * (size - half))


def answer(connection: socket.socket, request_bytes: int, requests: int) -> None:
    """Send a reply to each complete request, then read to the end."""
    for _ in range(requests):
        connection.recv(request_bytes, socket.MSG_WAITALL)
        connection.sendall(REPLY)
    read(connection)


def read(connection: socket.socket, slow_bytes: int = 0, nap_s: float = 0.0) -> None:
    """Read to the end, with a pause of `nap_s` before each call until `slow_bytes` are read."""
    received, block = 0, b"?"
    while block:
        if received < slow_bytes:
            time.sleep(nap_s)
        block = connection.recv(65536)
        received += len(block)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""

    def prepare(listener: socket.socket, _: socket.socket) -> None:
        if scene.rcvbuf_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)

    with Lab(rtt_ms=scene.rtt_ms) as lab:
        if scene.lost:
            lab.link.script("client->server", f"drop data nth={scene.lost}")
        talk = small_talk(30, 30_000, last_s=scene.pauses_s)
        client, server = records.with_records(scene.totals, scene.send, scene.serve)
        record_connection(lab, path, client, server, prepare=prepare, snaplen=66, talk=talk)
