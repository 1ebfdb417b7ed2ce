"""The hidden judge of the problem set "small-writes", which runs only in the grader.

It computes the right answers from the rules and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of, longest_pause
from tcplab.grading.checks import Hint, Verdict, as_number, combine, equal_parts
from tcplab.grading.submission import Submission

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_small_writes")

#: The delay of an ACK, according to the question.
DELAYED_ACK_MS = 40
#: Bytes of a segment's headers: Ethernet 14, IPv4 20, TCP 20, time stamps option 12.
HEADER_BYTES = 66
#: Relative tolerance of an answer that is calculated from given numbers.
EXACT = 0.002


def q1(submission: Submission) -> Verdict:
    """Check the time of an exchange with a delayed ACK, and of one with TCP_NODELAY."""
    rtt_ms = submission.numbers["rtt_ms"]
    slow = submission.check_number(
        "q1_default_ms",
        2 * rtt_ms + DELAYED_ACK_MS,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(
                rtt_ms + DELAYED_ACK_MS,
                "the delayed ACK is in it, but the held bytes leave only when it has come back."
                " How many times is the link crossed?",
                0.5,
            ),
            Hint(
                DELAYED_ACK_MS,
                "the delay of the ACK is only a part; the link has a delay, too.",
                0.25,
            ),
            Hint(rtt_ms, "this would be right if nothing waited."),
        ],
        wrong="Draw the sequence diagram: write, ACK, held bytes, reply.",
    )
    fast = submission.check_number(
        "q1_nodelay_ms",
        rtt_ms,
        unit="ms",
        within=EXACT,
        hints=[Hint(rtt_ms / 2, "this is only one way; the reply has to come back.", 0.5)],
        wrong="Nothing waits for an ACK here, so only one round trip is left.",
    )
    return combine([(2 / 3, slow), (1 / 3, fast)])


def q2(submission: Submission) -> Verdict:
    """Check the percentage of payload when each write is a segment."""
    size = submission.numbers["write_bytes"]
    return submission.check_number(
        "q2_payload_percent",
        100 * size / (size + HEADER_BYTES),
        unit="percent",
        within=EXACT,
        hints=[
            Hint(
                size / (size + HEADER_BYTES),
                "this is a fraction of 1; give a percentage.",
                0.5,
            ),
            Hint(
                100 * size / (size + 54), "the time stamps option is 12 bytes in each header.", 0.5
            ),
            Hint(
                100 * size / HEADER_BYTES,
                "the share is that of the whole segment, including headers.",
                0.5,
            ),
            Hint(100 * HEADER_BYTES / (size + HEADER_BYTES), "this is the headers' share.", 0.5),
        ],
        wrong="Divide the payload by all bytes of the segment, including the Ethernet header.",
    )


def waiting(patterns: list[tuple[int, ...]]) -> list[int]:
    """Return the indices of the messages whose last write waits for an ACK, by Minshall's rule."""
    indices = []
    for index, writes in enumerate(patterns):
        small_before = any(size % task.MSS_BYTES for size in writes[:-1])
        if small_before and writes[-1] % task.MSS_BYTES:
            indices.append(index)
    return indices


def q3(submission: Submission) -> Verdict:
    """Check the indices of the messages that wait; one mistake costs half of the points."""
    given = submission.answers["q3_waits"]
    patterns = submission.numbers["patterns"]
    if given is None:
        return Verdict(0, "q3_waits has no answer yet.")
    if not isinstance(given, list) or any(as_number(answer) is None for answer in given):
        return Verdict(0, "q3_waits must be a list of indices.")
    expected = set(waiting(patterns))
    wrong = len(expected ^ set(given))
    if wrong == 0:
        return Verdict(1, "q3_waits: right.")
    hint = (
        "What is in flight when the last write comes, a full segment or a small one? Linux holds a"
        " small segment only behind another small segment."
    )
    share = 0.5 if wrong == 1 else 0.0
    return Verdict(
        share,
        f"q3_waits: of {len(patterns)} messages, {wrong} are missing or should not be in the list."
        f" {hint}",
    )


def q4(submission: Submission) -> Verdict:
    """Check the packet that released the first body, and the number of delayed ACKs."""
    released = submission.check_count(
        "q4_released_by", 7, wrong="Which packet from the client came right before packet 8?"
    )
    delayed = submission.check_count(
        "q4_delayed_answers", 2, wrong="How long after the header did the client's ACK come?"
    )
    return equal_parts([released, delayed])


def q5(submission: Submission) -> Verdict:
    """Check the longest pause between two data segments of the client."""
    return longest_pause(
        submission.answers["q5_stall_ms"], facts_of(submission.capture), name="q5_stall_ms"
    )


def q6(submission: Submission) -> Verdict:
    """Check the reason for the pause in the capture."""
    return submission.check_choice(
        "q6_reason",
        facts_of(submission.capture).cause,
        task.REASONS,
        wrong="Was the data written before or after the pause (see the log)? Did an ACK end it?",
    )


def q7(submission: Submission) -> Verdict:
    """Run records.c with the student's own number of records."""
    verdict: Verdict = task.look_at_records(submission, submission.numbers["records"])
    return verdict


def q8(submission: Submission) -> Verdict:
    """Check whether the learner's ACK makes a server send the data that it holds."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
