"""Test a smaller MTU in the middle of the path: ICMP, a black hole, fragments."""

from __future__ import annotations

import struct
import time

import pytest
from tests.support.wire.bench import Bench
from tests.support.wire.frames import CLIENT, SERVER, A, B, checksum, ethernet, ipv4, tcp, udp

MTU = 1000


@pytest.fixture
def hop(bench: Bench) -> Bench:
    bench.set("ab", mtu=MTU)
    return bench


def test_only_longer_ipv4_packets_do_not_pass(hop: Bench) -> None:
    frame = udp(bytes(MTU - 28))
    assert len(frame) == 14 + MTU
    ipv6 = ethernet(b"\x60" + bytes(1399), kind=0x86DD)
    frames = [frame, ipv6, ethernet(bytes(1400), kind=0x88B5)]
    hop.ends[0].send(*frames)
    assert hop.ends[1].receive(3) == frames


def test_too_long_packet_with_df_is_answered_with_icmp(hop: Bench) -> None:
    hop.set("ba", delay_ns=200_000_000)
    sent = time.monotonic()
    frame = tcp(bytes(1400), seq=12345)
    hop.ends[0].send(frame)
    (answer,) = hop.ends[0].receive(1)
    assert time.monotonic() - sent >= 0.2  # the message takes the way back
    assert answer[:14] == CLIENT + SERVER + b"\x08\x00"
    ip, icmp = answer[14:34], answer[34:]
    assert checksum(ip) == 0
    assert checksum(icmp) == 0
    assert ip[9] == 1
    assert ip[16:20] == A
    assert ip[12:16] == B, "the packet's destination"
    assert icmp[:2] == b"\x03\x04"
    assert struct.unpack(">H", icmp[6:8]) == (MTU,)
    assert frame[14:].startswith(icmp[8:])
    assert len(icmp) - 8 >= 28
    counters = hop.counters()
    assert counters["ab"]["dropped"]["mtu"] == 1
    assert counters["ba"]["icmp"] == 1
    hop.ends[0].send(ethernet(ipv4(b"\x08\x00" + bytes(1400), 1)))  # so does an echo request
    assert len(hop.ends[0].receive(1)) == 1
    assert hop.ends[1].receive(1, seconds=0.05) == []


def test_a_black_hole_sends_no_icmp_error(hop: Bench) -> None:
    hop.set("ab", icmp="off")
    hop.ends[0].send(tcp(bytes(1400)))
    hop.drain(1)
    assert hop.counters()["ab"]["dropped"]["mtu"] == 1
    assert hop.ends[0].receive(1, seconds=0.05) == []


@pytest.mark.parametrize(
    "frame",
    [
        ethernet(ipv4(b"\x03\x01" + bytes(1400), 1)),
        udp(bytes(1400), flags_and_offset=0x4000 | 100),
        udp(bytes(1400), to=bytes([224, 0, 0, 1])),
        udp(bytes(1400), source=bytes(4)),
        ethernet(ipv4(bytes(1400), 17), to=b"\xff" * 6),
    ],
    ids=["an ICMP error", "a later fragment", "to a group", "from nobody", "a broadcast"],
)
def test_no_icmp_error_answers_the_excluded_packets(hop: Bench, frame: bytes) -> None:
    """RFC 1812, 4.3.2.7, lists the packets to which an ICMP error must not reply."""
    hop.ends[0].send(frame)
    hop.drain(1)
    assert hop.counters()["ab"]["dropped"]["mtu"] == 1
    assert hop.ends[0].receive(1, seconds=0.05) == []


def reassembled(frames: list[bytes]) -> bytes:
    """Check each fragment; return the payload of the original IP packet."""
    payload = bytearray()
    for index, frame in enumerate(frames):
        header = (frame[14] & 15) * 4
        assert len(frame) - 14 <= MTU
        assert checksum(frame[14 : 14 + header]) == 0
        total, _, field = struct.unpack(">HHH", frame[16:22])
        assert total == len(frame) - 14
        assert field & 0x1FFF == len(payload) // 8
        assert bool(field & 0x2000) == (index < len(frames) - 1)
        payload += frame[14 + header :]
    return bytes(payload)


def test_too_long_packet_without_df_is_fragmented(hop: Bench) -> None:
    content = bytes(range(256)) * 5
    hop.ends[0].send(udp(content, flags_and_offset=0, identification=77))
    frames = hop.ends[1].receive(2)
    assert len(frames) == 2
    assert reassembled(frames)[8:] == content
    assert {frame[18:20] for frame in frames} == {b"\x00\x4d"}
    counters = hop.counters()["ab"]
    assert (counters["fragmented"], counters["fragments"]) == (1, 2)
    assert counters["packets_in"] + counters["fragments"] == counters["packets_out"] + 1
    # A fragment is fragmented again. A packet with IP options is dropped.
    hop.ends[0].send(udp(bytes(1200), flags_and_offset=0x2000 | 64))
    fields = [struct.unpack(">H", frame[20:22])[0] for frame in hop.ends[1].receive(2)]
    assert fields == [0x2000 | 64, 0x2000 | (64 + (MTU - 20) // 8)]
    hop.ends[0].send(udp(bytes(1200), flags_and_offset=0, options=b"\x94\x04\0\0"))
    hop.wait_until(lambda: hop.counters()["ab"]["dropped"]["mtu"] == 1)
