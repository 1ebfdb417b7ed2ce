"""The questions of NAME, each student's numbers, and public checks. Learners get this file."""

from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.checks import numbers_in
from tcplab.grading.programs import compiled, departures, how_it_ended
from tcplab.grading.submission import Submission

#: The notebook's variables for each question. A question about a file has none.
ANSWERS = {"q1": ["q1_window_bytes"], "q2": []}
FILES = ["hello.c"]
#: Limits for a public check, wide enough for every right answer.
MOST_BYTES = 10_000_000


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers of the student."""
    return {"rtt_ms": own.integer("rtt_ms", 10, 99), "rate_mbit": own.integer("rate_mbit", 10, 99)}


def check_q1(submission: Submission) -> Verdict:
    """Check that there is a plausible answer. A public check never reveals the right one."""
    given = numbers_in(submission.answers, ANSWERS["q1"], unit="bytes", above=0, most=MOST_BYTES)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number of bytes. Does it cover one way, or the round trip?")


def check_q2(submission: Submission) -> Verdict:
    """Compile hello.c, run it in a lab, and check its segments."""
    return look_at_hello(submission, rtt_ms=5)


@compiled("hello.c")
def look_at_hello(submission: Submission, rtt_ms: float) -> Verdict:
    """Run the program against tcpsink, and check the number and size of segments, never times."""
    run = submission.run_in_lab(
        submission.compile("hello.c"),
        ["10.0.0.2", "{port}"],
        peer=["tcpsink", "--json", "--port", "0"],
        lab={"rtt_ms": rtt_ms},
    )
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'hello')}.")
    sent = departures(run)
    came = sum(segment.size_bytes for segment in sent)
    if came != 12:
        return Verdict(0, f"The server received {came} bytes, but the greeting has 12.")
    if len(sent) > 1:
        return Verdict(0.5, f"All bytes arrived, but in {len(sent)} segments. Use one write.")
    return Verdict(1, "The whole greeting left in one segment.")
