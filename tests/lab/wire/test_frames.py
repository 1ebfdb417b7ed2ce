"""A wire without parameters passes every frame unchanged."""

from __future__ import annotations

import random

import pytest
from tests.support.wire.bench import Bench
from tests.support.wire.frames import CLIENT, SERVER, ethernet, ipv4, tcp, udp
from tests.support.wire.model import Settings

from tcplab import Lab

RANDOM = random.Random(9)
TAGGED = SERVER + CLIENT + b"\x81\x00\x20\x05"

FRAMES = {
    "nothing but a header": SERVER + CLIENT + b"\x88\xb5",
    "an 802.3 length": ethernet(b"\x42\x42\x03" + bytes(35), kind=38),
    "a VLAN tag": TAGGED + udp(b"tagged")[12:],
    "two VLAN tags": SERVER + CLIENT + b"\x88\xa8\x00\x07" + TAGGED[12:] + udp(b"twice")[12:],
    "a tag and an MTU full": TAGGED + udp(RANDOM.randbytes(1472))[12:],
    "an MTU full": udp(RANDOM.randbytes(1472)),
    "padding behind the packet": tcp(b"x") + bytes(5),
    "a wrong checksum": tcp(b"x", checksum_added=1),
    "an IP length too long": ethernet(ipv4(bytes(50), 17)[:40]),
    "to a group": udp(b"group", to=bytes([224, 0, 0, 251])),
    "to all": ethernet(bytes(46), to=b"\xff" * 6),
    "to itself": ethernet(bytes(46), to=CLIENT),
}


@pytest.mark.parametrize("delay_ns", [0, 1_000_000])
@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_arrives_unchanged(bench: Bench, name: str, delay_ns: int) -> None:
    bench.use(Settings(delay_ns=delay_ns))
    for end, other in (bench.ends, bench.ends[::-1]):
        end.send(FRAMES[name])
        (arrived,) = other.receive_tagged(1)
        assert arrived == FRAMES[name]
    assert bench.counters()["ab"]["bytes_out"] == len(FRAMES[name])


@pytest.mark.parametrize("mtu", [9000, 65535])
def test_jumbo_frames_arrive_unchanged(lab: Lab, mtu: int) -> None:
    with Bench(lab, mtu=mtu) as bench:
        frames = [ethernet(RANDOM.randbytes(length)) for length in (46, 1500, 1938, 1939, mtu)]
        for delay_ns in (0, 1_000_000):
            bench.use(Settings(delay_ns=delay_ns))
            bench.ends[0].send(*frames)
            assert bench.ends[1].receive(len(frames)) == frames
