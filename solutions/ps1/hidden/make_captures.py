"""Makes captures/N.pcapng anew, in a Lab: three causes of a pause, two captures of each.

python solutions/ps1/hidden/make_captures.py

A client sends a file and ends its direction; a server greets, and answers after the file's end.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tcplab import Lab

HERE = Path(__file__).parent
PORT = 5001


@dataclass(frozen=True)
class Scene:
    """What makes one capture.

    Attributes:
        reason: of the longest pause.
        file_bytes: that the client sends.
        greeting_bytes: that the server sends at once.
        answer: the server's writes after the client's end, in bytes.
        pause_after: where the sender or the receiver pauses, or whose segment is lost, in bytes.
        pause_s: for how long the sender or the receiver does nothing.
    """

    reason: str
    file_bytes: int
    greeting_bytes: int
    answer: tuple[int, ...]
    pause_after: int
    pause_s: float = 0.0


SCENES = {
    "1": Scene("segment-lost", 12_345, 220, (700, 1200), 12_345),
    "2": Scene("receiver-full", 31_000, 64, (1448, 333), 1448, 0.17),
    "3": Scene("sender-idle", 17_777, 512, (90, 2000), 8192, 0.21),
    "4": Scene("segment-lost", 13_600, 31, (410,), 13_600),
    "5": Scene("receiver-full", 36_500, 150, (80, 80, 80), 2000, 0.26),
    "6": Scene("sender-idle", 15_203, 1000, (2500,), 4096, 0.16),
}


def send(connection: socket.socket, scene: Scene) -> None:
    """The client: the file, our end, and then everything that the server says."""
    file = random.Random(scene.file_bytes).randbytes(scene.file_bytes)
    time.sleep(0.03)  # the greeting comes before the file's end
    if scene.reason == "sender-idle":
        connection.sendall(file[: scene.pause_after])
        time.sleep(scene.pause_s)
        connection.sendall(file[scene.pause_after :])
    else:
        connection.sendall(file)
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass
    connection.close()


def serve(listener: socket.socket, scene: Scene) -> None:
    """The server: greets, reads to the end, answers."""
    connection, _ = listener.accept()
    connection.sendall(b"g" * scene.greeting_bytes)
    received = 0
    while block := connection.recv(4096):
        passed = received < scene.pause_after <= received + len(block)
        received += len(block)
        if passed and scene.reason == "receiver-full":
            time.sleep(scene.pause_s)
    for size in scene.answer:
        connection.sendall(b"a" * size)
        time.sleep(0.002)
    connection.close()


def record(lab: Lab, name: str, scene: Scene) -> None:
    """One capture on the client's host."""
    with lab.server.socket() as listener, lab.client.socket() as connection:
        if scene.reason == "receiver-full":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 14000)
        listener.bind(("", PORT))
        listener.listen()
        if scene.reason == "segment-lost":
            # The last segment and the probe for it: what is left is the retransmission timer.
            last = -(-scene.file_bytes // 1448)
            lab.link.script("client->server", f"drop data nth={last}-{last + 1}")
        server = threading.Thread(target=serve, args=(listener, scene))
        with lab.client.capture() as capture:
            server.start()
            connection.connect((lab.server.address, PORT))
            send(connection, scene)
            server.join()
            time.sleep(0.1)
        capture.save(HERE.parent / "captures" / f"{name}.pcapng")


def main() -> None:
    """All of them, and what caused them."""
    for name, scene in SCENES.items():
        with Lab(rtt_ms=10) as lab:
            record(lab, name, scene)
    causes = {f"{name}.pcapng": scene.reason for name, scene in SCENES.items()}
    (HERE / "captures.json").write_text(json.dumps(causes, indent=1) + "\n")


if __name__ == "__main__":
    main()
