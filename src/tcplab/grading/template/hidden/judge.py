"""The hidden judge of NAME, with one function per question. Only the grader runs it."""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.checks import Hint, Verdict
from tcplab.grading.submission import Submission
from tcplab.models import bdp_bytes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_for_the_judge")


def q1(submission: Submission) -> Verdict:
    """Compute the right answer; hints are expected mistakes and their shares of the points."""
    n = submission.numbers
    expected = bdp_bytes(n["rate_mbit"], n["rtt_ms"])
    return submission.check_number(
        "q1_window_bytes",
        expected,
        unit="bytes",
        hints=[Hint(8 * expected, "these are bits.", 0.5)],
        wrong="How much is in flight between a byte and its ACK?",
    )


def q2(submission: Submission) -> Verdict:
    """Judge hello.c on another wire than the public check uses."""
    verdict: Verdict = task.look_at_hello(submission, rtt_ms=submission.numbers["rtt_ms"])
    return verdict
