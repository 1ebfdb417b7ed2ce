"""Problem set "queues": its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_live`, with random parameters.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tcplab.errors import ParameterError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, numbers_in, one_of
from tcplab.grading.packets import ECE, SYN, Heard, OwnPacket, connected
from tcplab.grading.programs import compiled, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission
from tcplab.lab import Lab
from tcplab.segments import FROM_CLIENT

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_ping_ms", "q1_buffer_packets"],
    "q2": ["q2_used_percent", "q2_jain"],
    "q3": ["q3_age_ms", "q3_limit_bytes"],
    "q4": ["q4_data_segments", "q4_in_flight_bytes"],
    "q5": ["q5_queue_ms"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packets"],
}
FILES = ["live.c"]
IN_PROGRAMS = ["record_bytes"]

REASONS = ("dropped-when-full", "kept-everything", "lost-by-chance", "marked")
#: Bytes that a segment with 1448 bytes of data takes on Ethernet, with preamble and gap.
PACKET_BYTES = 1538
#: A SYN that requests ECN (ECE and CWR), with an MSS of 1460.
SYN_WITH_ECN = OwnPacket(flags=SYN | 0xC0, options=b"\x02\x04\x05\xb4")


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    saw_rate, saw_rtt = own.integer("saw rate", 10, 60), own.integer("saw rtt", 20, 80)
    bdp_packets = saw_rate * saw_rtt * 1000 / 8 / PACKET_BYTES
    live_rate, live_rtt = own.integer("live rate", 3, 20), own.integer("live rtt", 40, 200, 2)
    in_flight = int(live_rate * live_rtt * 125 * own.integer("live flight", 105, 130) / 100)
    unsent = own.integer("live unsent", 90_000, 400_000)
    return {
        "home_rate_mbit": own.integer("home rate", 2, 20),
        "home_rtt_ms": own.integer("home rtt", 8, 60),
        "home_queue_packets": own.integer("home queue", 60, 900),
        "core_rate_mbit": own.integer("core rate", 400, 10_000, 50),
        "core_rtt_ms": own.integer("core rtt", 30, 200),
        "core_flows": own.integer("core flows", 120, 9000),
        "saw_rate_mbit": saw_rate,
        "saw_rtt_ms": saw_rtt,
        "saw_queue_packets": max(2, int(bdp_packets * own.integer("saw part", 8, 80) / 100)),
        "rates_mbit": [own.integer(f"rate {flow}", 2, 90) / 10 for flow in range(5)],
        "live_rate_mbit": live_rate,
        "live_rtt_ms": live_rtt,
        "live_unsent_bytes": unsent,
        "live_in_flight_bytes": in_flight,
        "live_goal_ms": live_rtt + own.integer("live goal", 20, 80),
        "record_bytes": own.of_course.integer("record_bytes", 960, 1088, 4),
        "echoes": _echoes_wanted(own),
        "capture": own.captures()[0],
    }


def _echoes_wanted(own: Numbers) -> list[bool]:
    """Draw for each ACK whether it must have ECE; the echo starts and stops at least once."""
    return [
        False,
        *(own.pick(f"echo {turn}", [False, True]) for turn in range(4)),
        True,
        True,
        False,
    ]


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept a duration of at least the round trip, and a number of packets."""
    n = submission.numbers
    given = numbers_in(submission.answers, ANSWERS["q1"], above=0, most=1_000_000)
    if isinstance(given, Verdict):
        return given
    if given[0] < n["home_rtt_ms"]:
        return Verdict(0, "q1_ping_ms: a queue does not shorten the round trip.")
    return Verdict(1, "Possible. How long does the line take for one packet, framing included?")


def check_q2(submission: Submission) -> Verdict:
    """Accept a percentage from 50 to 100, and an index from 1/n to 1."""
    given = numbers_in(submission.answers, ANSWERS["q2"], above=0, most=100)
    if isinstance(given, Verdict):
        return given
    if given[0] < 50:
        return Verdict(0, "q2_used_percent: a window that halves keeps more than half of the line.")
    if not 1 / len(submission.numbers["rates_mbit"]) <= given[1] <= 1:
        return Verdict(
            0, "q2_jain: the index is between 1/n, where one flow has everything, and 1."
        )
    return Verdict(1, "Possible. How many bandwidth-delay products is the buffer?")


def check_q3(submission: Submission) -> Verdict:
    """Accept a duration of at least half of the round trip, and a size."""
    given = numbers_in(submission.answers, ANSWERS["q3"], above=0, most=100_000_000)
    if isinstance(given, Verdict):
        return given
    if given[0] < submission.numbers["live_rtt_ms"] / 2:
        return Verdict(0, "q3_age_ms: the path alone takes half of a round trip.")
    return Verdict(
        1, "Possible. Until when does Little's law count, and until when does the question?"
    )


def check_q4(submission: Submission) -> Verdict:
    """Accept a number of segments and a number of bytes."""
    most = bounds_of(submission.capture).payload_bytes
    given = numbers_in(submission.answers, ANSWERS["q4"], least=1, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(
        1, "These are two counts. Is everything in flight that has left and that no ACK covers?"
    )


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the capture."""
    most = bounds_of(submission.capture).lasts_ms
    given = numbers_in(submission.answers, ANSWERS["q5"], unit="ms", above=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a time. Have you subtracted the round trip of the path?")


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed answers."""
    then = "This is one of the answers. How long was the queue when it happened?"
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


def check_q8(submission: Submission) -> Verdict:
    """Send the packets one after the other, and check whether the right ACKs have ECE."""
    given, wanted = submission.answers["q8_packets"], submission.numbers["echoes"]
    if not isinstance(given, list) or len(given) != len(wanted):
        return Verdict(0, f"q8_packets must be a list of {len(wanted)} packets.")
    try:
        packets = [OwnPacket.read(one, f"packet {turn}") for turn, one in enumerate(given, 1)]
        echoes = _echoes(submission, packets)
    except ParameterError as error:
        return Verdict(0, str(error))
    wrong = [
        turn for turn, pair in enumerate(zip(echoes, wanted, strict=True), 1) if len({*pair}) > 1
    ]
    if not wrong:
        return Verdict(1, "Every ACK has ECE exactly where it should.")
    says = "has ECE" if echoes[wrong[0] - 1] else "has no ECE"
    return Verdict(
        0,
        f"The ACK of segment {wrong[0]} {says}. What makes a receiver begin to echo, and what makes"
        " it stop?",
    )


def _acknowledges(end: int) -> Callable[[Sequence[Heard]], bool]:
    return lambda heard: heard[-1].ack == end


def _echoes(submission: Submission, packets: Sequence[OwnPacket]) -> list[bool]:
    """Send each packet, and return for each whether its ACK has ECE."""
    echoes = []
    with connected(submission.lab(), SYN_WITH_ECN) as (ours, _server):
        for turn, packet in enumerate(packets, 1):
            ours.send(packet)
            end = packet.seq + len(packet.data)
            acks = [heard for heard in ours.hear(_acknowledges(end)) if heard.ack == end]
            if not packet.data or not acks:
                raise ParameterError(
                    f"The server does not acknowledge segment {turn}. Is its seq the one that the"
                    " server waits for, and is its ack 1?"
                )
            echoes.append(bool(acks[-1].flags & ECE))
    return echoes


def check_q7(submission: Submission) -> Verdict:
    """Compile live.c and send it 16 states, with events around them."""
    return look_at_live(submission, PUBLIC)


# ---- live.c --------------------------------------------------------------------------------------

PEER = str(Path(__file__).parent / "peer.py")
PAUSE_S = 0.1
#: A receive buffer so small that most waiting records are in the sender's queue.
READ_BYTES = 8192
#: Maximum median of the records that arrive before a new one. It is 1.5 times the number that
#: fits in 16 KiB of unsent data and the receive buffer.
MOST_WAITING = 27
#: A send buffer starts with 128 KiB, so that far more records wait if nothing limits them.
BUFFERS = {"net.ipv4.tcp_wmem": "4096 131072 4194304"}
#: A third of what the far path holds (150 kB); with SO_SNDBUF = 16 KiB, a tenth is possible.
LEAST_IN_FLIGHT_BYTES = 50_000
#: Twice what live.c may leave to the kernel, since an ACK may wait on a busy machine.
MOST_UNSENT_BYTES = 32_768
FAR: dict[str, Any] = {"rate_mbit": 20, "queue_packets": 60}
FAR_RECORDS = 600


@dataclass(frozen=True)
class Asked:
    """Parameters of a check of live.c: the peer's requests, and the delays of the two paths."""

    rounds: int  #: numbers that the peer sends
    records: int  #: records to read after each number
    #: round trips of the path on which the peer pauses before it reads, and of the one on which it
    #: does not; they are alike, so that a program cannot tell by them which of the two it is on
    rtt_ms: int
    far_rtt_ms: int


#: The parameters of the public check. The hidden judge draws none of them.
PUBLIC = Asked(rounds=16, records=12, rtt_ms=60, far_rtt_ms=60)


def run_live(
    submission: Submission, *arguments: object, queues: Queues | None = None, **lab: Any
) -> LabRun:
    """Run the learner's program against peer.py."""
    return submission.run_in_lab(
        submission.compile("live.c"),
        ["10.0.0.2", "{port}"],
        peer=[sys.executable, PEER, *map(str, arguments)],
        lab=lab,
        limits=Limits(wall_s=25, cpu_s=8, processes=8),
        during=queues.measured if queues else nullcontext,
    )


@dataclass
class Queues:
    """Samples of a connection's queues, for as long as a program runs."""

    #: when each began and ended, the bytes written and not read, the client's bytes without ACK
    samples: list[tuple[float, float, int, int]] = field(default_factory=list)
    most_bytes: int = 0  #: the most bytes that were written and not acknowledged

    @contextmanager
    def measured(self, network: Lab) -> Iterator[None]:
        """Take a sample every 5 ms while the body runs."""
        done = threading.Event()
        with (
            network.open_file(network.client, "/proc/net/tcp", os.O_RDONLY) as client,
            network.open_file(network.server, "/proc/net/tcp", os.O_RDONLY) as server,
        ):
            taker = threading.Thread(target=self._take, args=(client, server, done))
            taker.start()
            try:
                yield
            finally:
                done.set()
                taker.join()

    def _take(self, client: IO[bytes], server: IO[bytes], done: threading.Event) -> None:
        while not done.wait(0.005):
            start_s = time.monotonic()
            # First the client. What moves meanwhile is counted twice, and never left out.
            ours, theirs = _connections(client), _connections(server)
            end_s = time.monotonic()
            for (own, _), (unacked, _, _) in ours.items():
                for (_, other), (back, unread, accepted) in theirs.items():
                    if own == other and accepted:
                        self.samples.append((start_s, end_s, unacked + unread, back))
                        self.most_bytes = max(self.most_bytes, unacked)

    def begun(self, start_s: float, end_s: float, read_bytes: int, size: int) -> int | None:
        """Return how many records were begun when the client had all numbers, in a pause."""
        queued = [
            queued
            for first_s, last_s, queued, unacked in self.samples
            if start_s < first_s and last_s < end_s and not unacked
        ]
        return -(-(read_bytes + min(queued)) // size) if queued else None


def _connections(table: IO[bytes]) -> dict[tuple[bytes, bytes], tuple[int, int, bool]]:
    """Return both ends of each established connection, its two queues, and whether it has a file.

    See proc_net_tcp.rst.
    """
    found = {}
    for line in os.pread(table.fileno(), 1 << 16, 0).splitlines()[1:]:
        words = line.split()
        if words[3] == b"01":
            sent, came = words[4].split(b":")
            found[words[1], words[2]] = int(sent, 16), int(came, 16), words[9] != b"0"
    return found


@compiled("live.c")
def look_at_live(submission: Submission, asked: Asked) -> Verdict:
    """Check that records are whole and new, that no event is lost, and that enough is in flight."""
    size = submission.numbers["record_bytes"]
    arguments = (size, asked.rounds, asked.records, READ_BYTES, PAUSE_S)
    queues = Queues()
    near = run_live(submission, *arguments, queues=queues, rtt_ms=asked.rtt_ms, sysctls=BUFFERS)
    if damage := _damage(near):
        return Verdict(0, f"{damage} Nothing else counts until every record is whole.")
    age = _look_at_the_age(near, asked)
    if not age.passed:
        return age
    beside = Queues()
    far = run_live(
        submission, size, 1, FAR_RECORDS, 0, 0, queues=beside, rtt_ms=asked.far_rtt_ms, **FAR
    )
    if damage := _damage(far):
        return Verdict(0, f"Over {asked.far_rtt_ms} ms: {damage}")
    events = _look_at_the_events(near)
    if events.passed and (late := _late_rounds(near, queues, size)):
        events = Verdict(
            0,
            f"All events arrived, but {late} times the program had a newer number, and then began"
            " two or more records without it. When does it look for the newest number?",
        )
    return combine([(0.3, age), (0.5, events), (0.2, _look_at_the_flight(far, beside))])


def _late_rounds(run: LabRun, queues: Queues, size: int) -> int:
    """Return in how many rounds records were begun with an old number, or 0 if in one."""
    assert run.peer is not None
    late = 0
    for start_s, end_s, read, fresh in run.peer["pauses"]:
        begun = queues.begun(start_s, end_s, read * size, size)
        # A program that waits in send() has chosen one record's number before.
        late += begun is not None and fresh - begun > 1
    return late if late > 1 else 0


def _damage(run: LabRun) -> str:
    """Return a sentence that says how the program or the records failed, or "" if neither did."""
    if run.peer is None:
        return f"The receiver did not get its records, and {how_it_ended(run, 'live')}."
    if not run.outcome.ok:
        return f"{how_it_ended(run, 'live')}."
    if not run.peer["whole"]:
        return (
            f"One of {run.peer['records']} records is damaged, has a state older than the last,"
            " or has a number that was not sent."
            " What does send() return when there is room for only a part of a record?"
        )
    return ""


def _look_at_the_age(run: LabRun, asked: Asked) -> Verdict:
    assert run.peer is not None
    # Skip the first half of the rounds, in which the queues fill and hardly any record waits.
    before = statistics.median(run.peer["waited"][asked.rounds // 2 - 1 : -1])
    if before <= MOST_WAITING:
        return Verdict(1, "Every record is whole, and new data arrives soon.")
    return Verdict(
        0,
        f"Before a new state arrives, {before:g} other records arrive. Where do they"
        " wait, and which option in tcp(7) limits the data that is not sent yet?",
    )


def _look_at_the_events(run: LabRun) -> Verdict:
    """Check that each event has one record, soon, and that the newest state comes after it."""
    assert run.peer is not None
    sent, arrived = run.peer["events"]
    if arrived < sent:
        return Verdict(
            0,
            f"Of {sent} events, {arrived} arrived once and in their order. Which numbers may a"
            " newer number replace, and what does your program send after an event?",
        )
    if stale := run.peer["stale"]:
        return Verdict(
            0,
            f"All {sent} events arrived, but after an event {stale} records have a state that a"
            " newer one had replaced before that event. What does newest() forget?",
        )
    before = statistics.median(run.peer["events_waited"][sent // 2 :])
    if before > MOST_WAITING:
        return Verdict(0, f"All {sent} events arrived, but each after {before:g} other records.")
    return Verdict(1, f"Each of the {sent} events arrived once, soon and in order.")


def _look_at_the_flight(run: LabRun, queues: Queues) -> Verdict:
    acked = most = 0
    for row in run.client_segments:
        if row["direction"] != FROM_CLIENT:
            acked = max(acked, int(row["ack"]) - 1)
        elif row["payload_bytes"]:
            most = max(most, int(row["seq"]) - 1 + int(row["payload_bytes"]) - acked)
    if (unsent := queues.most_bytes - most) > MOST_UNSENT_BYTES:
        return Verdict(
            0,
            f"On a path that holds 150 kB, the kernel had {unsent:,} bytes that it had not sent.",
        )
    if most >= LEAST_IN_FLIGHT_BYTES:
        return Verdict(1, "A path that holds more data gets more.")
    return Verdict(
        0,
        f"On a path that holds 150 kB, at most {most:,} bytes were in flight. Which limit also"
        " applies to data that is sent and not acknowledged?",
    )
