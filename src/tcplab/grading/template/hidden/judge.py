"""The hidden judge of NAME, with one function per question. Only the grader runs it."""

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.checks import Hint, Verdict
from tcplab.grading.submission import Submission
from tcplab.models import bdp_bytes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_for_the_judge")


def q1(submission: Submission) -> Verdict:
    """Grade a number. Each hint is an expected mistake, with its share of the points."""
    n = submission.numbers
    expected = bdp_bytes(n["rate_mbit"], n["rtt_ms"])
    return submission.check_number(
        "q1_window_bytes",
        expected,
        unit="bytes",
        hints=[Hint(8 * expected, "this is the number of bits.", 0.5)],
        wrong="How many bytes can the sender send before the first ACK returns?",
    )


def q2(submission: Submission) -> Verdict:
    """Check hello.c as the public check does, but with the student's round-trip time."""
    verdict: Verdict = task.look_at_hello(submission, rtt_ms=submission.numbers["rtt_ms"])
    return verdict
