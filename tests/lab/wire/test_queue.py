"""Compare the wire's queues with Python models of the RFCs. Equal arrivals have equal fates."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import completed
from tests.support.wire.bench import Bench
from tests.support.wire.frames import arp, checksum, numbered, udp
from tests.support.wire.model import Packet, Settings, forward, with_ecn
from tests.support.wire.recording import Packet as Recorded

MS = 1_000_000
RATE = 10_000_000
#: The settings that the C program queue_run takes.
QUEUE_KEYS = {"rate_bps", "aqm", "ecn", "queue_packets", "target_ns", "interval_ns"}
QUEUE_KEYS |= {"quantum_bytes", "seed"}
QUEUES: dict[str, dict[str, Any]] = {
    "tail_drop": {"queue_packets": 20},
    "codel": {"aqm": "codel"},
    "codel, ECN": {"aqm": "codel", "ecn": "on"},
    "codel, full": {"aqm": "codel", "queue_packets": 15, "target_ns": MS},
    "codel, faster": {"aqm": "codel", "target_ns": MS, "interval_ns": 10 * MS},
    "fq_codel": {"aqm": "fq_codel"},
    "fq_codel, ECN, other hash": {"aqm": "fq_codel", "ecn": "on", "seed": 7},
    "fq_codel, full": {"aqm": "fq_codel", "queue_packets": 20, "quantum_bytes": 300},
    "pie": {"aqm": "pie"},
    "pie, ECN": {"aqm": "pie", "ecn": "on", "seed": 3},
    "pie, full": {"aqm": "pie", "queue_packets": 40},
    "pie, faster": {"aqm": "pie", "target_ns": 2 * MS, "interval_ns": 4 * MS},
}


@pytest.fixture
def queue_run(sanitized_directory: Path) -> Path:
    return sanitized_directory / "queue_run"


def frame(number: int, length: int) -> bytes:
    """Return a frame of a busy flow with any ECN codepoint or of a quiet flow, or an ARP frame."""
    if number % 40 == 7:
        return arp(number)
    if number % 10 == 3:
        return udp(bytes(50), port=9000 + number % 7)
    return with_ecn(numbered(length, number), number % 4)


def compare_run(program: Path, link: Settings, packets: list[Packet]) -> list[Packet]:
    """Run the C code and the model on the same packets; return the packets with their fates."""
    arguments = [f"{key}={value}" for key, value in link.keys().items() if key in QUEUE_KEYS]
    lines = [f"{p.time_ns} {p.data[:64].hex()} {p.length}\n" for p in packets]
    ran = completed([program, *arguments], input="".join(lines))
    assert (ran.returncode, ran.stderr) == (0, "")
    *left, dropped = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
    forward(link, "ab", packets)
    gone = [
        (number, packet.departures_ns[0], int(packet.marked))
        for number, packet in enumerate(packets)
        if packet.dropped is None
    ]
    assert left == sorted(gone, key=lambda packet: packet[1])
    reasons = [packet.dropped for packet in packets]
    assert dropped == (reasons.count("queue"), reasons.count("aqm"))
    return packets


def load(seconds: float, overload: float, seed: int = 1) -> list[Packet]:
    """Return Poisson arrivals at a multiple of the link's rate, with a pause after 2000 packets."""
    chance = random.Random(seed)
    packets, time_ns, number = [], 10**9, 0
    end_ns = time_ns + int(seconds * 1e9)
    while time_ns < end_ns:
        data = frame(number, chance.choice((1514, 1514, 590, 100)))
        packets.append(Packet(time_ns, data, len(data)))
        time_ns += int(chance.expovariate(overload * RATE / (8 * 900)) * 1e9)
        number += 1
        if number == 2000:
            time_ns += 400 * MS  # the queue runs empty
    return packets


@pytest.mark.parametrize("name", QUEUES)
def test_packets_have_the_fate_that_the_rfc_says(queue_run: Path, name: str) -> None:
    link = Settings(rate_bps=RATE, **QUEUES[name])
    packets = compare_run(queue_run, link, load(5, 1.3))
    dropped = [packet.dropped for packet in packets if packet.dropped]
    marked = sum(packet.marked for packet in packets)
    assert bool(marked) == (link.ecn == "on")
    assert "queue" in dropped or not (name == "tail_drop" or "full" in name)
    assert "aqm" in dropped or name in ("tail_drop", "fq_codel, full")
    assert len(packets) > 3000


@pytest.mark.parametrize("name", ["codel, faster", "fq_codel, full", "pie, ECN"])
def test_the_wire_queues_frames_as_the_rfcs_say(bench: Bench, tmp_path: Path, name: str) -> None:
    """Drops, marks and departures in the recording follow from the arrivals' times."""
    link = Settings(rate_bps=1_000_000, **QUEUES[name])
    bench.set("ab", aqm="tail_drop")
    bench.use(link, "ab")  # the new queue has no state of the old one

    def flood() -> int:
        for number in range(150):
            bench.ends[0].send(frame(number, 1514 if number % 2 else 590))
        return 150

    recorded = bench.record(tmp_path / "queue.pcapng", flood)
    packets = compare_recording(recorded, link)
    dropped = [packet.dropped for packet in packets if packet.dropped]
    counted = bench.counters()["ab"]
    assert counted["dropped"]["aqm"] == dropped.count("aqm")
    assert counted["dropped"]["queue"] == dropped.count("queue")
    assert counted["marked"] == sum(packet.marked for packet in packets)


def compare_recording(recorded: list[Recorded], link: Settings) -> list[Packet]:
    entries = [packet for packet in recorded if packet.inbound and packet.side == 0]
    packets = [Packet(entry.time_ns, entry.data, entry.length) for entry in entries]
    forward(link, "ab", packets)
    ends = {one.id: one for one in recorded if not one.inbound and one.side == 1}
    for entry, expected in zip(entries, packets, strict=True):
        end = ends.get(entry.id)
        dropped = entry.dropped or (end and end.dropped)
        assert dropped == expected.dropped
        if dropped and end:
            assert end.time_ns == expected.dropped_ns
        elif end:
            assert end.value("due_ns") == expected.departures_ns[0]
            assert ("marked=ce" in end.comment) == expected.marked
            assert checksum(end.data[14:34]) == 0 or not expected.is_ip
            was_ce = expected.data[15] & 3 == 3
            assert (end.data[15] & 3 == 3) == (expected.marked or was_ce) or not expected.is_ip
    return packets
