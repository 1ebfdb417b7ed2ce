"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three causes, two captures of each.

python solutions/ps6/hidden/make_captures.py

A client sends messages in pieces, between a cork set and a cork pulled, and waits for a reply of
2 bytes to each. The last message is the slow one.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tcplab import Lab

HERE = Path(__file__).parent
PORT = 5006
REPLY = b"ok"


@dataclass(frozen=True)
class Scene:
    """What makes one capture.

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


class Client:
    """Makes calls and keeps a log of them."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.log: list[str] = []

    def note(self, call: str, value: int) -> None:
        """A line for what is done now."""
        self.log.append(f"{time.time_ns()} {call} {value}")

    def message(self, calls: str) -> None:
        """One message, and its reply."""
        for call in calls.split():
            name, _, value = call.rpartition("=")
            if name == "sleep":
                time.sleep(float(value))
            elif name == "cork":
                self.note("cork", int(value))
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(value))
            else:
                self.note("write", int(value))
                self.connection.sendall(b"m" * int(value))
        self.note("read", len(REPLY))
        self.connection.recv(len(REPLY), socket.MSG_WAITALL)


def serve(listener: socket.socket, sizes: list[int]) -> None:
    """The server: a reply to each message."""
    connection, _ = listener.accept()
    for size in sizes:
        left = size
        while left > 0:
            left -= len(connection.recv(left))
        connection.sendall(REPLY)
    connection.close()


def record(lab: Lab, name: str, scene: Scene) -> None:
    """One capture on the client's host, and the log of the client's calls."""
    quick = " ".join(["cork=1", *map(str, scene.pieces), "cork=0"])
    messages = [*[quick] * scene.quick, scene.last]
    with lab.server.socket() as listener, lab.client.socket() as connection:
        listener.bind(("", PORT))
        listener.listen()
        server = threading.Thread(target=serve, args=(listener, [*map(size_of, messages)]))
        client = Client(connection)
        with lab.client.capture(snaplen=96) as capture:
            server.start()
            connection.connect((lab.server.address, PORT))
            for message in messages:
                client.message(message)
            connection.close()
            server.join()
            time.sleep(0.1)
        folder = HERE.parent / "captures"
        folder.mkdir(exist_ok=True)
        capture.save(folder / f"{name}.pcapng")
    lines = ["# CLOCK_REALTIME in ns, call, bytes (or the option's value)", *client.log]
    (folder / f"{name}.log").write_text("\n".join(lines) + "\n")


def main() -> None:
    """All of them, and what caused them."""
    for name, scene in SCENES.items():
        with Lab(rtt_ms=20) as lab:
            record(lab, name, scene)
    causes = {f"{name}.pcapng": scene.reason for name, scene in SCENES.items()}
    (HERE / "captures.json").write_text(json.dumps(causes, indent=1) + "\n")


if __name__ == "__main__":
    main()
