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


def keep_alives() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(1, "A", 1, 101)
    for _ in range(2):
        talk.segment(0, "A", 100, 1, step_ns=10**9)
        talk.segment(1, "A", 1, 101)
    return talk


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


def zero_window() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(0, "A", 1, 1, 512)
    talk.segment(1, "A", 1, 513, window=0)
    talk.segment(0, "A", 512, 1, step_ns=200_000_000)
    talk.segment(1, "A", 1, 513, window=0)
    talk.segment(1, "A", 1, 513, window=512)
    talk.segment(1, "R", 1, window=0)
    return talk


def wrapping() -> Talk:
    talk = Talk(isn=(2**32 - 500, 2**32 - 1))
    talk.handshake()
    for number in range(10):
        talk.segment(0, "A", 1 + 100 * number, 1, 100)
        talk.segment(1, "A", 1, 101 + 100 * number)
    talk.segment(0, "A", 801, 1, 100, step_ns=10**9)
    return talk


def scaling() -> Talk:
    talk = Talk()
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    talk.handshake(options=(options, options))
    talk.segment(1, "A", 1, 1, window=65535)
    talk.segment(0, "S", 0, options=options, ports=(40001, 80))
    talk.segment(1, "SA", 0, 1, options=options[:1], ports=(40001, 80))
    talk.segment(0, "A", 1, 1, ports=(40001, 80))
    talk.segment(0, "S", 0, ports=(40002, 80))
    talk.segment(1, "SA", 0, 1, options=options, ports=(40002, 80))
    talk.segment(1, "A", 1, 1, ports=(40002, 80))
    talk.segment(1, "SA", 0, 1, options=options, ports=(40003, 80))
    talk.segment(0, "A", 1, 1, ports=(40003, 80))
    talk.segment(1, "A", 1, 1, ports=(40003, 80))
    return talk


def middle() -> Talk:
    talk = Talk()
    talk.segment(1, "PA", 5000, 700, 10)
    talk.segment(0, "PA", 700, 5010, 10)
    talk.segment(0, "FA", 710, 5010)
    talk.segment(1, "FA", 5010, 711)
    talk.segment(0, "A", 711, 5011)
    return talk


def reuse() -> Talk:
    talk = Talk()
    for start in (0, 200_000, 100_000):
        talk.segment(0, "S", start)
        talk.segment(1, "SA", start, start + 1)
        talk.segment(0, "A", start + 1, start + 1)
        talk.segment(0, "R", start + 1)
    return talk


def opened_at_once() -> Talk:
    talk = Talk()
    talk.segment(0, "S", 0)
    talk.segment(1, "S", 0)
    talk.segment(0, "SA", 0, 1)
    talk.segment(1, "SA", 0, 1)
    talk.segment(0, "PA", 1, 1, 10)
    return talk


def ipv6() -> Talk:
    talk = Talk(ipv6=True)
    talk.handshake()
    talk.segment(0, "PAEC", 1, 1, 1000)
    talk.segment(1, "AU", 1, 1001)
    return talk


WRITTEN = [
    lost_within_microseconds,
    keep_alives,
    losses,
    acknowledged_before,
    zero_window,
    wrapping,
    scaling,
    middle,
    reuse,
    opened_at_once,
    ipv6,
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
