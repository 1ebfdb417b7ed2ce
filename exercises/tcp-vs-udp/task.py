"""Problem set "tcp-vs-udp": its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_tally`, with other runs.
"""

from __future__ import annotations

import random
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.errors import LabError, ParameterError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, counts_in, describe, numbers_in, one_of
from tcplab.grading.packets import PATIENCE_S, read_datagram
from tcplab.grading.programs import compiled, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_udp_mb_per_s", "q1_tcp_mb_per_s"],
    "q2": ["q2_kept", "q2_ask_bytes"],
    "q3": ["q3_trips"],
    "q4": ["q4_lost_on_the_way"],
    "q5": ["q5_duplicated", "q5_reordered"],
    "q6": ["q6_lost_in_the_buffer", "q6_fix"],
    "q7": [],
    "q8": ["q8_packets"],
}
FILES = ["tally.c"]
IN_PROGRAMS = ["version"]

#: What happens to a datagram of q8.
FATES = ("read", "dropped")
#: The data of the datagram after the last of q8.
LAST = 255
FIXES = ("larger-receive-buffer", "slower-sender", "sort-by-number")


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    kernel_bytes = own.pick("kernel_bytes", [768, 1280, 2304])
    return {
        "rate_mbit": own.integer("rate_mbit", 10, 990),
        "block_bytes": own.integer("block_bytes", 100, 600),
        "rcvbuf_bytes": own.integer("rcvbuf", 30_000, 120_000),
        "kernel_bytes": kernel_bytes,
        "burst": own.integer("burst", 400, 1200),
        "blocks": own.integer("blocks", 2000, 9000),
        "small_bytes": own.integer("small_bytes", 300, 1440),
        "loopback_mtu": own.integer("loopback_mtu", 8000, 33_000),
        "version": own.of_course.integer("version", 2, 250),
        "datagrams": [
            (own.integer(f"number {turn}", 0, 9), fate)
            for turn, fate in enumerate((*FATES, *(own.pick(f"fate {i}", FATES) for i in range(6))))
        ],
        "capture": own.captures()[0],
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept two rates below the link's, with a lower rate for UDP than for TCP."""
    given = numbers_in(submission.answers, ANSWERS["q1"], unit="MB/s")
    if isinstance(given, Verdict):
        return given
    udp, tcp = given
    if max(udp, tcp) >= submission.numbers["rate_mbit"] / 8:
        return Verdict(0, "This is all that the link carries. Where are the headers?")
    if udp >= tcp:
        return Verdict(0, "Do many small packets or few full packets have more headers?")
    return Verdict(1, "These are plausible rates. Have you counted everything around the data?")


def check_q2(submission: Submission) -> Verdict:
    """Accept a number of datagrams below the burst, and a request above the present one."""
    given = numbers_in(submission.answers, ANSWERS["q2"])
    if isinstance(given, Verdict):
        return given
    kept, ask = given
    if not 0 < kept < submission.numbers["burst"]:
        return Verdict(0, "q2_kept: a part of the burst fits into the buffer, and a part does not.")
    if ask <= submission.numbers["rcvbuf_bytes"]:
        return Verdict(0, "q2_ask_bytes: the buffer of the first question is already too small.")
    return Verdict(1, "Plausible. What does the kernel do with the size that you request?")


def check_q3(submission: Submission) -> Verdict:
    """Accept a list of three numbers, the first of which is the largest."""
    given = counts_in(submission.answers["q3_trips"], 3, name="q3_trips", least=1)
    if isinstance(given, Verdict):
        return given
    if given[0] != max(given):
        return Verdict(
            0, "One of the three cannot join blocks at all, and makes the most trips. Which one?"
        )
    return Verdict(1, "These are three counts. Is the last packet of each method full?")


def check_q4(submission: Submission) -> Verdict:
    """Accept at most ten times as many datagrams as the capture has."""
    most = 10 * bounds_of(submission.capture).segments
    given = numbers_in(submission.answers, ANSWERS["q4"], least=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number of datagrams. Where was the capture recorded?")


def check_q5(submission: Submission) -> Verdict:
    """Accept two numbers of datagrams, each at most the number in the capture."""
    most = bounds_of(submission.capture).segments
    given = numbers_in(submission.answers, ANSWERS["q5"], least=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "These are two counts. Do you count a duplicate as late, too?")


def check_q6(submission: Submission) -> Verdict:
    """Accept a number of datagrams, and one of the remedies."""
    most = bounds_of(submission.capture).segments
    lost = numbers_in(submission.answers, ["q6_lost_in_the_buffer"], least=0, most=most)
    if isinstance(lost, Verdict):
        return lost
    then = "This is a count and a remedy. Where were most of the datagrams lost?"
    return one_of(submission.answers["q6_fix"], FIXES, name="q6_fix", then=then)


def check_q8(submission: Submission) -> Verdict:
    """Send the learner's datagrams with their own checksums, and see which a program reads."""
    wanted, given = submission.numbers["datagrams"], submission.answers["q8_packets"]
    if not isinstance(given, list) or len(given) != len(wanted):
        return Verdict(0, f"q8_packets must be a list of {len(wanted)} packets.")
    try:
        own = [read_datagram(one, f"packet {turn}") for turn, one in enumerate(given, 1)]
    except ParameterError as error:
        return Verdict(0, str(error))
    if [data for _checksum, data in own] != [bytes([number]) for number, _fate in wanted]:
        return Verdict(0, "The data of each packet must be one byte, which is its number.")
    read = _read_by_a_program(submission, own)
    if read == [number for number, fate in wanted if fate == "read"]:
        return Verdict(1, f"The program read {describe(read)}, and the kernel dropped the others.")
    return Verdict(
        0,
        f"The program read {describe(read)}. Which checksum does a kernel accept without computing"
        " it (RFC 768)?",
    )


def _read_by_a_program(submission: Submission, own: list[tuple[int, bytes]]) -> list[int]:
    """Send datagrams with these checksums and data; return the numbers that a program reads."""
    from scapy.layers.inet import IP, UDP

    lab = submission.lab()
    with (
        lab.client.scapy_socket() as scapy,
        lab.server.socket(kind=socket.SOCK_DGRAM) as program,
    ):
        program.bind((lab.server.address, 0))
        program.settimeout(PATIENCE_S)
        to = IP(src=lab.client.address, dst=lab.server.address)
        port = program.getsockname()[1]
        ports = {"sport": source_port(own, to, port), "dport": port}
        for checksum, data in own:
            scapy.send(to / UDP(**ports, chksum=checksum) / data)
        scapy.send(to / UDP(**ports) / bytes([LAST]))
        read = []
        try:
            while (number := program.recv(1)[0]) != LAST:
                read.append(number)
        except TimeoutError:
            raise LabError("the last datagram did not arrive") from None
    return read


def source_port(own: list[tuple[int, bytes]], to: Any, port: int) -> int:
    """Choose a source port with which none of these checksums is right by chance.

    A checksum covers the ports, which the learner does not know.
    """
    from scapy.layers.inet import UDP

    def right(source: int, data: bytes) -> int:
        return int.from_bytes(bytes(to / UDP(sport=source, dport=port) / data)[26:28])

    ports = range(4000, 5000)
    return next(one for one in ports if all(given != right(one, data) for given, data in own))


def check_q7(submission: Submission) -> Verdict:
    """Compile tally.c and send it a run that is always the same."""
    return look_at_tally(submission, make_stream(random.Random("for the public check")))


# ---- tally.c -------------------------------------------------------------------------------------

PEER = Path(__file__).parent / "peer.py"
BLOCK = 8


@dataclass(frozen=True)
class Stream:
    """The numbers of a run in their order of arrival, and the right counts.

    Attributes:
        run: the run that the datagrams belong to.
        count: the number of datagrams that were sent.
        order: the numbers that arrive; None for a datagram of another run.
        lost, duplicated, reordered: the right counts, by construction.
    """

    run: int
    count: int
    order: list[int | None]
    lost: int
    duplicated: int
    reordered: int


def make_stream(own: random.Random) -> Stream:
    """Return a stream of blocks of eight numbers, with at most one event in each block."""
    often = {
        "lost": own.randint(3, 6),
        "twice": own.randint(2, 4),
        "late": own.randint(2, 4),
        "late and twice": 1,
        "other run": 1,
        "nothing": 1,
    }
    events = [event for event, times in often.items() for _ in range(times)]
    own.shuffle(events)
    events.append("nothing")  # a block without an event, so that all mistakes show
    order: list[int | None] = []
    for index, event in enumerate(events):
        order += _block(own, index * BLOCK, event)
    tail = own.randint(1, 3)  # only the end marker reveals that these were sent
    return Stream(
        own.randint(1, 2**31),
        len(events) * BLOCK + tail,
        order,
        often["lost"] + tail,
        often["twice"] + often["late and twice"],
        often["late"] + often["late and twice"],
    )


def _block(own: random.Random, first: int, event: str) -> list[int | None]:
    numbers: list[int | None] = list(range(first, first + BLOCK))
    at = own.randint(1, BLOCK - 4)
    if event in ("lost", "late", "late and twice"):
        number = numbers.pop(at)
        if event != "lost":
            numbers.insert(at + own.randint(1, 3), number)
        if event == "late and twice":
            numbers.append(number)
    elif event == "twice":
        numbers.insert(at + own.randint(1, 3), numbers[at])
    elif event == "other run":
        numbers.insert(at, None)
    return numbers


@compiled("tally.c")
def look_at_tally(submission: Submission, stream: Stream) -> Verdict:
    """Grade the counts that the learner's program reported."""
    run = _run(submission, stream)
    if run.peer is None or not run.peer["requested"]:
        wanted = f"No request of version {submission.numbers['version']} arrived"
        return Verdict(0, f"{wanted}, and {how_it_ended(run, 'tally')}.")
    counts = run.peer["accepted"]
    if counts is None:
        return Verdict(
            0,
            f"{run.peer['markers']} end markers came, and no answer had the form that peer.py"
            f" describes; {how_it_ended(run, 'tally')}.",
        )
    if not run.outcome.ok:
        return Verdict(0, f"An answer arrived, but {how_it_ended(run, 'tally')}.")
    return combine(
        [
            (0.4, _lost(stream, counts[0], counts[1])),
            (0.3, _duplicated(stream, counts[2])),
            (0.3, _reordered(stream, counts[3])),
        ]
    )


def _run(submission: Submission, stream: Stream) -> LabRun:
    order = ",".join("x" if number is None else str(number) for number in stream.order)
    version = str(submission.numbers["version"])
    run = submission.run_in_lab(
        submission.compile("tally.c"),
        ["10.0.0.2", "{port}", str(stream.run)],
        peer=[sys.executable, str(PEER), str(stream.run), str(stream.count), order, version],
        lab={"rtt_ms": 10},
        limits=Limits(wall_s=8, cpu_s=8, processes=8),
    )
    came = len(run.client_segments.sent_by("server"))
    if run.peer is not None and run.peer["requested"] and came < len(stream.order):
        raise LabError(
            f"{came} of {len(stream.order)} datagrams passed the laboratory; grade again"
        )
    return run


def _lost(stream: Stream, arrived: int, lost: int) -> Verdict:
    if lost == stream.lost and arrived == stream.count - stream.lost:
        return Verdict(1, "Arrived and lost: right.")
    more = "more" if lost > stream.lost else "fewer" if lost < stream.lost else "as many"
    return Verdict(
        0,
        f"Lost: tally reports {lost}, {more} than were lost, and {arrived} arrived. A gap is not a"
        " loss yet, because the missing datagram may come late. A datagram that comes twice arrived"
        " once. More datagrams may have been sent after the last that came. What tells how many?",
    )


def _duplicated(stream: Stream, duplicated: int) -> Verdict:
    if duplicated == stream.duplicated:
        return Verdict(1, "Duplicated: right.")
    return Verdict(
        0,
        f"Duplicated: tally reports {duplicated}, which is too"
        f" {'many' if duplicated > stream.duplicated else 'few'}. How do you know that a number has"
        " come before?",
    )


def _reordered(stream: Stream, reordered: int) -> Verdict:
    if reordered == stream.reordered:
        return Verdict(1, "Reordered: right.")
    return Verdict(
        0,
        f"Reordered: tally reports {reordered}, which is too"
        f" {'many' if reordered > stream.reordered else 'few'}. A datagram is late if it"
        " comes for the first time after a higher number of the same run. The datagram after a gap"
        " is not late.",
    )
