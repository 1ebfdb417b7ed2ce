"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three causes, two captures of each.

python solutions/ps7/hidden/make_captures.py [NAME...]

A client sends a header and a file, each with a call of its own, and waits for a receipt.
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
from tcplab.grading.captures import CallLog, make_captures, record_connection

RECEIPT = b"ok"


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

    Attributes:
        reason: of the longest pause.
        header_bytes, file_bytes: what is sent.
        calls: of the client, in order: "cork=1", "cork=0", "header", "header+more", "sendfile".
        rcvbuf_bytes: of the server, 0 for the kernel's choice.
        pause_s: for how long the server does not read.
    """

    reason: str
    header_bytes: int
    file_bytes: int
    calls: str
    rcvbuf_bytes: int = 0
    pause_s: float = 0.0


SCENES = {
    "1": Scene("held-by-nagle", 80, 4_100, "header sendfile"),
    "2": Scene("corked", 64, 6_300, "cork=1 header sendfile"),
    "3": Scene("window-closed", 120, 22_000, "cork=1 header sendfile cork=0", 9_000, 0.15),
    "4": Scene("held-by-nagle", 200, 7_777, "cork=1 header cork=0 sendfile"),
    "5": Scene("corked", 96, 9_900, "header+more cork=1 sendfile"),
    "6": Scene("window-closed", 48, 26_500, "header+more sendfile", 10_000, 0.12),
}


def send(connection: socket.socket, scene: Scene, log: CallLog) -> None:
    """The client: everything, and waits for the receipt."""
    with tempfile.TemporaryFile() as file:
        file.write(random.Random(scene.file_bytes).randbytes(scene.file_bytes))
        file.flush()
        for call in scene.calls.split():
            make_call(connection, call, scene, file.fileno(), log)
        connection.recv(len(RECEIPT), socket.MSG_WAITALL)


def make_call(connection: socket.socket, call: str, scene: Scene, file: int, log: CallLog) -> None:
    """One of them."""
    if call.startswith("cork="):
        value = int(call[-1])
        log.note("cork", value)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, value)
    elif call.startswith("header"):
        more = call == "header+more"
        log.note("send-more" if more else "send", scene.header_bytes)
        connection.send(b"h" * scene.header_bytes, socket.MSG_MORE if more else 0)
    else:
        log.note("sendfile", scene.file_bytes)
        sent = os.sendfile(connection.fileno(), file, 0, scene.file_bytes)
        if sent != scene.file_bytes:
            raise SystemExit(f"sendfile sent {sent} of {scene.file_bytes}; make it anew")


def serve(connection: socket.socket, scene: Scene) -> None:
    """The server: reads everything, late in some scenes, and says so."""
    time.sleep(scene.pause_s)
    connection.recv(scene.header_bytes + scene.file_bytes, socket.MSG_WAITALL)
    connection.sendall(RECEIPT)


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host, and the log of the client's calls."""

    def prepare(listener: socket.socket, _: socket.socket) -> None:
        if scene.rcvbuf_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)

    log = CallLog()
    with Lab(rtt_ms=30) as lab:
        client, server = partial(send, scene=scene, log=log), partial(serve, scene=scene)
        record_connection(lab, path, client, server, prepare=prepare)
    log.save(path.with_suffix(".log"))


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.reason for name, each in SCENES.items()})
