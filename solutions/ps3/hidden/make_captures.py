"""Makes captures/N.pcapng anew, in a Lab: three causes of a pause, two captures of each.

python solutions/ps3/hidden/make_captures.py [NAME...]

A client sends a file over a wire of 10 ms. The black holes take some seconds each: that is how long
Linux needs to doubt the MTU.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import finish, make_captures, record_connection


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

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
    finish(connection)


def serve(connection: socket.socket) -> None:
    """Reads to the end."""
    while connection.recv(65536):
        pass


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host."""

    def prepare(listener: socket.socket, connection: socket.socket) -> None:
        for end in (listener, connection):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        if scene.server_maxseg:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, scene.server_maxseg)

    with Lab(rtt_ms=10, sysctls={"net.ipv4.tcp_mtu_probing": "1"}) as lab:
        if scene.path_mtu:
            how = "on" if scene.icmp else "off"
            lab.link.update("client->server", mtu=scene.path_mtu, icmp=how)
        if scene.reason == "segment-lost":
            # The last segment and the probe for it: what is left is the retransmission timer.
            last = -(-scene.file_bytes // ((scene.server_maxseg or 1460) - 12))
            lab.link.script("client->server", f"drop data nth={last}-{last + 1}")
        record_connection(lab, path, partial(send, scene=scene), serve, prepare=prepare)


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.reason for name, each in SCENES.items()})
