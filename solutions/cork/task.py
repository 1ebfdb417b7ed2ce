"""Problem set "cork" (corks): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_answers`, with other parameters.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from tcplab.errors import ParameterError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, numbers_in, one_of, sizes_in
from tcplab.grading.packets import NO_PROBES, OwnPacket, connected
from tcplab.grading.programs import (
    always_held,
    compiled,
    departures,
    how_it_ended,
    run_into_file,
)
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_default_sizes", "q1_nodelay_sizes", "q1_cork_sizes"],
    "q2": ["q2_calls_cork", "q2_calls_writev", "q2_saved_bytes"],
    "q3": ["q3_young_ms", "q3_old_ms"],
    "q4": ["q4_writes", "q4_data_segments"],
    "q5": ["q5_waited_ms"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["respond.c"]
IN_PROGRAMS = ["step_bytes"]

REASONS = ("nagle-under-the-cork", "pulled-late", "timer-before-the-pull")
MSS_BYTES = 1448
#: The first two fields of an answer from respond.c, its index and the size of its part.
NUMBERS = struct.Struct(">II")
TRAILER = b"end of answer"


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    trailer, rest = own.integer("trailer", 8, 90), own.integer("rest", 60, 900)
    full, mss = own.integer("full", 1, 4), own.integer("my_mss", 300, 490)
    held = own.integer("corked rest", 20, 280)
    return {
        "pieces_bytes": (own.integer("header", 120, 720), full * MSS_BYTES + rest, trailer),
        "pieces": own.integer("pieces", 8, 230),
        "piece_bytes": own.integer("piece_bytes", 2, 6),
        "rtt_ms": own.integer("rtt_ms", 110, 399),
        "corked_bytes": own.integer("corked full", 4, 7) * mss + held,
        "held_bytes": held,
        "capture": own.captures()[0],
        "answers": own.integer("answers", 13, 18),
        "step_bytes": own.of_course.pick("step_bytes", [n for n in range(101, 300, 2) if n % 5]),
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept three lists of sizes that add up to all bytes, with no segment above the MSS."""
    total = sum(submission.numbers["pieces_bytes"])
    for name in ANSWERS["q1"]:
        given = sizes_in(submission.answers[name], total, name=name, most_bytes=MSS_BYTES)
        if isinstance(given, Verdict):
            return given
    return Verdict(1, "All bytes are in the lists. Does each of them leave when you think it does?")


def check_q2(submission: Submission) -> Verdict:
    """Accept whole numbers, with no more calls for writev() than for the cork."""
    given = numbers_in(submission.answers, ANSWERS["q2"], least=1)
    if isinstance(given, Verdict):
        return given
    if given[1] > given[0]:
        return Verdict(0, "Does writev() take more calls than a cork?")
    if max(given) > 1000 * submission.numbers["pieces"]:
        return Verdict(0, "This is more than a thousand per piece. Look at the units.")
    return Verdict(1, "Plausible. Did you count the calls that set and pull the cork?")


def check_q3(submission: Submission) -> Verdict:
    """Accept two durations in ms that are longer than the round trip."""
    given = numbers_in(submission.answers, ANSWERS["q3"], unit="ms", most=60_000)
    if isinstance(given, Verdict):
        return given
    if min(given) <= submission.numbers["rtt_ms"]:
        return Verdict(0, "No ACK will come that could release the bytes. Which timer does?")
    return Verdict(1, "Both times are longer than a round trip. How is the timer set in each case?")


def check_q4(submission: Submission) -> Verdict:
    """Accept a number of writes and a number of segments."""
    given = numbers_in(
        submission.answers, ANSWERS["q4"], least=1, most=bounds_of(submission.capture).payload_bytes
    )
    if isinstance(given, Verdict):
        return given
    return Verdict(
        1, "These are two counts. Are they the client's, and only of segments with data?"
    )


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the capture."""
    most = bounds_of(submission.capture).lasts_ms
    given = numbers_in(submission.answers, ANSWERS["q5"], unit="ms", above=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(
        1, "This is a time. Is it in milliseconds, and from the first write of the message?"
    )


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed reasons."""
    then = "This is one of the reasons. What happened right before the segment left?"
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


def check_q8(submission: Submission) -> Verdict:
    """Open a connection with the learner's packet, and count the bytes that a cork holds."""
    n = submission.numbers
    try:
        syn = OwnPacket.read(submission.answers["q8_packet"], "q8_packet")
        with connected(submission.lab(sysctls=NO_PROBES), syn) as (ours, server):
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            for size in (700, 400, n["corked_bytes"] - 1100):
                server.send(bytes(size))
            free = n["corked_bytes"] - n["held_bytes"]
            heard = ours.hear_all(lambda heard: heard[-1].sent_bytes >= free)
    except ParameterError as error:
        return Verdict(0, str(error))
    left = max((segment.sent_bytes for segment in heard), default=0)
    held = n["corked_bytes"] - left
    if held == n["held_bytes"]:
        return Verdict(1, f"{left} bytes left, and {held} are held in the cork.")
    return Verdict(
        0,
        f"{left} bytes left, and {held} are held in the cork instead of {n['held_bytes']}. Which"
        " segments does a cork hold, and how does the server learn the size of a full segment?",
    )


def check_q7(submission: Submission) -> Verdict:
    """Compile respond.c and send 12 answers."""
    return look_at_answers(submission, 12)


# ---- respond.c -----------------------------------------------------------------------------------


def part_sizes(answers: int, step_bytes: int) -> list[int]:
    """Return how many bytes of the file each answer contains."""
    return [1500 + step_bytes * index % 400 for index in range(answers)]


def wanted(file: bytes, parts: Sequence[int]) -> list[bytes]:
    """Return the answers that respond.c has to send."""
    due, offset = [], 0
    for index, size in enumerate(parts):
        header = NUMBERS.pack(index, size).ljust(30 + 11 * index % 61)
        due.append(header + file[offset : offset + size] + TRAILER)
        offset += size
    return due


@compiled("respond.c")
def look_at_answers(submission: Submission, answers: int) -> Verdict:
    """Run the learner's program against sendfile_server; check the bytes, then the segments.

    The first ACK comes when most answers have been sent.
    """
    parts = part_sizes(answers, submission.numbers["step_bytes"])
    file = secrets.token_bytes(sum(parts))
    start = partial(
        run_into_file,
        submission,
        submission.compile("respond.c"),
        ["10.0.0.2", "{port}", "file", str(answers)],
        lab={"rtt_ms": 25 * answers, "initial_window": 4 * answers},
        files={"file": file},
        limits=Limits(wall_s=15, cpu_s=6, processes=8),
    )
    run, received = start()
    due = wanted(file, parts)
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'respond')}.")
    if received != b"".join(due):
        return Verdict(0, _difference(received, due))
    ends = list(accumulate(map(len, due)))
    waiting = _look_at_waiting(run, lambda: start()[0], ends)
    return combine([(0.5, _look_at_pieces(run, ends)), (0.5, waiting)])


def _difference(received: bytes, due: list[bytes]) -> str:
    """Return a sentence that names the first wrong answer, or the number of surplus bytes."""
    position = 0
    for index, answer in enumerate(due):
        if received[position : position + len(answer)] != answer:
            return f"The receiver did not get the right bytes of answer {index}."
        position += len(answer)
    return f"{len(received) - position} bytes too many arrived after all {len(due)} answers."


def _look_at_pieces(run: LabRun, ends: list[int]) -> Verdict:
    """Check that no segment except the last one of an answer is smaller than the MSS."""
    sent = departures(run)
    small = sum(
        segment.size_bytes < MSS_BYTES and segment.end_bytes not in ends for segment in sent
    )
    if small == 0:
        return Verdict(1, "Every segment is full, or ends where an answer ends.")
    return Verdict(
        0,
        f"Your program sent {len(sent)} segments, of which {small} are neither full nor the end of"
        " an answer. A header or another piece travelled alone. What holds it until the rest is"
        " there?",
    )


def _look_at_waiting(run: LabRun, again: Callable[[], LabRun], ends: list[int]) -> Verdict:
    """Check that the end of an answer does not wait for the ACK of the answer before it.

    The end of the previous answer is still in flight, and Nagle's algorithm in Linux never lets a
    small segment leave then.
    """
    at_once, small_end = 0, 0
    for departure in departures(run):
        at_once += departure.end_bytes in ends and departure.acked_bytes < small_end
        if departure.size_bytes < MSS_BYTES:
            small_end = departure.end_bytes
    if 2 * at_once >= len(ends):
        if waited := always_held(run, again, ends):
            return Verdict(0, f"Of {len(ends)} answers, {waited} waited for the next answer.")
        return Verdict(1, "No answer's end waited for an ACK or for the next answer.")
    return Verdict(
        0,
        f"There is an answer every 25 ms, but of {len(ends)} answers only {at_once} ended in a"
        " segment that left before the end of earlier answers was acknowledged. The others were"
        " held. Is the cork pulled after each answer, and which rule still applies then?",
    )
