"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three causes, two captures of each.

python solutions/ps7/hidden/make_captures.py

A client sends a header and a file, each with a call of its own, and waits for a receipt.
"""

from __future__ import annotations

import json
import os
import random
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tcplab import Lab

HERE = Path(__file__).parent
PORT = 5007
RECEIPT = b"ok"


@dataclass(frozen=True)
class Scene:
    """What makes one capture.

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


class Client:
    """Makes the calls of a scene and keeps a log of them."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.log: list[str] = []

    def note(self, call: str, value: int) -> None:
        """A line for what is done now."""
        self.log.append(f"{time.time_ns()} {call} {value}")

    def send(self, scene: Scene) -> None:
        """Everything, and waits for the receipt."""
        with tempfile.TemporaryFile() as file:
            file.write(random.Random(scene.file_bytes).randbytes(scene.file_bytes))
            file.flush()
            for call in scene.calls.split():
                self.call(call, scene, file.fileno())
            self.connection.recv(len(RECEIPT), socket.MSG_WAITALL)

    def call(self, call: str, scene: Scene, file: int) -> None:
        """One of them."""
        if call.startswith("cork="):
            value = int(call[-1])
            self.note("cork", value)
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, value)
        elif call.startswith("header"):
            more = call == "header+more"
            self.note("send-more" if more else "send", scene.header_bytes)
            self.connection.send(b"h" * scene.header_bytes, socket.MSG_MORE if more else 0)
        else:
            self.note("sendfile", scene.file_bytes)
            sent = os.sendfile(self.connection.fileno(), file, 0, scene.file_bytes)
            if sent != scene.file_bytes:
                raise SystemExit(f"sendfile sent {sent} of {scene.file_bytes}; make it anew")


def serve(listener: socket.socket, scene: Scene) -> None:
    """The server: reads everything, late in some scenes, and says so."""
    connection, _ = listener.accept()
    time.sleep(scene.pause_s)
    left = scene.header_bytes + scene.file_bytes
    while left > 0:
        left -= len(connection.recv(min(left, 65536)))
    connection.sendall(RECEIPT)
    connection.close()


def record(lab: Lab, name: str, scene: Scene) -> None:
    """One capture on the client's host, and the log of the client's calls."""
    with lab.server.socket() as listener, lab.client.socket() as connection:
        if scene.rcvbuf_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)
        listener.bind(("", PORT))
        listener.listen()
        server = threading.Thread(target=serve, args=(listener, scene))
        client = Client(connection)
        with lab.client.capture(snaplen=96) as capture:
            server.start()
            connection.connect((lab.server.address, PORT))
            client.send(scene)
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
        with Lab(rtt_ms=30) as lab:
            record(lab, name, scene)
    causes = {f"{name}.pcapng": scene.reason for name, scene in SCENES.items()}
    (HERE / "captures.json").write_text(json.dumps(causes, indent=1) + "\n")


if __name__ == "__main__":
    main()
