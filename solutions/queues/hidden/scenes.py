"""Scenes for the problem set "queues": four fates of a transfer at a router (see `tcplab draw`).

A client sends about 190 segments and waits for a receipt. Both ends always negotiate ECN. Random
losses hit only the first flights, while the queue is still short, and a long queue does not always
lead to a loss. Except in the scenes with random losses, the server first sends small messages with
pauses like those that random losses would cause, so that pauses alone do not reveal the cause. The
server acknowledges every other segment for a share of the transfer that is drawn, and then each.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tcplab import Lab
from tcplab.grading.captures import record_connection, small_talk

ANSWER = "q6_reason"
CAUSES = ("dropped-when-full", "kept-everything", "lost-by-chance", "marked")
MSS_BYTES = 1448
REPLY = b"ok"
#: Bytes saved per packet, enough for all headers with time stamps and three SACK blocks.
SNAPLEN = 96


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    size_bytes: int
    rtt_ms: int
    rate_mbit: float
    lazy_bytes: int  #: the server acknowledges every other segment of these first bytes
    lost: str = ""  #: numbers of the data packets that the link drops even if its queue is short
    router: Mapping[str, Any] = field(default_factory=dict)  #: further settings of the link
    pauses_s: tuple[float, ...] = ()  #: pauses in the server's messages before the transfer


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    pauses_s = [rng.uniform(0.006, 0.015) for _ in range(rng.randrange(9, 18))]
    pauses_s += [rng.uniform(0.016, 0.033) for _ in range(rng.randrange(8, 17))]
    if cause == "lost-by-chance":  # as many messages, with the shortest pauses that keep them apart
        pauses_s = [rng.uniform(0.006, 0.008) for _ in pauses_s]
    return replace(_draw(rng, cause), pauses_s=tuple(pauses_s))


def _draw(rng: random.Random, cause: str) -> Scene:
    # Make up for the retransmissions, about 19 after a full queue and 9 after random losses.
    more = {"dropped-when-full": 0, "lost-by-chance": 10}.get(cause, 19)
    size_bytes = (rng.randrange(135, 200) + more) * MSS_BYTES + rng.randrange(100, MSS_BYTES)
    rtt_ms, rate_mbit = rng.randrange(50, 80), rng.randrange(50, 80) / 10
    lazy_bytes = rng.randrange(size_bytes)
    if cause == "lost-by-chance":
        places = sorted(rng.sample(range(3, 22), rng.randrange(1, 4)))
        return Scene(size_bytes, rtt_ms, rate_mbit, lazy_bytes, ",".join(map(str, places)))
    router: dict[str, Any] = {}
    if cause == "dropped-when-full":
        bdp_packets = rate_mbit * rtt_ms * 1000 / 8 / 1538
        router = {"queue_packets": int(bdp_packets * rng.randrange(75, 95) / 100)}
    if cause == "marked":
        router = {"aqm": "codel", "ecn": True, "target_ns": 4_000_000, "interval_ns": 50_000_000}
    return Scene(size_bytes, rtt_ms, rate_mbit, lazy_bytes, router=router)


def send(connection: socket.socket, scene: Scene) -> None:
    """Send everything in one call, and wait for the receipt."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * scene.size_bytes)
    connection.sendall(b"d" * scene.size_bytes)
    connection.recv(len(REPLY), socket.MSG_WAITALL)


def serve(connection: socket.socket, scene: Scene) -> None:
    """Read everything, and send the receipt."""
    received = 0
    while received < scene.size_bytes:
        quick = int(received >= scene.lazy_bytes)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, quick)
        received += len(connection.recv(65536))
    connection.sendall(REPLY)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""
    with Lab(
        rtt_ms=scene.rtt_ms,
        rate_mbit=scene.rate_mbit,
        congestion="reno",
        sysctls={"net.ipv4.tcp_ecn": "1"},
        **scene.router,
    ) as lab:
        if scene.lost:
            lab.link.script("client->server", f"drop data nth={scene.lost}")
        client, server = partial(send, scene=scene), partial(serve, scene=scene)
        talk = small_talk(50, 40_000, last_s=scene.pauses_s)
        record_connection(lab, path, client, server, snaplen=SNAPLEN, talk=talk)
