"""The hidden judge of the problem set "the-lab", which runs only in the grader."""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.checks import Hint, Verdict
from tcplab.grading.submission import Submission

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_the_lab")

#: Bytes of a segment's headers: Ethernet 14, IPv4 20, TCP 20, time stamps option 12.
HEADER_BYTES = 66


def q1(submission: Submission) -> Verdict:
    """Check the length of a frame as a capture shows it."""
    payload = submission.numbers["payload_bytes"]
    return submission.check_count(
        "q1_frame_bytes",
        payload + HEADER_BYTES,
        hints=[
            Hint(payload + HEADER_BYTES - 12, "the time stamps option takes 12 bytes.", 0.5),
            Hint(
                payload + HEADER_BYTES - 14, "this is the IP packet; the frame adds a header.", 0.5
            ),
            Hint(payload + HEADER_BYTES + 24, "a capture does not show all of these.", 0.5),
        ],
        wrong="Add four headers or options to the payload.",
    )


def q2(submission: Submission) -> Verdict:
    """Run hello.c over a link with the student's own round-trip time."""
    verdict: Verdict = task.look_at_hello(submission, rtt_ms=submission.numbers["rtt_ms"])
    return verdict
