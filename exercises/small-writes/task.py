"""Problem set "small-writes" (Nagle and delayed ACK): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_records`, with other parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

from tcplab.errors import LabError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, counts_in, numbers_in, one_of
from tcplab.grading.packets import NO_PROBES, SYN_1460, OwnPacket, connected, with_packet
from tcplab.grading.programs import always_held, compiled, departures, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_default_ms", "q1_nodelay_ms"],
    "q2": ["q2_payload_percent"],
    "q3": ["q3_waits"],
    "q4": ["q4_released_by", "q4_delayed_answers"],
    "q5": ["q5_stall_ms"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["records.c"]
IN_PROGRAMS = ["step_bytes"]

REASONS = ("application-idle", "corked", "held-by-nagle")
MSS_BYTES = 1448
#: Number of ways to begin a message in q3.
KINDS = 6


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    return {
        "rtt_ms": own.integer("rtt_ms", 101, 999) / 10,
        "writes": own.integer("writes", 3, 12),
        "write_bytes": own.integer("write_bytes", 1, 99),
        "patterns": _patterns(own),
        "withheld": [own.integer(f"withheld {turn}", 20, 290) for turn in range(3)],
        "capture": own.captures()[0],
        "records": own.integer("records", 14, 19),
        "step_bytes": own.of_course.pick("step_bytes", [step for step in range(5, 77) if step % 3]),
    }


def _patterns(own: Numbers) -> list[tuple[int, ...]]:
    """Return the sizes of the writes of each message, the last of which is always small.

    There is a message of each kind, in an order of the student's own, and one more of some kind.
    """
    kinds = [*range(KINDS), own.integer("one more", 1, KINDS - 1)]
    messages = []
    for turn in range(len(kinds)):
        kind = kinds.pop(own.integer(f"place {turn}", 0, len(kinds) - 1))
        first = _first_writes(own, turn, kind)
        messages.append((*first, own.integer(f"last {turn}", 20, 400, 4)))
    return messages


def _first_writes(own: Numbers, turn: int, kind: int) -> tuple[int, ...]:
    size = own.integer(f"some {turn}", 20, MSS_BYTES - 8, 4)
    full = MSS_BYTES * own.integer(f"more {turn}", 1, 3)
    return [(), (full,), (full, full), (size,), (full, size), (full + size,)][kind]


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept two durations, the second of which is shorter but at least a round trip."""
    given = numbers_in(submission.answers, ANSWERS["q1"], unit="ms")
    if isinstance(given, Verdict):
        return given
    slow, fast = given
    if slow <= fast:
        return Verdict(0, "With TCP_NODELAY nothing waits. Can that be slower?")
    if fast < submission.numbers["rtt_ms"]:
        return Verdict(0, "A reply cannot arrive before one round trip is over.")
    return Verdict(1, "These are two times. How many times does the link carry something in each?")


def check_q2(submission: Submission) -> Verdict:
    """Accept a percentage."""
    given = numbers_in(submission.answers, ANSWERS["q2"], unit="percent")
    if isinstance(given, Verdict):
        return given
    if not 0 < given[0] < 100:
        return Verdict(0, "q2_payload_percent must be a number between 0 and 100.")
    return Verdict(1, "A plausible share.")


def check_q3(submission: Submission) -> Verdict:
    """Accept a list of indices of messages, which may be empty."""
    given = submission.answers["q3_waits"]
    most = len(submission.numbers["patterns"]) - 1
    if given == []:
        return Verdict(1, "The list is empty. Does none of the messages wait?")
    indices = counts_in(given, name="q3_waits", of=f"indices from 0 to {most}, such as [0]")
    if isinstance(indices, Verdict):
        return indices
    if max(indices) > most:
        return Verdict(0, f"q3_waits: the last message has the index {most}.")
    return Verdict(1, "This is a list of messages. Have you tried one of them in a lab?")


def check_q4(submission: Submission) -> Verdict:
    """Accept the number of a packet, and a number of answers."""
    packet = numbers_in(submission.answers, ["q4_released_by"], least=4, most=18)
    answers = numbers_in(submission.answers, ["q4_delayed_answers"], least=0, most=3)
    for given in (packet, answers):
        if isinstance(given, Verdict):
            return given
    return Verdict(1, "These are numbers. Which packets of the other host came right before?")


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the capture."""
    most = bounds_of(submission.capture).lasts_ms
    given = numbers_in(submission.answers, ANSWERS["q5"], unit="ms", above=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a time. Is it in milliseconds, and between two segments with data?")


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed reasons."""
    then = "This is one of the reasons. Which evidence in the capture and the log supports it?"
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


@with_packet("q8_packet")
def check_q8(submission: Submission, packet: OwnPacket) -> Verdict:
    """Send the learner's packet to a server that waits for an ACK, and check what it releases."""
    writes = submission.numbers["withheld"]
    with connected(submission.lab(sysctls=NO_PROBES), SYN_1460) as (ours, server):
        for size in writes:
            server.send(bytes(size))
        before = ours.hear_all(lambda heard: heard[-1].sent_bytes >= writes[0])
        sent = max((heard.sent_bytes for heard in before), default=0)
        if sent != writes[0]:
            raise LabError(f"the server sent {sent} bytes instead of {writes[0]}")
        ours.send(packet)
        after = ours.hear(lambda heard: heard[-1].sent_bytes == sum(writes))
    came = sum(heard.data_bytes for heard in after if heard.seq > sent)
    if came == sum(writes) - sent:
        return Verdict(1, f"Your packet released the {came} bytes that the server held.")
    return Verdict(
        0,
        "The server had written three times, and one segment had left. After your packet it sent"
        " nothing new. Which bytes had left, and which number acknowledges them?",
    )


def check_q7(submission: Submission) -> Verdict:
    """Compile records.c and let it send 12 records."""
    return look_at_records(submission, records=12)


# ---- records.c -----------------------------------------------------------------------------------


def record_sizes(records: int, step_bytes: int) -> list[int]:
    """Return the sizes of the records, from 20 to 100 bytes."""
    return [20 + step_bytes * i % 81 for i in range(records)]


@compiled("records.c")
def look_at_records(submission: Submission, records: int) -> Verdict:
    """Run the learner's program against recordsink, and check the segments on the link.

    Each segment must end where a record ends, and records must not wait for an ACK, which comes
    when most have been sent, nor for the next record.
    """
    start = partial(
        submission.run_in_lab,
        submission.compile("records.c"),
        ["10.0.0.2", "{port}", str(records)],
        peer=["recordsink", "--json", "--port", "0", "--quickack", "always"],
        lab={"rtt_ms": 20 * records, "initial_window": 2 * records},
        limits=Limits(wall_s=20, cpu_s=8, processes=8),
    )
    run = start()
    ends = list(accumulate(record_sizes(records, submission.numbers["step_bytes"])))
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'records')}.")
    if run.peer is None or run.peer["records"] != records or run.peer["bytes"] != ends[-1]:
        cause = run.peer_error or f"{run.peer and run.peer['records']} of {records} records arrived"
        return Verdict(0, f"The receiver did not get the unchanged records: {cause}.")
    return combine([(0.5, _look_at_ends(run, ends)), (0.5, _look_at_waiting(run, start, ends))])


def _look_at_ends(run: LabRun, ends: list[int]) -> Verdict:
    """Check that each segment ends where a record ends."""
    sent = departures(run)
    torn = sum(segment.end_bytes not in ends for segment in sent)
    if torn == 0:
        return Verdict(1, "Every segment ends where a record ends.")
    return Verdict(
        0,
        f"Your program sent {len(sent)} segments for {len(ends)} records, and {torn} of them end in"
        " the middle of a record. How much of a record does TCP get with each write()?",
    )


def _look_at_waiting(run: LabRun, again: Callable[[], LabRun], ends: list[int]) -> Verdict:
    """Check that records leave before earlier ones are acknowledged, and before the next."""
    ahead = sum(departure.is_ahead for departure in departures(run))
    if 2 * ahead >= len(ends) - 1:
        if waited := always_held(run, again, ends):
            return Verdict(0, f"Of {len(ends)} records, {waited} waited for the next record.")
        return Verdict(1, "No record waited for the ACK of another.")
    return Verdict(
        0,
        f"There is a record every 20 ms, but only {ahead} segments left before the ACK of the"
        " earlier data. The others were held until it came. Which rule holds them, and what"
        " switches it off?",
    )
