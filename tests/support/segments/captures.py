"""Captures for comparisons: made by other programs, written by hand, or recorded by us."""

import functools
import subprocess
import sys
import time
from typing import Any

from tests.support.forge import Talk
from tests.support.paths import DATA
from tests.support.tables import table

from tcplab import Lab
from tcplab.capture import Capture

FOREIGN = sorted(DATA.glob("*.pcap*"))


#: Conversations that tshark reads too.
WRITTEN = (
    "lost within microseconds",
    "losses",
    "acknowledged before it is seen",
    "byte sent again",
)
CONVERSATIONS = table("conversations")


def written(name: str) -> Talk:
    """Return a conversation of tests/data/conversations.toml."""
    case = CONVERSATIONS[name]
    talk = Talk(ipv6=case.get("ipv6", False), step_ns=case.get("step_ns", 1_000_000))
    if "handshake" in case:
        client, server = map(_options, case["handshake"])
        talk.handshake(options=(client, server))
    for words in case["segments"]:
        more = case.get("each", {}) | (words[-1] if isinstance(words[-1], dict) else {})
        plain = [word for word in words if not isinstance(word, dict)]
        talk.segment(*plain, **more | {"options": _options(more.get("options", []))})
    return talk


def _options(listed: list[list[Any]]) -> list[tuple[str, Any]]:
    """Return TCP options in the form that scapy wants."""
    return [(name, tuple(values) or b"") for name, *values in listed]


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
