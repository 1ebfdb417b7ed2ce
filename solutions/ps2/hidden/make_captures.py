"""Makes captures/N.pcapng and captures/N.log anew, in a Lab: three troubles, two captures of each.

python solutions/ps2/hidden/make_captures.py [NAME...]

The course's udpsource sends to a program that may be asleep, over a wire that may have a short
queue; the capture is of the server's interface, the log says what the two programs know.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcplab import Lab
from tcplab.grading.captures import make_captures

HEADER = struct.Struct("!4sIQ")
SNAPLEN = 64


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture.

    Attributes:
        cure: of the trouble.
        count: datagrams that are sent.
        lab: parameters of the Lab.
        rules: for single datagrams, by what the wire counts.
        rcvbuf_bytes: asked for by the receiver.
        asleep_s: from the first datagram until the receiver reads.
        pace_mbit: of the sender, None for as fast as it can.
    """

    cure: str
    count: int
    lab: dict[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    rcvbuf_bytes: int = 200_000
    asleep_s: float = 0.0
    pace_mbit: float | None = None


SLOW = {"rate_mbit": 10, "queue_packets": 8}
SCENES = {
    "1": Scene(
        "slower-sender",
        70,
        SLOW,
        ("duplicate udp nth=4,11", "hold udp nth=7", "drop udp nth=69-70"),
        pace_mbit=16,
    ),
    "2": Scene(
        "larger-receive-buffer",
        60,
        {},
        ("drop udp nth=30,31,60", "duplicate udp nth=9", "hold udp nth=12,20"),
        rcvbuf_bytes=16_000,
        asleep_s=0.07,
        pace_mbit=4,
    ),
    "3": Scene(
        "sort-by-number",
        52,
        {},
        ("hold udp nth=5,9,17,24,30,37", "duplicate udp nth=8,40", "drop udp nth=20,51-52"),
        pace_mbit=4,
    ),
    "4": Scene(
        "slower-sender",
        64,
        SLOW,
        ("duplicate udp nth=6", "hold udp nth=3,14", "drop udp nth=64"),
        pace_mbit=14,
    ),
    "5": Scene(
        "larger-receive-buffer",
        66,
        {},
        ("drop udp nth=22-24,65-66", "duplicate udp nth=3,7,10", "hold udp nth=14"),
        rcvbuf_bytes=20_000,
        asleep_s=0.06,
        pace_mbit=4,
    ),
    "6": Scene(
        "sort-by-number",
        56,
        {},
        ("hold udp nth=4,10,15,26,33,47", "duplicate udp nth=2,41", "drop udp nth=12,29,56"),
        pace_mbit=4,
    ),
}


def receive(place: socket.socket, scene: Scene, read: set[int]) -> None:
    """The program at the server: sleeps, reads, and answers the end."""
    place.settimeout(5)
    place.recv(1, socket.MSG_PEEK)  # stays there: the program has not woken up yet
    time.sleep(scene.asleep_s)
    place.settimeout(1)
    ended = False
    try:
        while True:
            data, sender = place.recvfrom(2048)
            kind, run, value = HEADER.unpack_from(data)
            if kind == b"data":
                read.add(value)
            else:
                ended = True
                place.sendto(HEADER.pack(b"done", run, len(read)), sender)
                place.settimeout(0.2)
    except TimeoutError:
        assert ended


def record(path: Path, scene: Scene) -> None:
    """One capture on the server's host, and the log."""
    read: set[int] = set()
    pace = ["--pace", str(scene.pace_mbit)] if scene.pace_mbit else []
    with Lab(rtt_ms=10, **scene.lab) as lab, lab.server.socket(kind=socket.SOCK_DGRAM) as place:
        for rule in scene.rules:
            lab.link.script("client->server", rule)
        lab.link.update("client->server", hold_ns=1_500_000)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)
        place.bind(("", 9000))
        receiver = threading.Thread(target=receive, args=(place, scene, read))
        with lab.server.capture(snaplen=SNAPLEN) as capture:
            receiver.start()
            lab.client.run(["udpsource", "-s", "200", "-c", str(scene.count), *pace, "server"])
            receiver.join()
        capture.save(path)
    log = f"the source sent {scene.count} datagrams\nthe program at the server read {len(read)}"
    path.with_suffix(".log").write_text(f"{log} different ones\n")


if __name__ == "__main__":
    make_captures(__file__, SCENES, record, {name: each.cure for name, each in SCENES.items()})
