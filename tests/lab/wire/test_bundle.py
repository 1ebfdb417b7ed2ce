"""Frames arrive unchanged, also segments that leave in one system call."""

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from tests.support.wire.bench import Bench
from tests.support.wire.frames import ACK, CLIENT, FIN, PSH, SERVER, ethernet, packet, tcp, udp
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
    "an MTU full of IPv6": udp(RANDOM.randbytes(1452), version=6),
    "IPv6 extensions": packet(6, b"\x3c" + bytes(7) + b"\x06" + bytes(47), protocol=0),
    "an IPv6 length too long": udp(bytes(50), version=6)[:70],
    "padding behind the packet": tcp(b"x") + bytes(5),
    "a wrong checksum": tcp(b"x", checksum_added=1),
    "an IP length too long": packet(4, bytes(50), 17)[:54],
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
        assert other.receive(1) == [FRAMES[name]]
    assert bench.counters()["ab"]["bytes_out"] == len(FRAMES[name])


@pytest.mark.parametrize("mtu", [9000, 65535])
def test_jumbo_frames_arrive_unchanged(lab: Lab, mtu: int) -> None:
    with Bench(lab, mtu=mtu) as bench:
        frames = [ethernet(RANDOM.randbytes(length)) for length in (46, 1500, 1938, 1939, mtu)]
        for delay_ns in (0, 1_000_000):
            bench.use(Settings(delay_ns=delay_ns))
            bench.ends[0].send(*frames)
            assert bench.ends[1].receive(len(frames)) == frames


# ---- bundles of segments ----


def train(
    lengths: list[int],
    options: bytes = b"",
    odd_one: int = -1,
    odd: Mapping[str, int] = MappingProxyType({}),
    version: int = 4,
) -> list[bytes]:
    """Return consecutive segments; the one at index odd_one differs as `odd` says."""
    frames = []
    seq = 2**32 - 3000
    for index, length in enumerate(lengths):
        fields = {"seq": seq, "flags": ACK, "version": version}
        if version == 4:
            fields["identification"] = 65530 + index & 0xFFFF
        if index == odd_one:
            length -= odd.get("shorter", 0)
            fields |= {name: value for name, value in odd.items() if name != "shorter"}
        content = random.Random(index).randbytes(length)
        frames.append(tcp(content, options=options, **fields))  # type: ignore[arg-type]
        seq += length
    return frames


def together(bench: Bench, frames: list[bytes]) -> list[bytes]:
    """Hold the frames back, release them all at the same moment, and return those that arrive."""
    bench.set(rate_bps=1000)
    bench.command("reset")
    bench.ends[0].send(*frames)
    bench.wait_until(lambda: bench.counters()["ab"]["packets_in"] == len(frames))
    bench.set(rate_bps=0)
    return bench.ends[1].receive(len(frames))


ODD: list[dict[str, int]] = [
    {},
    {"flags": ACK | PSH},
    {"flags": ACK | FIN},
    {"flags": ACK | 0x20},
    {"flags": ACK | 0x80},
    {"flags": 0},
    {"ack": 9},
    {"window": 9},
    {"seq": 9},
    {"port": 9},
    {"shorter": 1},
    {"checksum_added": 1},
]
ODD_IP: dict[int, list[dict[str, int]]] = {
    4: [{"identification": 9}, {"flags_and_offset": 0}],
    6: [{"traffic_class": 9}, {"flow_label": 9}, {"hop_limit": 9}],
}


@pytest.mark.parametrize(
    ("version", "odd"), [(v, odd) for v, own in ODD_IP.items() for odd in ODD + own], ids=str
)
def test_train_with_one_odd_frame_arrives_unchanged(
    bench: Bench, version: int, odd: dict[str, int]
) -> None:
    timestamps = b"\x01\x01\x08\x0a" + bytes(8)
    for length, count, options in ((1, 60, b""), (7, 3, timestamps), (1428, 30, timestamps)):
        for odd_one in (0, count - 2, count - 1):
            frames = train([length] * count, options, odd_one, odd, version)
            assert together(bench, frames) == frames


def test_ip_checksums_that_are_wrong_stay_wrong(bench: Bench) -> None:
    frames = train([1000] * 5)
    damaged = frames[2][:24] + b"\x12\x34" + frames[2][26:]
    frames[2] = damaged
    assert together(bench, frames) == frames


def test_segments_with_ip_options_arrive_unchanged(bench: Bench) -> None:
    frames = [
        tcp(bytes([n]) * 500, seq=500 * n, identification=n, ip_options=b"\x01" * 8)
        for n in range(20)
    ]
    assert together(bench, frames) == frames


@pytest.mark.parametrize("version", [4, 6])
def test_every_value_of_the_checksum_survives(bench: Bench, version: int) -> None:
    """Zero has two representations, so choose payloads whose checksum is one of them."""
    frames = []
    for number in range(60):
        fields: dict[str, Any] = {"identification": number} if version == 4 else {}
        fields |= {"seq": 100 * number, "version": version}
        at = 50 if version == 4 else 70
        # This payload word brings the checksum to zero.
        word = tcp(bytes(100), **fields)[at : at + 2]
        frames.append(tcp(word + bytes(98), **fields))
        assert frames[-1][at : at + 2] in (b"\0\0", b"\xff\xff")
    assert together(bench, frames) == frames
