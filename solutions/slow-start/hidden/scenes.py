"""Scenes of set slow-start: three ways in which a lost segment comes back (see `tcplab draw`).

A client sends two messages over one connection, with a pause between, and loses segments of both.
Of one message it loses some in the middle, which acknowledgements of what came after them bring
back. The loss in the other one costs more, and is what the cause is about. Which message is which
is drawn, as are the segments and the round-trip time. The costly loss may end in a silence whatever
its cause: before a probe, before a timeout, and before a probe that shows a gap.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcplab import Lab
from tcplab.grading.captures import REPLY, record_connection, small_talk

ANSWER = "q6_reason"
CAUSES = ("loss-probe", "sack", "timeout")
MSS_BYTES = 1448
#: Headers with three blocks of SACK, time stamps and Ethernet.
SNAPLEN = 96
#: With these values, the length of a silence says little about its cause.
_RTTS_MS = {"loss-probe": (30, 150), "sack": (55, 150), "timeout": (20, 110)}


@dataclass(frozen=True)
class Message:
    """One message, and what the link drops of it."""

    size_bytes: int
    lost: str  #: the client's data packets, counted from the message's first, copies too


@dataclass(frozen=True)
class Scene:
    """The ingredients of one capture."""

    messages: Sequence[Message]
    pause_s: float  #: pause between the messages
    rtt_ms: float  #: round-trip time of the link


def draw(rng: random.Random, cause: str) -> Scene:
    """The ingredients for a cause."""
    cheap = _losing_in_the_middle(rng)
    again_lost = cause == "timeout" and rng.random() < 0.5
    dear = _again_lost(rng) if again_lost else _costly(rng, cause)
    messages = [cheap, dear]
    # On a new connection ten segments are one flight, so that the copy is the eleventh packet.
    if again_lost or rng.random() < 0.5:
        messages.reverse()
    return Scene(messages, rng.randrange(100, 450) / 1000, rng.randrange(*_RTTS_MS[cause]))


def _size(rng: random.Random, segments: int) -> int:
    """Return the size of a message of this many segments, of which the last is not full."""
    return (segments - 1) * MSS_BYTES + rng.randrange(100, MSS_BYTES)


def _losing_in_the_middle(rng: random.Random) -> Message:
    segments = rng.randrange(12, 27)
    places = sorted(rng.sample(range(2, segments - 5), rng.randrange(1, 5)))
    return Message(_size(rng, segments), ",".join(map(str, places)))


def _costly(rng: random.Random, cause: str) -> Message:
    """The last segment; or it and its probe; or the last few, of which the probe's ACK tells."""
    last = rng.randrange(6, 15)
    if cause == "sack":
        return Message(_size(rng, last), f"{last - rng.randrange(1, 5)}-{last}")
    return Message(_size(rng, last), f"{last}-{last + 1}" if cause == "timeout" else f"{last}")


def _again_lost(rng: random.Random) -> Message:
    """A segment in the middle, and the copy of it that leaves when its loss is found out."""
    segments = rng.randrange(6, 11)
    return Message(_size(rng, segments), f"{rng.randrange(2, segments - 3)},{segments + 1}")


def send(connection: socket.socket, scene: Scene, lab: Lab) -> None:
    """The client: one message after the other, and its receipt."""
    for turn, message in enumerate(scene.messages):
        if turn:
            time.sleep(scene.pause_s)
        lab.link.script("client->server", "clear")
        lab.link.script("client->server", f"drop data nth={message.lost}")
        connection.sendall(b"d" * message.size_bytes)
        connection.recv(len(REPLY), socket.MSG_WAITALL)


def serve(connection: socket.socket, scene: Scene) -> None:
    """The server: reads each message and says so."""
    for message in scene.messages:
        connection.recv(message.size_bytes, socket.MSG_WAITALL)
        connection.sendall(REPLY)


def record(path: Path, scene: Scene) -> None:
    """One capture on the client's host."""
    with Lab(rtt_ms=scene.rtt_ms, congestion="reno") as lab:
        talk = small_talk(longest_s=0.8)
        client, server = partial(send, scene=scene, lab=lab), partial(serve, scene=scene)
        record_connection(lab, path, client, server, snaplen=SNAPLEN, talk=talk)
