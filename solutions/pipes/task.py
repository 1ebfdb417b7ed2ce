"""Problem set "pipes" (throughput and copies): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_meter`, with another transfer.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.errors import ParameterError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, counts_in, numbers_in, one_of
from tcplab.grading.packets import RST, SYN, OwnPacket, talk
from tcplab.grading.programs import compiled, how_it_ended, never_listened
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import Submission
from tcplab.segments import SegmentArray

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_mb_per_s", "q1_mib_per_s"],
    "q2": ["q2_copies"],
    "q3": ["q3_copy_s_per_gb", "q3_splice_s_per_gb"],
    "q4": ["q4_file_bytes"],
    "q5": ["q5_stall_ms", "q5_reason"],
    "q6": ["q6_bytes_after_fin"],
    "q7": [],
    "q8": ["q8_first_packet", "q8_second_packet"],
}
FILES = ["meter.c"]
IN_PROGRAMS = ["meter_number"]

REASONS = ("receiver-full", "segment-lost", "sender-idle")
CHAINS = (
    "dd if=/dev/zero | nc  →  nc > /dev/null",
    "dd if=film | nc  →  nc > copy",
    "nc < film  →  nc > /dev/null",
    "netcat --splice < film  →  nc > /dev/null",
    "nc < film  →  nc > copy",
    "dd if=/dev/zero | nc  →  nc | dd of=/dev/null",
    "netcat --splice < film  →  nc > copy",
    "nc < film  →  nc | dd of=/dev/null",
)


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    chains = list(CHAINS)
    return {
        "rate_mbit": own.integer("rate_mbit", 100, 990),
        "mtu_bytes": own.integer("mtu_bytes", 1200, 1490),
        "chains": [
            chains.pop(own.integer(f"chain {turn}", 0, len(chains) - 1)) for turn in range(4)
        ],
        "dd_netcat_s_per_gb": own.integer("dd_netcat", 440, 549) / 1000,
        "netcat_file_s_per_gb": own.integer("netcat_file", 330, 399) / 1000,
        "capture": own.captures()[0],
        "meter_number": own.of_course.integer("meter_number", 100, 999),
        "my_seq": own.integer("my_seq", 10_000, 900_000),
        "my_ack": own.integer("my_ack", 1_000_000, 9_000_000),
        "my_bytes": own.integer("my_bytes", 20, 900),
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept two rates below the link's, with fewer MiB/s than MB/s."""
    given = numbers_in(submission.answers, ANSWERS["q1"])
    if isinstance(given, Verdict):
        return given
    mb, mib = given
    if mb >= submission.numbers["rate_mbit"] / 8:
        return Verdict(0, "This is all that the link carries. Where are the headers?")
    if not 0 < mib < mb:
        return Verdict(0, "A MiB is larger than a MB. Which of the two numbers must be larger?")
    return Verdict(1, "These are plausible rates. Have you counted everything around the data?")


def check_q2(submission: Submission) -> Verdict:
    """Accept a list with one number of copies per chain, each from 1 to 12."""
    given = counts_in(
        submission.answers["q2_copies"], len(submission.numbers["chains"]), name="q2_copies"
    )
    if isinstance(given, Verdict):
        return given
    if max(given) > 12:
        return Verdict(0, "q2_copies: none of these chains makes that many copies.")
    if min(given) == 0:
        return Verdict(
            0,
            "Each of these chains has an nc at its end, so no chain makes zero copies. What does"
            " nc do?",
        )
    return Verdict(
        1, "There is a number for each chain. Go through the reads and writes of each again."
    )


def check_q3(submission: Submission) -> Verdict:
    """Accept two positive CPU times below that of the chain whose nc reads the file."""
    given = numbers_in(submission.answers, ANSWERS["q3"], unit="CPU seconds per GB")
    if isinstance(given, Verdict):
        return given
    copy_s, splice_s = given
    if not 0 < copy_s < submission.numbers["netcat_file_s_per_gb"]:
        return Verdict(0, "q3_copy_s_per_gb: one copy alone cannot cost as much as a whole chain.")
    if not 0 < splice_s < submission.numbers["netcat_file_s_per_gb"]:
        return Verdict(0, "q3_splice_s_per_gb: with fewer copies it should cost less CPU time.")
    return Verdict(1, "Plausible. Do your price per copy and the rest give both measured numbers?")


def check_q4(submission: Submission) -> Verdict:
    """Accept at most as many bytes as were sent."""
    most = bounds_of(submission.capture).payload_bytes
    given = numbers_in(submission.answers, ANSWERS["q4"], least=1, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number of bytes. Does it count each byte once?")


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the capture, and one of the reasons."""
    most = bounds_of(submission.capture).lasts_ms
    stall = numbers_in(submission.answers, ["q5_stall_ms"], unit="ms", above=0, most=most)
    if isinstance(stall, Verdict):
        return stall
    then = "This is a time and a reason. What in the capture rules out the other two?"
    return one_of(submission.answers["q5_reason"], REASONS, name="q5_reason", then=then)


def check_q6(submission: Submission) -> Verdict:
    """Accept at most as many bytes as were sent."""
    most = bounds_of(submission.capture).payload_bytes
    given = numbers_in(submission.answers, ANSWERS["q6"], least=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number of bytes. Which segment is the client's FIN?")


def check_q8(submission: Submission) -> Verdict:
    """Send both packets to a closed port, and check the RSTs that answer them."""
    n, verdicts = submission.numbers, []
    wanted = {"ack": n["my_ack"], "seq": n["my_seq"]}
    for name, (field, value) in zip(ANSWERS["q8"], wanted.items(), strict=True):
        verdicts.append((0.5, _reset(submission, name, field, value)))
    return combine(verdicts)


def _reset(submission: Submission, name: str, field: str, value: int) -> Verdict:
    """Check that the RST that answers a packet has `value` in `field`."""
    try:
        packet = OwnPacket.read(submission.answers[name], name)
    except ParameterError as error:
        return Verdict(0, str(error))
    size = submission.numbers["my_bytes"]
    if field == "ack" and (not packet.flags & SYN or len(packet.data) != size):
        return Verdict(0, f"{name} must be a SYN with {size} bytes of data.")
    if field == "seq" and packet.data:
        return Verdict(0, f"{name} must have no data.")
    with talk(submission.lab()) as ours:
        ours.send(packet)
        answers = [heard for heard in ours.hear() if heard.flags & RST]
    if not answers:
        return Verdict(0, f"{name}: the server sent no answer. Which packets get no RST?")
    actual = getattr(answers[0], field)
    if actual == value:
        return Verdict(1, f"{name}: the server's RST has the {field} {value}.")
    return Verdict(
        0,
        f"{name}: the server's RST has the {field} {actual}, not {value}. Which number of your"
        " packet does it come from?",
    )


def check_q7(submission: Submission) -> Verdict:
    """Compile meter.c and send it 300 kB, with a pause before and after."""
    return look_at_meter(submission, Transfer(300_001, 2.8, before_s=1.0, after_s=1.2))


# ---- meter.c -------------------------------------------------------------------------------------

PEER = str(Path(__file__).parent / "peer.py")
PORT = 9000
#: On a busy machine, the times of the program and of the recorder may differ by this factor.
CLOSE = 1.3
_LINE = re.compile(rb"meter (\d+): (\d+) bytes in (\d+\.?\d*) s, (\d+\.?\d*) MB/s\s*")


@dataclass(frozen=True)
class Transfer:
    """A transfer that meter.c measures. The transfer and each pause take about a second."""

    size_bytes: int
    rate_mbit: float  #: rate of the link
    before_s: float  #: pause from the connection to the first byte
    after_s: float  #: pause from the last byte to the end


@compiled("meter.c")
def look_at_meter(submission: Submission, transfer: Transfer) -> Verdict:
    """Check the number of bytes, the time from the first byte to the last, and the rate in MB/s."""
    run = submission.run_in_lab(
        submission.compile("meter.c"),
        ["{port}"],
        peer=[
            *(sys.executable, PEER, "{port}", str(transfer.size_bytes)),
            *(str(transfer.before_s), str(transfer.after_s)),
        ],
        server_port=PORT,
        lab={"rtt_ms": 10, "rate_mbit": transfer.rate_mbit},
        limits=Limits(wall_s=20, cpu_s=10, processes=8, output_bytes=1 << 16),
    )
    if not run.answered:
        return never_listened(run, "meter", PORT)
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'meter')}.")
    lines = run.outcome.output.strip().splitlines()
    match = _LINE.fullmatch(lines[-1]) if lines else None
    if match is None:
        return Verdict(
            0, "The last line of the output does not have the form that meter.c describes."
        )
    if int(match[1]) != (number := submission.numbers["meter_number"]):
        return Verdict(0, f"The output names meter {int(match[1])}, but your meter is {number}.")
    count, seconds, rate = int(match[2]), float(match[3]), float(match[4])
    counted = _counted(count, transfer.size_bytes)
    timed = _timed(seconds, run.server_segments.data("client"))
    return combine(
        [(0.4, counted), (0.4, timed), (0.2, _rated(count, seconds, rate, counted, timed))]
    )


def _counted(count: int, sent: int) -> Verdict:
    if count == sent:
        return Verdict(1, "Every byte is counted once.")
    more = "more" if count > sent else "fewer"
    return Verdict(
        0,
        f"meter counts {count} bytes, {more} than the {sent} that were sent. How many bytes does"
        " read() return when it requests a whole block?",
    )


def _timed(seconds: float, came: SegmentArray) -> Verdict:
    took_s = float(came["time_ns"][-1] - came["time_ns"][0]) / 1e9
    if took_s / CLOSE <= seconds <= took_s * CLOSE:
        return Verdict(1, "The time is right.")
    if seconds < took_s:
        return Verdict(0, "The time is shorter than that from the first data segment to the last.")
    return Verdict(
        0,
        f"meter reports {seconds:.2f} s, but {took_s:.2f} s passed from the first data segment to"
        " the last. A sender may wait before its first byte, and after its last. Does that time"
        " count?",
    )


def _rated(count: int, seconds: float, rate: float, *others: Verdict) -> Verdict:
    if not any(other.passed for other in others):
        return Verdict(0, "")  # a rate that follows from two wrong numbers earns nothing
    expected = count / seconds / 1e6 if seconds else 0.0
    if abs(rate - expected) <= 0.005 * expected:
        return Verdict(1, "The rate follows from both numbers.")
    return Verdict(0, "The rate is not the bytes over the seconds, in MB/s. What is its unit?")
