"""Makes captures/N.pcapng anew, in a Lab: three causes of a pause, two captures of each.

python solutions/ps3/hidden/make_captures.py

A client sends a file over a wire of 10 ms. The black holes take some seconds each: that is how long
Linux needs to doubt the MTU.
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
PORT = 5001


@dataclass(frozen=True)
class Scene:
    """What makes one capture.

    Attributes:
        reason: of the longest pause between data segments.
        file_bytes: that the client sends.
        server_maxseg: TCP_MAXSEG of the server; 0 for what its interface says.
        path_mtu: of the wire; 0 for that of the interfaces.
        icmp: whether the path says so when it drops what is too long.
        writer_sleeps_s: in the middle of the file.
    """

    reason: str
    file_bytes: int
    server_maxseg: int = 0
    path_mtu: int = 0
    icmp: bool = False
    writer_sleeps_s: float = 0.0


SCENES = {
    "1": Scene("black-hole", 6000, path_mtu=1300),
    "2": Scene("segment-lost", 15_000, server_maxseg=1340),
    "3": Scene("application-idle", 17_000, server_maxseg=1212, writer_sleeps_s=0.31),
    "4": Scene("black-hole", 7500, server_maxseg=1400, path_mtu=1120),
    "5": Scene("segment-lost", 11_000, server_maxseg=1100),
    "6": Scene("application-idle", 14_000, path_mtu=1250, icmp=True, writer_sleeps_s=0.27),
}


def send(connection: socket.socket, scene: Scene) -> None:
    """The file, in two halves when the writer sleeps, and our end."""
    file = bytes(scene.file_bytes)
    half = scene.file_bytes // 2 if scene.writer_sleeps_s else scene.file_bytes
    connection.sendall(file[:half])
    time.sleep(scene.writer_sleeps_s)
    connection.sendall(file[half:])
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass


def serve(listener: socket.socket) -> None:
    """Reads to the end."""
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass
    connection.close()


def record(lab: Lab, name: str, scene: Scene) -> None:
    """One capture on the client's host."""
    with lab.server.socket() as listener, lab.client.socket() as connection:
        for end in (listener, connection):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        if scene.server_maxseg:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, scene.server_maxseg)
        if scene.path_mtu:
            how = "on" if scene.icmp else "off"
            lab.link.update("client->server", mtu=scene.path_mtu, icmp=how)
        if scene.reason == "segment-lost":
            # The last segment and the probe for it: what is left is the retransmission timer.
            last = -(-scene.file_bytes // ((scene.server_maxseg or 1460) - 12))
            lab.link.script("client->server", f"drop data nth={last}-{last + 1}")
        listener.bind(("", PORT))
        listener.listen()
        server = threading.Thread(target=serve, args=(listener,))
        with lab.client.capture(snaplen=80) as capture:
            server.start()
            connection.connect((lab.server.address, PORT))
            send(connection, scene)
            server.join()
            time.sleep(0.1)
        capture.save(HERE.parent / "captures" / f"{name}.pcapng")


def main() -> None:
    """All of them, and what caused them."""
    for name, scene in SCENES.items():
        with Lab(rtt_ms=10, sysctls={"net.ipv4.tcp_mtu_probing": "1"}) as lab:
            record(lab, name, scene)
    causes = {f"{name}.pcapng": scene.reason for name, scene in SCENES.items()}
    (HERE / "captures.json").write_text(json.dumps(causes, indent=1) + "\n")


if __name__ == "__main__":
    main()
