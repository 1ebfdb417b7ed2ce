"""Test a smaller MTU in the middle of the path: ICMP, a black hole, fragments."""

import struct
import time

import pytest
from tests.support.wire.bench import Bench
from tests.support.wire.frames import CLIENT, SERVER, checksum, ethernet, packet, tcp, udp

MTU = 1000


@pytest.fixture
def hop(bench: Bench) -> Bench:
    bench.set("ab", mtu=MTU)
    return bench


def test_only_longer_ip_packets_do_not_pass(hop: Bench) -> None:
    frames = [udp(bytes(MTU - 28)), udp(bytes(MTU - 48), version=6)]
    assert {len(frame) for frame in frames} == {14 + MTU}
    frames.append(ethernet(bytes(1400), kind=0x88B5))
    hop.ends[0].send(*frames)
    assert hop.ends[1].receive(3) == frames


@pytest.mark.parametrize(
    ("version", "protocol", "kind", "echo"),
    [(4, 1, b"\x03\x04", b"\x08"), (6, 58, b"\x02\x00", b"\x80")],
)
def test_too_long_packet_with_df_is_answered_with_icmp(
    hop: Bench, version: int, protocol: int, kind: bytes, echo: bytes
) -> None:
    hop.set("ba", delay_ns=200_000_000)
    sent = time.monotonic()
    frame = tcp(bytes(1400), seq=12345, version=version)
    hop.ends[0].send(frame)
    (answer,) = hop.ends[0].receive(1)
    assert time.monotonic() - sent >= 0.2  # the message takes the way back
    assert answer[:14] == CLIENT + SERVER + frame[12:14]
    header, address = (20, 4) if version == 4 else (40, 16)
    ip, icmp = answer[14 : 14 + header], answer[14 + header :]
    asked = frame[14 : 14 + header]
    assert ip[-address:] == asked[-2 * address : -address]
    assert ip[-2 * address : -address] == asked[-address:], "the packet's destination"
    if version == 4:
        assert (ip[9], checksum(ip), checksum(icmp)) == (protocol, 0, 0)
    else:
        pseudo = ip[8:] + struct.pack(">II", len(icmp), protocol)
        assert (ip[6], ip[4:6], checksum(pseudo + icmp)) == (protocol, pseudo[34:36], 0)
        assert len(answer) == 14 + 1280  # RFC 4443, 3.2: as much of the packet as possible
    assert icmp[:2] == kind
    assert struct.unpack(">I", icmp[4:8]) == (MTU,)
    assert frame[14:].startswith(icmp[8:])
    assert len(icmp) - 8 >= 28
    counters = hop.counters()
    assert counters["ab"]["dropped"]["mtu"] == 1
    assert counters["ba"]["icmp"] == 1
    hop.ends[0].send(packet(version, echo + bytes(1401), protocol))  # so does an echo request
    assert len(hop.ends[0].receive(1)) == 1
    assert hop.ends[1].receive(1, seconds=0.05) == []


@pytest.mark.parametrize("version", [4, 6])
def test_a_black_hole_sends_no_icmp_error(hop: Bench, version: int) -> None:
    hop.set("ab", icmp="off")
    hop.ends[0].send(tcp(bytes(1400), version=version))
    hop.drain(1)
    assert hop.counters()["ab"]["dropped"]["mtu"] == 1
    assert hop.ends[0].receive(1, seconds=0.05) == []


@pytest.mark.parametrize(
    "frame",
    [  # an ICMP error, a later fragment, to a group, without a source, a broadcast
        packet(4, b"\x03\x01" + bytes(1400), 1),
        udp(bytes(1400), flags_and_offset=0x4000 | 100),
        udp(bytes(1400), to=bytes([224, 0, 0, 1])),
        udp(bytes(1400), source=bytes(4)),
        b"\xff" * 6 + udp(bytes(1400))[6:],
        packet(6, b"\x01" + bytes(1400), 58),
        packet(6, b"\x11\0\x03\x20" + bytes(1404), 44),
        udp(bytes(1400), version=6, to=b"\xff" + bytes(15)),
        udp(bytes(1400), version=6, source=bytes(16)),
        b"\xff" * 6 + udp(bytes(1400), version=6)[6:],
    ],
)
def test_no_icmp_error_answers_the_excluded_packets(hop: Bench, frame: bytes) -> None:
    """RFC 1812, 4.3.2.7, and RFC 4443, 2.4, list the packets that no ICMP error may answer.

    An IPv6 packet to a group may be answered, but the hop has no address for that.
    """
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
