"""Scenes for the problem set "slow-start": three recoveries from a loss (see `tcplab draw`).

A client sends several messages over one connection, and two of them lose segments. One of these
loses segments in its middle, which SACK recovers. The loss in the other message is more costly, and
the question is about this loss. The lost segments, the round-trip time and, unless a retransmission
is lost too, the order of the two messages are random. Silence may follow the costly loss, whatever
the cause. It ends with a timeout, or with a probe, which may reveal a gap.
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
from tcplab.grading.captures import record_connection, small_talk

ANSWER = "q6_reason"
CAUSES = ("loss-probe", "sack", "timeout")
MSS_BYTES = 1448
REPLY = b"ok"
#: Bytes saved per packet, enough for all headers with time stamps and three SACK blocks.
SNAPLEN = 96
#: For each cause, a range of RTTs, so that the length of the silence hardly reveals the cause.
_RTTS_MS = {"loss-probe": (30, 150), "sack": (55, 150), "timeout": (20, 110)}


@dataclass(frozen=True)
class Message:
    """A message, and which of its packets the link drops."""

    size_bytes: int
    #: Data packets that the link drops, such as "3,12-14". They are counted from 1 in each message,
    #: and retransmissions count, too.
    lost: str = ""


@dataclass(frozen=True)
class Scene:
    """The parameters of one recorded transfer."""

    messages: Sequence[Message]
    pauses_s: Sequence[float]  #: pause after each message
    rtt_ms: float  #: round-trip time of the link


def draw(rng: random.Random, cause: str) -> Scene:
    """Draw the parameters of a transfer that shows this cause."""
    cheap = _losing_in_the_middle(rng)
    again_lost = cause == "timeout" and rng.random() < 0.5
    dear = _again_lost(rng) if again_lost else _costly(rng, cause)
    messages = [cheap, dear]
    # On a new connection, a message of up to ten segments is one flight, so the next packet is
    # the retransmission. The message that loses it must therefore come first.
    if again_lost or rng.random() < 0.5:
        messages.reverse()
    pauses_s = [rng.randrange(100, 450) / 1000, 0.0]
    # The other messages are as long as these, and lose nothing.
    for _ in range(rng.randrange(3, 11)):
        place = rng.randrange(len(messages) + 1)
        messages.insert(place, Message(_size(rng, rng.randrange(1, 20))))
        pauses_s.insert(place, rng.randrange(100) / 1000)
    return Scene(messages, pauses_s, rng.randrange(*_RTTS_MS[cause]))


def _size(rng: random.Random, segments: int) -> int:
    """Return the size of a message of this many segments, the last of which is not full."""
    return (segments - 1) * MSS_BYTES + rng.randrange(100, MSS_BYTES)


def _losing_in_the_middle(rng: random.Random) -> Message:
    segments = rng.randrange(12, 27)
    places = sorted(rng.sample(range(2, segments - 5), rng.randrange(1, 5)))
    return Message(_size(rng, segments), ",".join(map(str, places)))


def _costly(rng: random.Random, cause: str) -> Message:
    """Draw a message that loses segments at its end.

    These are its last few segments for "sack", its last segment and the loss probe for "timeout",
    and only its last segment for "loss-probe".
    """
    last = rng.randrange(6, 15)
    if cause == "sack":
        return Message(_size(rng, last), f"{last - rng.randrange(1, 5)}-{last}")
    return Message(_size(rng, last), f"{last}-{last + 1}" if cause == "timeout" else f"{last}")


def _again_lost(rng: random.Random) -> Message:
    """Draw a message that loses a segment in the middle, and also its first retransmission."""
    segments = rng.randrange(6, 11)
    return Message(_size(rng, segments), f"{rng.randrange(2, segments - 3)},{segments + 1}")


def send(connection: socket.socket, scene: Scene, lab: Lab) -> None:
    """Send one message after the other, and wait for the receipt of each."""
    for message, pause_s in zip(scene.messages, scene.pauses_s, strict=True):
        lab.link.script("client->server", "clear")
        if message.lost:
            lab.link.script("client->server", f"drop data nth={message.lost}")
        connection.sendall(b"d" * message.size_bytes)
        connection.recv(len(REPLY), socket.MSG_WAITALL)
        time.sleep(pause_s)


def serve(connection: socket.socket, scene: Scene) -> None:
    """Read each message, and send its receipt."""
    for message in scene.messages:
        connection.recv(message.size_bytes, socket.MSG_WAITALL)
        connection.sendall(REPLY)


def record(path: Path, scene: Scene) -> None:
    """Run the transfer, and save a capture of the client's interface."""
    with Lab(rtt_ms=scene.rtt_ms, congestion="reno") as lab:
        talk = small_talk(longest_s=0.8)
        client, server = partial(send, scene=scene, lab=lab), partial(serve, scene=scene)
        record_connection(lab, path, client, server, snaplen=SNAPLEN, talk=talk)
