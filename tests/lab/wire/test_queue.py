"""The wire's queues drop and mark as the RFCs say: 8289 (CoDel), 8290 (FQ-CoDel), 8033 (PIE)."""

import hashlib
import itertools
import math
import random
import statistics
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import completed
from tests.support.wire.bench import Bench
from tests.support.wire.frames import arp, checksum, ethernet, numbered, tcp, udp
from tests.support.wire.model import Settings

MS = 1_000_000
FULL = 1514
TX_NS = 1_230_400  #: time that a full frame and its framing take at 10 Mbit/s


def with_ecn(frame: bytes, codepoint: int) -> bytes:
    """Return the same frame with an ECN codepoint, and in IPv4 its new checksum."""
    if frame[12:14] == b"\x86\xdd":
        return frame[:15] + bytes([frame[15] | codepoint << 4]) + frame[16:]
    header = bytearray(frame[14:34])
    header[1] |= codepoint
    header[10:12] = b"\0\0"
    header[10:12] = struct.pack(">H", checksum(header))
    return frame[:14] + bytes(header) + frame[34:]


#: Heads of frames that allow marks, and of another flow that does not, by IP version.
BUSY = {version: with_ecn(numbered(66, 0, version), 2) for version in (4, 6)}
OTHER = {version: udp(bytes(50), port=9000, version=version) for version in (4, 6)}


@dataclass(frozen=True)
class Outcome:
    """The fate of the frames that arrived, each as (time in ns, head, length)."""

    arrived: list[tuple[int, bytes, int]]
    left_ns: dict[int, int]  #: end of the transmission, by the number of the frame
    marked: list[int]
    dropped: tuple[int, int]  #: numbers of frames dropped by a full queue, and by the AQM

    def waited_ns(self, number: int) -> int:
        """Return the time from arrival to the end of the transmission."""
        return self.left_ns[number] - self.arrived[number][0]

    def of(self, head: bytes) -> list[int]:
        return [number for number, frame in enumerate(self.arrived) if frame[1] == head]


Run = Callable[..., Outcome]


@pytest.fixture
def run(sanitized_directory: Path) -> Run:
    def queue_run(arrivals: Iterable[tuple[int, bytes, int]], **settings: object) -> Outcome:
        arrived = sorted(arrivals)
        words = [f"{key}={value}" for key, value in ({"rate_bps": 10**7} | settings).items()]
        lines = "".join(f"{at} {head.hex()} {length}\n" for at, head, length in arrived)
        ran = completed([sanitized_directory / "queue_run", *words], input=lines)
        assert (ran.returncode, ran.stderr) == (0, "")
        *left, dropped = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
        left_ns = {number: time_ns for number, time_ns, _marked in left}
        marked = [number for number, _time_ns, marked in left if marked]
        assert len(left) + sum(dropped) == len(arrived)
        return Outcome(arrived, left_ns, marked, (dropped[0], dropped[1]))

    return queue_run


def steady(
    every_us: float, seconds: float, head: bytes = BUSY[4], length: int = FULL
) -> list[tuple[int, bytes, int]]:
    count = int(seconds * 1e6 / every_us)
    return [(10**9 + int(1000 * every_us * number), head, length) for number in range(count)]


@pytest.mark.parametrize(
    ("settings", "target_ns", "interval_ns"),
    [({}, 5 * MS, 100 * MS), ({"target_ns": 3 * MS, "interval_ns": 50 * MS}, 3 * MS, 50 * MS)],
)
@pytest.mark.parametrize(("ecn", "version"), [("off", 4), ("on", 4), ("on", 6)])
def test_codel_follows_its_control_law(
    run: Run, settings: dict[str, int], target_ns: int, interval_ns: int, ecn: str, version: int
) -> None:
    """A queue above the target for an interval loses a frame, then one per interval/sqrt(count)."""
    arrivals = steady(900, 1.4, BUSY[version])
    outcome = run(arrivals, aqm="codel", ecn=ecn, queue_packets=0, **settings)
    taken_ns = {number: time_ns - TX_NS for number, time_ns in outcome.left_ns.items()}
    late = (n for n, at_ns in taken_ns.items() if at_ns - outcome.arrived[n][0] >= target_ns)
    above_ns = min(taken_ns[number] for number in late)
    if ecn == "on":
        struck_ns = [taken_ns[number] for number in outcome.marked]
        assert outcome.dropped == (0, 0)
    else:
        missing = sorted(set(range(len(outcome.arrived))) - set(taken_ns))
        ends = (min(n for n in taken_ns if n > number) for number in missing[:-1])
        struck_ns = [taken_ns[number] for number in ends]
        assert outcome.dropped == (0, len(missing))
    assert len(struck_ns) > 30
    due_ns = [above_ns + interval_ns]
    for count in range(1, len(struck_ns)):
        # The first frame is struck when it is taken, and the law goes on from there.
        before = struck_ns[0] if count == 1 else due_ns[-1]
        due_ns.append(before + round(interval_ns / math.sqrt(count)))
    assert all(0 <= at - due < 2 * TX_NS for at, due in zip(struck_ns, due_ns, strict=True))


#: Another flow than OTHER: another port, or only another address.
FLOWS_BESIDE = [(4, {"port": 9001}), (6, {"port": 9001}), (6, {"port": 9000, "to": bytes(16)})]


@pytest.mark.parametrize(("version", "fields"), FLOWS_BESIDE, ids=str)
def test_fq_codel_shares_bytes_and_lets_the_quiet_flow_pass(
    run: Run, version: int, fields: dict[str, Any]
) -> None:
    beside = udp(bytes(50), version=version, **fields)
    loads = [*steady(700, 3, BUSY[version]), *steady(300, 3, beside, 500)]
    quiet_flow = steady(20_000, 3, OTHER[version], 100)
    outcome = run([*loads, *quiet_flow], aqm="fq_codel", queue_packets=0)
    quiet = outcome.of(OTHER[version])
    assert all(outcome.waited_ns(number) < 3 * TX_NS for number in quiet)
    bytes_left = [
        sum(outcome.arrived[n][2] for n in outcome.of(head) if n in outcome.left_ns)
        for head in {head for _at, head, _length in loads}
    ]
    assert max(bytes_left) < 1.05 * min(bytes_left)


def test_pie_keeps_the_delay_near_its_target(run: Run) -> None:
    arrivals = steady(1025, 10, OTHER[4])  # 1.2 times the rate of the link
    outcome = run(arrivals, aqm="pie", ecn="on", queue_packets=0)
    waits = [outcome.waited_ns(number) - TX_NS for number in outcome.left_ns if number > 5000]
    assert 8 * MS < statistics.mean(waits) < 25 * MS  # the target is 15 ms
    lost = len(arrivals) - len(outcome.left_ns)
    assert outcome.dropped == (0, lost)
    assert 0.12 < lost / len(arrivals) < 0.2
    assert outcome.marked == []
    assert outcome == run(arrivals, aqm="pie", ecn="on", queue_packets=0)
    assert outcome.left_ns != run(arrivals, aqm="pie", queue_packets=0, seed=1).left_ns


def test_pie_marks_before_it_drops(run: Run) -> None:
    """A sender that ignores marks lets the probability rise, and above a tenth PIE drops."""
    outcome = run(steady(1190, 10), aqm="pie", ecn="on", queue_packets=0)
    missing = set(range(len(outcome.arrived))) - set(outcome.left_ns)
    assert len([number for number in outcome.marked if number < min(missing)]) > 5
    assert run(steady(1190, 10), aqm="pie", queue_packets=0).marked == []


FLOWS = [
    *(with_ecn(numbered(60, 0), codepoint) for codepoint in (0, 1, 2, 2, 2, 2, 3)),
    *(udp(bytes(50), source=bytes([192, 0, 2, 3])), udp(bytes(50), to=bytes([192, 0, 2, 4]))),
    *(tcp(port=7), tcp(), arp(0), ethernet(b"\1" * 46, kind=0x0806)),
]
RARE_FLOWS = [udp(bytes(50), port=9000 + number) for number in range(60)]


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        ({"aqm": "codel"}, "ee35894eabae"),
        ({"aqm": "codel", "ecn": "on", "queue_packets": 15, "target_ns": MS}, "46afb1788ce0"),
        ({"aqm": "codel", "target_ns": MS, "interval_ns": 10 * MS}, "309180353df0"),
        ({"aqm": "fq_codel"}, "20164eecf040"),
        ({"aqm": "fq_codel", "ecn": "on", "seed": 7, "target_ns": MS}, "7e94e46d8152"),
        ({"aqm": "fq_codel", "queue_packets": 200, "rate_bps": 10**6}, "029d33cbd703"),
        ({"aqm": "pie"}, "241647af055d"),
        ({"aqm": "pie", "ecn": "on", "seed": 3, "queue_packets": 40}, "75d3287392e9"),
        ({"aqm": "pie", "target_ns": 2 * MS, "interval_ns": MS // 2}, "51a42ea18d57"),
    ],
)
def test_random_frames_have_the_fates_that_a_second_implementation_computed(
    run: Run, settings: dict[str, object], digest: str
) -> None:
    """The digests are those of the RFCs' pseudocode in Python.

    It was tests/support/wire/model.py until 26 November 2026.
    """
    chance = random.Random(1)
    arrivals, now = [], 10**9
    # All times are multiples of 0.1 ms, and often equal the limit of a rule.
    for most_gap in (11, 14, 15, 4, 20, 13, 400, 12):
        for _ in range(800):
            now += MS // 10 * chance.randrange(most_gap)
            head = chance.choice(RARE_FLOWS if chance.random() < 0.2 else FLOWS)
            arrivals.append((now, head, chance.choice((1476, 1476, 601, 101))))
    outcome = run(arrivals, **settings)
    fates = (sorted(outcome.left_ns.items()), outcome.marked, outcome.dropped)
    assert hashlib.sha256(repr(fates).encode()).hexdigest()[:12] == digest


@pytest.mark.parametrize("aqm", ["codel", "fq_codel"])
def test_the_wire_counts_and_records_drops_and_marks(
    bench: Bench, tmp_path: Path, aqm: str
) -> None:
    bench.set("ab", aqm="tail_drop")
    # The new queue has no state of the old one.
    bench.use(Settings(rate_bps=1_000_000, aqm=aqm, ecn="on", target_ns=MS, interval_ns=4 * MS))

    def flood() -> int:
        for number in range(80):
            frame = numbered(FULL, number, 4 + number % 4 // 2 * 2)
            bench.ends[0].send(with_ecn(frame, 2 * (number % 2)))
        return 80

    recorded = bench.record(tmp_path / "queue.pcapng", flood)
    counted = bench.counters()["ab"]
    assert counted["dropped"]["aqm"] == sum(packet.dropped == "aqm" for packet in recorded) > 0
    left = [packet for packet in recorded if not packet.inbound and not packet.dropped]
    marked = [packet for packet in left if "marked=ce" in packet.comment]
    assert counted["marked"] == len(marked) > 0
    for packet in left:
        is_v4 = packet.data[12:14] == b"\x08\x00"
        assert not is_v4 or checksum(packet.data[14:34]) == 0
        ecn = packet.data[15] if is_v4 else packet.data[15] >> 4
        assert (ecn & 3 == 3) == (packet in marked)
    assert len({packet.data[12:14] for packet in marked}) == 2
    due = [packet.value("due_ns") for packet in left]
    assert min(after - before for before, after in itertools.pairwise(due)) == 8 * 1538 * 1000
