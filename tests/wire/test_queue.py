"""The wire's queues against the RFCs in Python: the same arrivals have the same fates."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.wire.bench import Bench
from tests.wire.frames import arp, checksum, numbered, udp
from tests.wire.queue_model import Packet, Settings, forward, with_ecn
from tests.wire.recording import Packet as Recorded

MS = 1_000_000
#: 1514 bytes take 3 ms, and a flood comes at several times that, also from a machine that is busy.
RATE = 4_000_000
#: CoDel and PIE with shorter times, so that a second of traffic shows all that they do.
CODEL = {"rate_bps": RATE, "target_ns": 2 * MS, "interval_ns": 20 * MS}
PIE = {"rate_bps": RATE, "aqm": "pie", "target_ns": 8 * MS, "interval_ns": 8 * MS}
QUEUES: dict[str, dict[str, Any]] = {
    "codel": {**CODEL, "aqm": "codel"},
    "codel, ECN": {**CODEL, "aqm": "codel", "ecn": "on"},
    "codel, as the RFC has it": {"rate_bps": RATE, "aqm": "codel"},
    "codel, full": {**CODEL, "aqm": "codel", "queue_packets": 5},
    "fq_codel": {**CODEL, "aqm": "fq_codel"},
    "fq_codel, ECN, other hash": {**CODEL, "aqm": "fq_codel", "ecn": "on", "seed": 7},
    "fq_codel, full": {**CODEL, "aqm": "fq_codel", "queue_packets": 20, "quantum_bytes": 300},
    "pie": PIE,
    "pie, ECN": {**PIE, "ecn": "on", "interval_ns": 20 * MS, "queue_packets": 40},
    "pie, as the RFC has it": {"rate_bps": RATE, "aqm": "pie"},
    "pie, full": {**PIE, "queue_packets": 40, "seed": 1},
    "tail_drop": {"rate_bps": RATE, "queue_packets": 10},
}


def flood(bench: Bench, bursts: int) -> int:
    """Some 15 Mbit/s of several flows, a pause, and again: not all of it may be marked."""
    sent = 0
    for _burst in range(bursts):
        for number in range(280):
            length = (1514, 1514, 590, 100)[number % 4]
            if number % 40 == 7:
                frame = arp(number)
            elif number % 10 == 3:
                frame = udp(bytes(50), port=9000 + number % 7)  # thin flows beside the thick one
            else:
                frame = with_ecn(numbered(length, number), number % 3)
            bench.ends[0].send(frame)
            sent += 1
            until = time.perf_counter_ns() + 500_000
            while time.perf_counter_ns() < until:
                pass
        time.sleep(0.05)
    return sent


def use(bench: Bench, settings: Settings) -> None:
    bench.set("ab", aqm="tail_drop")
    bench.set("ab", **asdict(settings))  # with another queue, nothing of what was before


def compare(recorded: list[Recorded], settings: Settings) -> list[Packet]:
    entries = [packet for packet in recorded if packet.inbound and packet.side == 0]
    packets = [Packet(entry.time_ns, entry.data, entry.length) for entry in entries]
    forward(settings, "ab", packets)
    ends = {one.id: one for one in recorded if not one.inbound and one.side == 1}
    for entry, expected in zip(entries, packets, strict=True):
        end = ends.get(entry.id)
        dropped = entry.dropped or (end and end.dropped)
        assert dropped == expected.dropped
        if dropped and end:
            assert end.time_ns == expected.dropped_ns
        elif end:
            assert end.value("due_ns") == expected.departure_ns
            assert ("marked=ce" in end.comment) == expected.marked
            assert checksum(end.data[14:34]) == 0 or not expected.is_ip
            assert (end.data[15] & 3 == 3) == expected.marked or not expected.is_ip
    return packets


@pytest.mark.parametrize("name", QUEUES)
def test_frames_have_the_fate_that_the_rfc_says(bench: Bench, tmp_path: Path, name: str) -> None:
    settings = Settings(**QUEUES[name])
    use(bench, settings)
    bursts = 8 if name == "pie, ECN" else 2  # PIE marks only up to a probability of a tenth
    recorded = bench.record(tmp_path / "queue.pcapng", lambda: flood(bench, bursts))
    packets = compare(recorded, settings)
    dropped = [packet.dropped for packet in packets if packet.dropped]
    marked = sum(packet.marked for packet in packets)
    counted = bench.counters()["ab"]
    assert counted["dropped"]["aqm"] == dropped.count("aqm")
    assert counted["dropped"]["queue"] == dropped.count("queue")
    assert counted["marked"] == marked
    # The flood was one: else the comparison would say little.
    assert len(dropped) + marked > 3, name
    assert bool(marked) == (settings.ecn == "on")
    if settings.aqm == "tail_drop" or "full" in name:
        assert "queue" in dropped
    else:
        assert "aqm" in dropped
