"""Captures for comparisons: made by other programs, written by hand, or recorded by us."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from typing import Any

from tests.support.forge import Talk
from tests.support.paths import DATA

from tcplab import Lab
from tcplab.capture import Capture

FOREIGN = sorted(DATA.glob("*.pcap*"))


def one_byte_again() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 1)
    talk.segment(0, "PA", 1, 1, 1, step_ns=250_000_000)
    talk.segment(1, "A", 1, 2)
    return talk


def losses() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    received: set[int] = set()
    for number in (0, 1, 2, 4, 5, 3, 7, 8, 9, 6, 6, 0):
        talk.segment(0, "A", 1 + 100 * number, 1, 100, step_ns=500_000)
        received.add(number)
        missing = next(n for n in range(12) if n not in received)
        talk.segment(1, "A", 1, 1 + 100 * missing, step_ns=100_000)
    talk.segment(0, "A", 701, 1, 200, step_ns=400_000_000)
    return talk


def lost_within_microseconds() -> Talk:
    """Return a retransmission 25 µs after the first copy, triggered by an ACK; the RTT is 20 µs."""
    talk = Talk(step_ns=10_000)
    talk.handshake()
    for number in (0, 2, 3):
        talk.segment(0, "A", 1 + 100 * number, 1, 100, step_ns=5_000)
    talk.segment(1, "A", 1, 101)
    talk.segment(0, "A", 401, 1, 100)
    talk.segment(0, "A", 101, 1, 100, step_ns=2_000)
    talk.segment(1, "A", 1, 501)
    return talk


def acknowledged_before() -> Talk:
    """Return data acknowledged before it is seen, since the recorder lost the first copies."""
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(1, "A", 1, 301)
    talk.segment(0, "A", 1, 1, 100)
    talk.segment(0, "A", 101, 1, 200)
    talk.segment(0, "A", 301, 1, 200)
    return talk


WRITTEN = [
    lost_within_microseconds,
    losses,
    acknowledged_before,
    one_byte_again,
]

SINK = """
import socket
listener = socket.create_server(("", 7000))
print("ready", flush=True)
while True:
    s, _ = listener.accept()
    while s.recv(1 << 20):
        pass
    s.close()
"""
SOURCE = """
import socket
s = socket.create_connection(("server", 7000))
s.sendall(bytes(1_500_000))
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""
WIRES: dict[str, dict[str, Any]] = {
    "clean": {},
    "loss": {"loss": 0.01, "seed": 7},
    "short-queue": {"queue_packets": 12, "rate_mbit": 30},
    "reordering": {"hold_ns": 2_000_000, "rate_mbit": 100},
}


@functools.cache
def transfer(wire: str) -> tuple[Capture, Capture]:
    """Return a bulk transfer over a wire, recorded at the sender and at the receiver."""
    with Lab(rtt_ms=10) as lab:
        lab.link.update(**WIRES[wire])
        if wire == "reordering":
            lab.link.script("client->server", "hold data every=50")
        sink = lab.server.start([sys.executable, "-c", SINK], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        sink.stdout.readline()
        with lab.client.capture() as left, lab.server.capture() as right:
            lab.client.run([sys.executable, "-c", SOURCE])
            time.sleep(0.1)
        sink.kill()
        sink.communicate()
    return left, right
