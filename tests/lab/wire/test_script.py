"""Scripted rules affect a chosen frame and no other, on every run."""

import pytest
from tests.support.wire.bench import Bench, WireError
from tests.support.wire.frames import ACK, FIN, PSH, RST, SYN, arp, extension, packet, tcp, udp


def passed(bench: Bench, *frames: bytes) -> list[int]:
    """Send frames from side a; return the indices of those that arrive, in order."""
    bench.command("reset")
    bench.ends[0].send(*frames)
    bench.drain(len(frames))
    arrived = bench.ends[1].receive(bench.counters()["ab"]["packets_out"])
    return [frames.index(frame) for frame in arrived]


def data(count: int, port: int = 5001) -> list[bytes]:
    return [tcp(b"x" * 10, seq=10 * number, flags=ACK | PSH, port=port) for number in range(count)]


@pytest.mark.parametrize(
    ("rule", "arrived"),
    [
        ("drop data nth=3", [0, 1, 3, 4, 5, 6, 7, 8, 9]),
        ("drop data nth=1,4-6,9", [1, 2, 6, 7, 9]),
        ("drop data every=4", [0, 1, 2, 4, 5, 6, 8, 9]),
        ("duplicate data nth=2", [0, 1, *range(1, 10)]),
        ("hold data nth=3", [0, 1, *range(3, 10), 2]),
    ],
)
def test_rule_applies_to_the_packets_it_counts(bench: Bench, rule: str, arrived: list[int]) -> None:
    bench.set(hold_ns=20_000_000)
    bench.command(f"script ab {rule}")
    frames = data(10)
    assert passed(bench, tcp(flags=SYN), *frames) == [0, *(1 + number for number in arrived)]
    if rule == "drop data nth=3":  # sent again, it is the eleventh data segment and passes
        assert passed(bench, frames[2]) == [0]


def test_rule_applies_only_to_its_direction_and_port(bench: Bench) -> None:
    for _ in range(32):
        bench.command("script ab drop data port=80")
    with pytest.raises(WireError, match="more than 32 rules"):
        bench.command("script ab drop data port=80")
    assert passed(bench, *data(2, port=80), *data(2, port=81)) == [2, 3]
    bench.ends[1].send(*data(2, port=80))
    assert len(bench.ends[0].receive(2)) == 2


KINDS = {
    "data": tcp(b"x"),
    "push": tcp(b"x", flags=ACK | PSH),
    "ack": tcp(),
    "syn": tcp(flags=SYN),
    "synack": tcp(flags=SYN | ACK),
    "fin": tcp(flags=FIN | ACK),
    "rst": tcp(flags=RST),
    "udp": udp(b"x"),
    "icmp": packet(4, b"\x08\0\xf7\xff\0\0\0\0", 1),
    "gre": packet(4, b"x", 47),
    "arp": arp(0),
    "fragment": packet(4, b"x" * 8, 6, flags_and_offset=1),
    "data6": tcp(b"x", version=6),
    "ack6": tcp(version=6),
    "udp6": udp(b"x", version=6),
    "icmp6": packet(6, b"\x80" + bytes(7), 58),
    "options6": packet(6, extension(60) + extension(6, units=3) + tcp(flags=SYN)[34:], 0),
    "first fragment6": packet(6, extension(6, field=1) + tcp(flags=FIN)[34:], 44),
    "fragment6": packet(6, extension(6, field=8) + bytes(8), 44),
    "cut6": packet(6, extension(6, units=9), 0),
    # No test sets when hosts send these, or ARP.
    "neighbour6": packet(6, b"\x87" + bytes(23), 58),
    "listener6": packet(6, extension(58) + b"\x8f" + bytes(27), 0),
}
SYNS = {"syn", "synack", "options6"}
FINS = {"fin", "first fragment6"}
FRAGMENTS = {"fragment", "fragment6", "cut6"}


@pytest.mark.parametrize(
    ("what", "struck"),
    [
        ("any", set(KINDS)),
        ("ip", set(KINDS) - {"arp", "neighbour6", "listener6"}),
        ("tcp", {"data", "push", "data6", "ack", "ack6", "rst"} | SYNS | FINS | FRAGMENTS),
        ("data", {"data", "push", "data6"}),
        ("ack", {"ack", "ack6"}),
        ("syn", SYNS),
        ("fin", FINS),
        ("rst", {"rst"}),
        ("udp", {"udp", "udp6"}),
        ("icmp", {"icmp", "icmp6"}),
    ],
)
def test_keyword_selects_the_kinds_of_frames(bench: Bench, what: str, struck: set[str]) -> None:
    bench.command(f"script ab drop {what}")
    names = list(KINDS)
    left = passed(bench, *KINDS.values())
    assert {names[index] for index in left} == set(KINDS) - struck
    assert bench.counters()["ab"]["dropped"]["script"] == len(struck)
