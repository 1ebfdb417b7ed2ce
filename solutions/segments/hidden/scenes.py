"""Scenes for the problem set "segments": three causes of the longest pause (see `tcplab draw`).

A client sends a file over a link with a 10 ms RTT. A black hole takes seconds, because Linux needs
that long to doubt the MTU. In every scene the writer pauses, data is retransmitted, and the
server announces a smaller MSS than its interface allows. If the application is idle, the path may
have a small MTU and report it. Before the file, the server's pauses imitate the other two causes.
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
from tcplab.grading.captures import record_connection, small_talk

records = load_module(Path(__file__).parents[2] / "records.py", "tcplab_records_of_segments")

ANSWER = "q6_reason"
CAUSES = ("application-idle", "black-hole", "segment-lost")


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    totals: records.Totals  #: counts of the capture, whatever its cause
    file_bytes: int  #: size of the file that the client sends
    server_maxseg: int  #: TCP_MAXSEG of the server
    path_mtu: int  #: MTU of the link; 0 for that of the interfaces
    icmp: bool  #: whether the path reports packets dropped because they are too long
    writer_naps_s: float  #: pause in the middle of the file
    lost: str  #: the client's data segments that the link drops, counted from 1; "" for none
    pauses_s: tuple[float, ...]  #: pauses of the server that are typical of the other causes


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    # A black hole makes the segments smaller in steps, and so has about three sizes more.
    sizes = rng.sample(range(30, 400), rng.randrange(3, 13) + 3 * (cause != "black-hole"))
    segments = rng.randrange(60, 110)
    acks, before = segments * rng.randrange(60, 75) // 100, rng.randrange(5, segments - 40)
    totals = records.Totals(segments, acks, sizes, before)
    maxseg = rng.randrange(1100, 1440)
    # A black hole needs more segments, because the data is sent again in smaller pieces.
    size = rng.randrange(6000, 9500) if cause == "black-hole" else rng.randrange(11_000, 22_000)
    last = -(-size // (maxseg - 12))
    narrow = cause == "black-hole" or (cause == "application-idle" and rng.random() < 0.5)
    lost = {
        "black-hole": "",
        # The last segment, its probe, and two retransmissions by the timer are lost. After the next
        # loss, Linux would doubt the MTU.
        "segment-lost": f"{before + last}-{before + last + 3}",
        "application-idle": "" if narrow else f"{before + 2}",
    }[cause]
    naps_s = _pauses_s(rng, "application-idle")
    others = [other for other in CAUSES if other != cause]
    rng.shuffle(others)
    return Scene(
        totals,
        size,
        maxseg,
        rng.randrange(1000, maxseg - 40, 4) if narrow else 0,
        cause != "black-hole",
        naps_s[0] if cause == "application-idle" else rng.randrange(40, 110) / 1000,
        lost,
        tuple(pause_s for other in others for pause_s in _pauses_s(rng, other)),
    )


def _pauses_s(rng: random.Random, cause: str) -> list[float]:
    """Return pauses that are typical of a cause, either one nap or timeouts that double."""
    if cause == "application-idle":
        return [rng.choice([rng.uniform(0.8, 0.95), rng.uniform(1.6, 1.95)])]
    timeouts = 3 if cause == "segment-lost" else rng.choice([4, 5])
    return [rng.uniform(0.21, 0.22) * 2**doubled for doubled in range(timeouts)]


def send(connection: socket.socket, scene: Scene) -> None:
    """Send the file in two halves, with a pause between them."""
    file = bytes(scene.file_bytes)
    mss = scene.server_maxseg - 12
    half = scene.file_bytes // 2 // mss * mss  # a whole number of full segments
    connection.sendall(file[:half])
    time.sleep(scene.writer_naps_s)
    connection.sendall(file[half:])


def serve(connection: socket.socket) -> None:
    """Read to the end."""
    while connection.recv(65536):
        pass


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""

    def prepare(listener: socket.socket, connection: socket.socket) -> None:
        for end in (listener, connection):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, scene.server_maxseg)

    client, server = records.with_records(scene.totals, partial(send, scene=scene), serve)
    with Lab(rtt_ms=10, sysctls={"net.ipv4.tcp_mtu_probing": "1"}) as lab:
        if scene.path_mtu:
            how = "on" if scene.icmp else "off"
            lab.link.update("client->server", mtu=scene.path_mtu, icmp=how)
        if scene.lost:
            lab.link.script("client->server", f"drop data nth={scene.lost}")
        talk = small_talk(longest_s=2.2, last_s=scene.pauses_s)
        record_connection(lab, path, client, server, prepare=prepare, talk=talk)
