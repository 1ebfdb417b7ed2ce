"""Scenes for the problem set "sendfile": three causes of a pause (see `tcplab draw`).

A client sends a header and a file in separate calls, and waits for a receipt. The header leaves
in a separate segment, and the file is sent under a cork. In every scene the client sleeps before
the header, and the receiver pauses.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import record_connection

calls = load_module(Path(__file__).parents[2] / "messages.py", "tcplab_messages_of_sendfile")

ANSWER = "q6_reason"
CAUSES = ("corked", "held-by-nagle", "window-closed")
MSS_BYTES = 1448


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    header_bytes: int
    file_bytes: int
    calls: str  #: the client's calls: "cork=1", "cork=0", "header", "sendfile", "sleep=SECONDS"
    rcvbuf_bytes: int  #: SO_RCVBUF of the server
    reader_naps_s: float  #: pause from the first data to the server's first read
    rtt_ms: int  #: round-trip time


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    rtt_ms = rng.randrange(20, 90)
    nap, long = (f"sleep={(1.5 * rtt_ms + rng.uniform(45, 90)) / 1000:.4f}" for _ in range(2))
    first, last = (long, "") if cause != "corked" else (nap, long)
    header = rng.choice(["{} cork=1 header cork=0", "{} header"])
    full = cause == "window-closed"
    # Header and file fit into the first congestion window, which must not end the pause.
    segments = rng.randrange(4, 9)
    return Scene(
        rng.randrange(40, 240),
        segments * MSS_BYTES + rng.randrange(50, MSS_BYTES),
        f"{header.format(first)} cork=1 sendfile {last} cork=0",
        rng.randrange(3_200, 4_400) if full else 200_000,
        (2 * rtt_ms + rng.uniform(70, 120)) / 1000 if full else rng.randrange(1, 12) / 1000,
        rtt_ms,
    )


def send(connection: socket.socket, scene: Scene, log: calls.CaptureLog) -> None:
    """Make the calls of the scene, and wait for the receipt."""
    with tempfile.TemporaryFile() as file:
        file.write(random.Random(scene.file_bytes).randbytes(scene.file_bytes))
        file.flush()
        for call in scene.calls.split():
            make_call(connection, call, scene, file.fileno(), log)
        connection.recv(len(calls.REPLY), socket.MSG_WAITALL)


def make_call(
    connection: socket.socket, call: str, scene: Scene, file: int, log: calls.CaptureLog
) -> None:
    """Make one call, and note it in the log unless it is a sleep."""
    name, _, value = call.partition("=")
    if name == "sleep":
        time.sleep(float(value))
    elif name == "cork":
        log.note("cork", int(value))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(value))
    elif name == "header":
        log.note("send", scene.header_bytes)
        connection.sendall(b"h" * scene.header_bytes)
    else:
        log.note("sendfile", scene.file_bytes)
        sent = os.sendfile(connection.fileno(), file, 0, scene.file_bytes)
        if sent != scene.file_bytes:
            raise SystemExit(f"sendfile sent {sent} of {scene.file_bytes}; draw it again")


def serve(connection: socket.socket, scene: Scene) -> None:
    """Pause, read everything, and send the receipt."""
    connection.recv(1, socket.MSG_PEEK)
    time.sleep(scene.reader_naps_s)
    connection.recv(scene.header_bytes + scene.file_bytes, socket.MSG_WAITALL)
    connection.sendall(calls.REPLY)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface and the client's calls."""

    def prepare(listener: socket.socket, _: socket.socket) -> None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)

    log = calls.CaptureLog()
    with Lab(rtt_ms=scene.rtt_ms) as lab:
        client, server = partial(send, scene=scene, log=log), partial(serve, scene=scene)
        record_connection(lab, path, client, server, prepare=prepare)
    log.save(path.with_suffix(".log"))
