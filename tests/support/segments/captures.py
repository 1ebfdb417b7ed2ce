"""Captures for comparisons: made by other programs, written by hand, or recorded by us."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from typing import Any

from tests.support.forge import Frame, Talk
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


def one_bucket() -> Talk:
    """Return two pairs of connections on loopback; each pair shares a bucket of tcptrace's table.

    In the second pair, only the first connection's ports add up to more than 16 bits can hold.
    """
    talk = Talk(loopback=True)
    for ports in ((41156, 34827), (32862, 34923), (51957, 49663), (52479, 1)):
        talk.segment(0, "S", 0, ports=ports)
        talk.segment(1, "SA", 0, 1, ports=ports)
        talk.segment(0, "A", 1, 1, ports=ports)
        talk.segment(0, "PA", 1, 1, 8, ports=ports)
        talk.segment(1, "A", 1, 9, ports=ports)
        talk.segment(1, "RA", 1, 9, ports=ports)
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


def datagrams_between() -> Talk:
    """Return two refused connections, each followed by a datagram that belongs to no connection."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    talk = Talk()
    for ports in ((40000, 80), (40002, 80)):
        talk.segment(0, "S", 0, ports=ports)
        talk.segment(1, "RA", -5000, 1, window=0, ports=ports)
        datagram = IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=5, dport=6)
        frame = Ether(dst="02:00:00:00:00:02") / datagram
        talk.frames.append(Frame(bytes(frame), talk.time_ns))
    return talk


def reset_often() -> Talk:
    """Return a connection with 300 resets and with an MSS of 65,495, as on loopback."""
    talk = Talk()
    talk.handshake(options=([("MSS", 65495)], [("MSS", 65495)]))
    for _ in range(300):
        talk.segment(1, "R", 1, window=0)
    return talk


WRITTEN = [
    lost_within_microseconds,
    reset_often,
    datagrams_between,
    keep_alives,
    losses,
    acknowledged_before,
    zero_window,
    wrapping,
    scaling,
    middle,
    reuse,
    one_bucket,
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
