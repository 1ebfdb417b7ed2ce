"""Problem set "the-lab" (the dry run of handing in): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_hello`, with the student's own RTT.
"""

from __future__ import annotations

from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.checks import numbers_in
from tcplab.grading.programs import compiled, departures, how_it_ended, run_into_file
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {"q1": ["q1_frame_bytes"], "q2": []}
FILES = ["hello.c"]
IN_PROGRAMS = ["greeting_bytes"]

#: The round-trip time of the public check, which no student has in grading.
PUBLIC_RTT_MS = 10


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    return {
        "payload_bytes": own.integer("payload", 100, 1448),
        "rtt_ms": own.pick("rtt", [ms for ms in range(5, 26) if ms != PUBLIC_RTT_MS]),
        "greeting_bytes": own.of_course.integer("greeting_bytes", 20, 90),
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
    return look_at_hello(submission, rtt_ms=PUBLIC_RTT_MS)


@compiled("hello.c")
def look_at_hello(submission: Submission, rtt_ms: float) -> Verdict:
    """Run the learner's program against a server, and check the text and the number of segments."""
    run, received = run_into_file(
        submission,
        submission.compile("hello.c"),
        ["10.0.0.2", "{port}"],
        lab={"rtt_ms": rtt_ms},
        files={},
        limits=Limits(wall_s=10, cpu_s=5, processes=8),
    )
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'hello')}.")
    sent, greeting = departures(run), submission.numbers["greeting_bytes"]
    came = sum(segment.size_bytes for segment in sent)
    if came != greeting:
        return Verdict(0, f"{came} bytes arrived, but the greeting has {greeting}.")
    if received.decode("latin-1") != "hello, world".ljust(greeting):
        return Verdict(0.5, "All bytes arrived, but they are not the text that hello.c had made.")
    if len(sent) > 1:
        return Verdict(0.5, f"All bytes arrived, but in {len(sent)} segments. One write is enough.")
    return Verdict(1, "The greeting arrived in one segment.")
