"""Problem set "the-lab" (the dry run of handing in): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_hello`, with the student's own RTT.
"""

from __future__ import annotations

from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.checks import numbers_in
from tcplab.grading.programs import compiled, departures, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {"q1": ["q1_frame_bytes"], "q2": []}
FILES = ["hello.c"]

GREETING_BYTES = 12


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    return {
        "payload_bytes": own.integer("payload", 100, 1448),
        "rtt_ms": own.integer("rtt", 5, 25),
    }


def check_q1(submission: Submission) -> Verdict:
    """Accept a whole number larger than the payload."""
    given = numbers_in(submission.answers, ANSWERS["q1"], least=1, most=1514)
    if isinstance(given, Verdict):
        return given
    if given[0] <= submission.numbers["payload_bytes"]:
        return Verdict(0, "q1_frame_bytes: a frame holds more than the payload.")
    return Verdict(1, "This is a length. Which headers does it count?")


def check_q2(submission: Submission) -> Verdict:
    """Compile hello.c and let it greet a server over a link with a 10 ms RTT."""
    return look_at_hello(submission, rtt_ms=10)


@compiled("hello.c")
def look_at_hello(submission: Submission, rtt_ms: float) -> Verdict:
    """Run the learner's program against tcpsink, and check the number of bytes and segments."""
    run = submission.run_in_lab(
        submission.compile("hello.c"),
        ["10.0.0.2", "{port}"],
        peer=["tcpsink", "--json", "--port", "0"],
        lab={"rtt_ms": rtt_ms},
        limits=Limits(wall_s=10, cpu_s=5, processes=8),
    )
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'hello')}.")
    sent = departures(run)
    came = sum(segment.size_bytes for segment in sent)
    if came != GREETING_BYTES:
        return Verdict(0, f"{came} bytes arrived, but the greeting has {GREETING_BYTES}.")
    if len(sent) > 1:
        return Verdict(0.5, f"All bytes arrived, but in {len(sent)} segments. One write is enough.")
    return Verdict(1, "The greeting arrived in one segment.")
