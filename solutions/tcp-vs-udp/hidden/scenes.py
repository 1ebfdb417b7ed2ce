"""Scenes for the problem set "tcp-vs-udp": three problems of a stream of datagrams.

udpsource sends to a program that may sleep at first, over a link that may have a short queue. The
capture shows the server's interface, and the log says how many datagrams the program read. In every
scene some datagrams are lost on the way, some come twice and some come late.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import small_talk

ANSWER = "q6_fix"
CAUSES = ("larger-receive-buffer", "slower-sender", "sort-by-number")
HEADER = struct.Struct("!4sIQ")
SNAPLEN = 64
#: Maximum size of a datagram that talk() sends.
MOST_BYTES = 1400
SIZE_STEP = 200
#: Bytes that one of udpsource's datagrams takes in a receive buffer, and its bits on the link.
KERNEL_BYTES, ON_THE_WIRE_BITS = 1280, 8 * 242


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    count: int  #: number of datagrams
    rate_mbit: float  #: rate of the link, which then has a short queue; 0 means no limit
    pace_mbit: float  #: rate of the sender
    rules: tuple[str, ...]  #: rules of the link for single datagrams, selected by number
    rcvbuf_bytes: int  #: SO_RCVBUF of the receiver
    asleep_s: float  #: time from the first datagram until the receiver reads


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer for which `cause`, one of CAUSES, is the right remedy."""
    # About the same number of datagrams arrives in the end, whatever the problem.
    pace_mbit, arrive = 4.0, rng.randrange(70, 200)
    if cause == "slower-sender":
        pace_mbit = rng.randrange(14, 18)
    count = round(arrive * max(1, pace_mbit / 10))
    late = rng.randrange(12, 16) if cause == "sort-by-number" else rng.randrange(1, 4)
    # No two neighbours are held, since they would keep their order and none would be late. One held
    # and one duplicated datagram are among the first seven, which pass even a short queue.
    held = sorted([rng.choice((2, 4, 6)), *rng.sample(range(8, 40, 2), late - 1)])
    twice = sorted([rng.choice((3, 5, 7)), *rng.sample(range(9, 40, 2), rng.randrange(5))])
    lost = sorted(rng.sample(range(41, count), min(rng.randrange(2, 6), count - 41)))
    rules = [
        f"{action} udp nth={','.join(map(str, places))}"
        for action, places in (("hold", held), ("duplicate", twice), ("drop", lost))
    ]
    # If the buffer is not the problem, it holds about as many datagrams as come during the sleep.
    while_asleep = rng.randrange(34, 40)
    room = while_asleep + 5 - rng.randrange(1, 7)
    if cause == "larger-receive-buffer":
        room -= rng.randrange(14, 19)
    wire_mbit = 10 if cause == "slower-sender" else 4
    return Scene(
        count,
        10 if cause == "slower-sender" else 0,
        pace_mbit,
        tuple(rules),
        room * KERNEL_BYTES // 2,
        while_asleep * ON_THE_WIRE_BITS / (wire_mbit * 1e6),
    )


def receive(place: socket.socket, scene: Scene, read: set[int]) -> None:
    """Sleep, read the datagrams, collect their numbers in `read`, and answer the end marker."""
    place.settimeout(5)
    place.recv(1, socket.MSG_PEEK)  # leaves it in the buffer, since the program still sleeps
    time.sleep(scene.asleep_s)
    place.settimeout(1)
    ended = False
    try:
        while True:
            data, sender = place.recvfrom(2048)
            kind, run, value = HEADER.unpack_from(data)
            if kind == b"data":
                read.add(value)
            elif not ended:
                ended = True
                place.sendto(HEADER.pack(b"done", run, len(read)), sender)
                place.settimeout(0.2)
    except TimeoutError:
        assert ended


def talk(lab: Lab) -> None:
    """Send datagrams to another program before the run."""
    with (
        lab.server.socket(kind=socket.SOCK_DGRAM) as other,
        lab.client.socket(kind=socket.SOCK_DGRAM) as sender,
    ):
        other.bind(("", 9001))
        for pause_s, size in [*small_talk(), *small_talk()]:
            time.sleep(pause_s)
            for rest in range(size, 0, -MOST_BYTES):
                # With few sizes, their number does not reveal how many datagrams were sent.
                size = min(rest, MOST_BYTES) // SIZE_STEP * SIZE_STEP
                datagram = HEADER.pack(b"talk", 0, 0).ljust(size)
                sender.sendto(datagram, (lab.server.address, 9001))
                time.sleep(0.0015)  # slow enough that no queue drops a datagram
        time.sleep(0.1)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture at the server and the numbers that were read."""
    read: set[int] = set()
    limit = {"rate_mbit": scene.rate_mbit, "queue_packets": 8} if scene.rate_mbit else {}
    source = ["udpsource", "-s", "200", "-c", str(scene.count), "--pace", str(scene.pace_mbit)]
    with Lab(rtt_ms=10, **limit) as lab, lab.server.socket(kind=socket.SOCK_DGRAM) as place:
        lab.link.update("client->server", hold_ns=1_500_000)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scene.rcvbuf_bytes)
        place.bind(("", 9000))
        receiver = threading.Thread(target=receive, args=(place, scene, read))
        with lab.server.capture(snaplen=SNAPLEN) as capture:
            talk(lab)
            for rule in scene.rules:
                lab.link.script("client->server", rule)
            receiver.start()
            lab.client.run([*source, "server"])
            receiver.join()
        capture.save(path)
    path.with_suffix(".log").write_text(
        f"the program at the server read {len(read)} different datagrams\n"
    )
