"""Scenes for the problem set "buffers": four causes that limit a sender (see `tcplab draw`).

A client sends a file over a link with a 20 ms RTT, and the server reads it. In every scene both
buffers have a fixed size and the writer pauses, but only one cause limits the sender for long. The
numbers of segments and of ACKs and the time to the FIN are drawn before the cause, and the server
delays ACKs or does not until their number is right, so that counts do not reveal the cause.
"""

from __future__ import annotations

import random
import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import finish, record_connection

records = load_module(Path(__file__).parents[2] / "records.py", "tcplab_records_of_buffers")

ANSWER = "q6_reason"
CAUSES = ("application", "congestion-window", "receive-window", "send-buffer")
MSS_BYTES = 1448
#: The link carries more per round trip than any sender has in flight. Its segments arrive one by
#: one, so the server can acknowledge each of them.
RATE_MBIT = 40


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    segments: int  #: full segments of the file that the client sends
    before: int  #: how many of them it writes before its pause
    acks: int  #: the server's segments without data until the file has arrived
    lasts_s: float  #: time from the first write to the FIN, if the file takes no longer
    rcvbuf_bytes: int  #: SO_RCVBUF of the server
    sndbuf_bytes: int  #: SO_SNDBUF of the client
    reader_naps_s: float  #: pause before the server's first read
    writer_naps_s: float  #: pause in the file
    idle: bool = False  #: whether that pause begins only when everything is acknowledged


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    segments = rng.randrange(44, 76)
    before, acks = rng.randrange(15, segments - 15), segments * rng.randrange(50, 80) // 100
    own = (segments, before, acks, rng.uniform(0.8, 1.2))
    # With a larger buffer, the largest window would often be the largest of its scale.
    roomy, short_s = rng.randrange(66_000, 104_000), rng.randrange(3, 9) / 1000
    if cause == "receive-window":
        if rng.random() < 0.5:  # The window is below ten segments, the first congestion window.
            return Scene(*own, rng.randrange(6000, 11_500), roomy, 0.0, short_s)
        # Delayed ACKs let the window fill only after 70 ms.
        naps_s = rng.randrange(150, 250) / 1000
        return Scene(*own, rng.randrange(6000, 26_000), roomy, naps_s, short_s)
    if cause == "send-buffer":
        return Scene(*own, roomy, rng.randrange(4608, 9000), 0.0, short_s)
    if cause == "congestion-window":
        return Scene(*own, roomy, roomy, 0.0, short_s)
    small = rng.choice([rng.randrange(6000, 26_000), roomy])
    return Scene(*own, small, roomy, 0.0, rng.randrange(80, 190) / 1000, idle=True)


def send(connection: socket.socket, scene: Scene) -> None:
    """Send the file with a pause in it, and the FIN when everything is acknowledged."""
    ends_s = time.monotonic() + scene.lasts_s
    write(connection, scene.before, scene)
    while scene.idle and records.awaits_acks(connection):
        time.sleep(0.001)
    time.sleep(scene.writer_naps_s)
    write(connection, scene.segments - scene.before, scene)
    while records.awaits_acks(connection):
        time.sleep(0.001)
    time.sleep(max(0.0, ends_s - time.monotonic()))
    finish(connection)


def write(connection: socket.socket, segments: int, scene: Scene) -> None:
    """Write a number of segments, one per call if the send buffer is small."""
    at_once = 1 if scene.sndbuf_bytes < 10_000 else segments
    for _ in range(0, segments, at_once):
        connection.sendall(bytes(at_once * MSS_BYTES))


def serve(connection: socket.socket, scene: Scene) -> None:
    """Pause, then read to the end, and send the scene's number of ACKs."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    time.sleep(scene.reader_naps_s)
    while connection.recv(MSS_BYTES):
        records.acknowledge(connection, scene.acks, scene.segments)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""

    def prepare(listener: socket.socket, connection: socket.socket) -> None:
        for end in (listener, connection):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, scene.sndbuf_bytes)

    # By default a sender holds a segment back while a small window opens by only one, so less than
    # the window is in flight.
    sysctls = {"net.ipv4.tcp_tso_win_divisor": "64"}
    with Lab(rtt_ms=20, rate_mbit=RATE_MBIT, sysctls=sysctls) as lab:
        client, server = partial(send, scene=scene), partial(serve, scene=scene)
        record_connection(lab, path, client, server, prepare=prepare)
