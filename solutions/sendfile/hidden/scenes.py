"""Scenes for the problem set "sendfile": three causes of a pause (see `tcplab draw`).

A client sends several files, each after a header in a separate call, and waits for each receipt. In
every scene one file is shorter than a segment, one is larger than the server's window, and some
headers leave alone. Only one file takes long.
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
class File:
    """One of the files, and how it is sent."""

    header_bytes: int
    file_bytes: int
    calls: str  #: the client's calls: "cork=1", "cork=0", "header", "sendfile", "sleep=SECONDS"
    nap_s: float  #: pause of the server from the first data to its first read


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    files: tuple[File, ...]
    rcvbuf_bytes: int  #: SO_RCVBUF of the server
    rtt_ms: int  #: round-trip time


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    rtt_ms = rng.randrange(20, 90)
    # One file is short, and one is longer than the window. Both fit into the congestion window.
    segments = [0, rng.randrange(5, 9), *(rng.randrange(1, 5) for _ in range(rng.randrange(6, 18)))]
    slow = {"held-by-nagle": 0, "window-closed": 1}.get(cause, rng.randrange(len(segments)))
    files = []
    for number, full in enumerate(segments):
        nap_s, last = rng.randrange(1, 12) / 1000, ""
        header = rng.choice(["cork=1 header cork=0 cork=1", "header cork=1", "cork=1 header"])
        if number == slow and cause == "corked":
            last = f"sleep={(1.5 * rtt_ms + rng.uniform(45, 90)) / 1000:.4f}"
        elif number == slow and cause == "window-closed":
            nap_s = (2 * rtt_ms + rng.uniform(70, 120)) / 1000
        elif number == 0:
            # Behind a header that left alone, Nagle's algorithm holds a short file.
            header = "header cork=1" if number == slow else "cork=1 header"
        size = full * MSS_BYTES + rng.randrange(50, MSS_BYTES - 250)
        files.append(File(rng.randrange(40, 240), size, f"{header} sendfile {last} cork=0", nap_s))
    rng.shuffle(files)
    return Scene(tuple(files), rng.randrange(3_200, 4_400), rtt_ms)


def send(connection: socket.socket, scene: Scene, log: calls.CaptureLog) -> None:
    """Make the calls for each file, and wait for its receipt."""
    for each in scene.files:
        with tempfile.TemporaryFile() as file:
            file.write(random.Random(each.file_bytes).randbytes(each.file_bytes))
            file.flush()
            for call in each.calls.split():
                make_call(connection, call, each, file.fileno(), log)
            connection.recv(len(calls.REPLY), socket.MSG_WAITALL)


def make_call(
    connection: socket.socket, call: str, sent: File, file: int, log: calls.CaptureLog
) -> None:
    """Make one call, and note it in the log unless it is a sleep."""
    name, _, value = call.partition("=")
    if name == "sleep":
        time.sleep(float(value))
    elif name == "cork":
        log.note("cork", int(value))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(value))
    elif name == "header":
        log.note("send", sent.header_bytes)
        connection.sendall(b"h" * sent.header_bytes)
    else:
        log.note("sendfile", sent.file_bytes)
        count = os.sendfile(connection.fileno(), file, 0, sent.file_bytes)
        if count != sent.file_bytes:
            raise SystemExit(f"sendfile sent {count} of {sent.file_bytes}; draw it again")


def serve(connection: socket.socket, scene: Scene) -> None:
    """Pause before each file, read it, and send the receipt."""
    for each in scene.files:
        connection.recv(1, socket.MSG_PEEK)
        time.sleep(each.nap_s)
        connection.recv(each.header_bytes + each.file_bytes, socket.MSG_WAITALL)
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
