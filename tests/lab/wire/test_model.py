"""Compare the wire with the reference model: equal arrivals must leave at the same nanosecond."""

import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.wire.bench import Bench
from tests.support.wire.frames import arp, number_of, numbered
from tests.support.wire.model import Packet, Settings, forward
from tests.support.wire.recording import Packet as Recorded

# The times are of the order of a frame's transmission, which takes 12 µs at 1 Gbit/s and 12 ms at 1
# Mbit/s.
LINKS = st.builds(
    Settings,
    delay_ns=st.sampled_from([0, 1, 50_000, 3_000_000, 20_000_000]),
    rate_bps=st.sampled_from([0, 0, 1_000_003, 10_000_000, 100_000_000, 1_000_000_000]),
    queue_packets=st.sampled_from([0, 1, 3, 10]),
    loss=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    hold_ns=st.sampled_from([0, 100_000, 2_000_000]),
    seed=st.integers(0, 2**63 - 1),
    duplicate_every=st.sampled_from([0, 5]),
    hold_every=st.sampled_from([0, 3]),
)
LENGTHS = st.sampled_from([46, 60, 61, 100, 590, 1514])
GAPS_US = st.sampled_from([0, 0, 0, 20, 200])
VERSIONS = st.sampled_from([0, 4, 6])  # 0: a frame that is not IP
TRAINS = st.lists(st.tuples(LENGTHS, GAPS_US, VERSIONS), min_size=1, max_size=24)

Train = list[tuple[int, int, int]]


def send(bench: Bench, side: int, train: Train) -> int:
    """Send a train of frames, some of which may not be IP; return how many were sent."""
    for number, (length, gap_us, version) in enumerate(train):
        bench.ends[side].send(numbered(length, number, version) if version else arp(number))
        until = time.perf_counter_ns() + 1000 * gap_us
        while time.perf_counter_ns() < until:
            pass
    return len(train)


def arrivals_of(recorded: list[Recorded], side: int) -> list[Recorded]:
    return [packet for packet in recorded if packet.inbound and packet.side == side]


def compare(recorded: list[Recorded], side: int, link: Settings) -> None:
    entries = arrivals_of(recorded, side)
    outcomes = [Packet(entry.time_ns, entry.data, entry.length) for entry in entries]
    forward(link, "ab" if side == 0 else "ba", outcomes)
    leavings: dict[int, list[Recorded]] = {entry.id: [] for entry in entries}
    for packet in recorded:
        if not packet.inbound and packet.side != side:
            leavings[packet.id].append(packet)
            # A frame may leave late, which the wire reports, but never early.
            assert packet.time_ns - packet.value("due_ns") == packet.value("late_ns") >= 0
    for entry, expected in zip(entries, outcomes, strict=True):
        assert entry.dropped == expected.dropped
        assert entry.value("queue_packets") == expected.queue_packets
        assert entry.value("queue_bytes") == expected.queue_bytes
        due = sorted(packet.value("due_ns") for packet in leavings[entry.id])
        assert due == sorted(expected.departures_ns)


@settings(
    max_examples=80, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ab=LINKS, ba=LINKS, there=TRAINS, back=TRAINS)
def test_both_directions_do_what_the_model_says(
    bench: Bench, tmp_path: Path, ab: Settings, ba: Settings, there: Train, back: Train
) -> None:
    bench.use(ab, "ab")
    bench.use(ba, "ba")
    path = tmp_path / "link.pcapng"
    recorded = bench.record(path, lambda: send(bench, 0, there) + send(bench, 1, back))
    assert len(arrivals_of(recorded, 0)) == len(there)
    assert len(arrivals_of(recorded, 1)) == len(back)
    compare(recorded, 0, ab)
    compare(recorded, 1, ba)
    # The next example must start with an empty link.
    for end in bench.ends:
        while end.receive(1, seconds=0):
            pass


def test_the_recorded_segments_are_those_that_arrive(bench: Bench, tmp_path: Path) -> None:
    link = Settings(
        rate_bps=20_000_000, delay_ns=2_000_000, queue_packets=5, loss=0.2, hold_every=5
    )
    bench.use(link)
    train = [(100 + 50 * (n % 20), 100, 4 + n % 2 * 2) for n in range(60)]
    recorded = bench.record(tmp_path / "link.pcapng", lambda: send(bench, 0, train))
    left = [packet for packet in recorded if not packet.inbound]
    received = bench.ends[1].receive(len(left))
    assert [number_of(frame) for frame in received] == [number_of(p.data) for p in left]
    assert [len(frame) for frame in received] == [p.length for p in left]
    assert bench.ends[1].receive(1, seconds=0.05) == []
    compare(recorded, 0, link)


def test_changed_probability_continues_the_random_sequence(bench: Bench) -> None:
    """Without a new seed the random sequence continues, as it must when a slider moves."""

    def received(count: int) -> list[int]:
        send(bench, 0, [(60, 0, 4)] * count)
        bench.drain(count)
        left = bench.ends[1].receive(bench.counters()["ab"]["packets_out"])
        bench.command("reset")
        return [number_of(frame) for frame in left]

    bench.set(loss=0.3, seed=7)
    whole = received(100)
    bench.set(seed=7)
    first = received(50)
    bench.set(loss=0.3)
    assert first + [50 + number for number in received(50)] == whole
