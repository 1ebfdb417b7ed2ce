"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three causes, two captures of each.

python solutions/ps6/hidden/make_captures.py [NAME...]

A client sends messages in pieces, between a cork set and a cork pulled, and waits for a reply of
2 bytes to each. The last message is the slow one.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import CallLog, make_captures, record_connection

REPLY = b"ok"


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

    Attributes:
        reason: for which the last message is slow.
        quick: how many messages come before it.
        pieces: of each of those, in bytes.
        last: the calls of the last message: "cork=1", "cork=0", a size to write, "sleep=SECONDS".
    """

    reason: str
    quick: int
    pieces: tuple[int, ...]
    last: str


SCENES = {
    "1": Scene("cork-never-pulled", 4, (40, 300, 20), "cork=1 40 300 20"),
    "2": Scene("nagle-under-the-cork", 5, (60, 500), "cork=1 60 cork=0 cork=1 400 100 cork=0"),
    "3": Scene("pulled-late", 3, (32, 700, 18), "cork=1 32 700 sleep=0.11 18 cork=0"),
    "4": Scene("cork-never-pulled", 6, (90, 1500), "cork=1 90 1500"),
    "5": Scene("nagle-under-the-cork", 3, (25, 25, 900), "cork=1 25 25 cork=0 cork=1 900 cork=0"),
    "6": Scene("pulled-late", 5, (80, 2100, 10), "cork=1 80 2100 10 sleep=0.14 cork=0"),
}


def size_of(calls: str) -> int:
    """The bytes that some calls write."""
    return sum(int(call) for call in calls.split() if call.isdecimal())


def send(connection: socket.socket, messages: list[str], log: CallLog) -> None:
    """The client: each message, and its reply."""
    for message in messages:
        for call in message.split():
            name, _, value = call.rpartition("=")
            if name == "sleep":
                time.sleep(float(value))
            elif name == "cork":
                log.note("cork", int(value))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(value))
            else:
                log.note("write", int(value))
                connection.sendall(b"m" * int(value))
        log.note("read", len(REPLY))
        connection.recv(len(REPLY), socket.MSG_WAITALL)


def serve(connection: socket.socket, messages: list[str]) -> None:
    """The server: a reply to each message."""
    for message in messages:
        connection.recv(size_of(message), socket.MSG_WAITALL)
        connection.sendall(REPLY)


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host, and the log of the client's calls."""
    quick = " ".join(["cork=1", *map(str, scene.pieces), "cork=0"])
    messages = [*[quick] * scene.quick, scene.last]
    log = CallLog()
    with Lab(rtt_ms=20) as lab:
        record_connection(
            lab,
            path,
            partial(send, messages=messages, log=log),
            partial(serve, messages=messages),
        )
    log.save(path.with_suffix(".log"))


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.reason for name, each in SCENES.items()})
