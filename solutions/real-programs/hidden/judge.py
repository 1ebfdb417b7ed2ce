"""The hidden judge of the problem set "real-programs", which runs only in the grader.

It computes the right answers from the rules and the handed-out captures, and checks programs
by their traffic.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of, pauses_ms
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.segments import SegmentArray

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_real_programs")

EXACT = 0.002


def q1(submission: Submission) -> Verdict:
    """Check the total time with headers and body in two writes, and in one write."""
    n = submission.numbers
    requests, rtt_ms, delay_ms = n["requests"], n["rtt_ms"], n["ack_delay_ms"]
    now_ms = requests * 2 * rtt_ms + (requests - 1) * delay_ms
    now = submission.check_number(
        "q1_now_ms",
        now_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(
                requests * rtt_ms + (requests - 1) * delay_ms,
                "the ACK has to cross the link, too.",
                0.5,
            ),
            Hint(requests * (2 * rtt_ms + delay_ms), "the first ACK is not delayed.", 0.5),
            Hint(now_ms / 1000, "this is in seconds.", 0.5),
        ],
        wrong="How often do the request, the headers, the late ACK and the body cross the link?",
    )
    fixed = submission.check_number(
        "q1_fixed_ms",
        requests * rtt_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(requests * 2 * rtt_ms, "with one write, nothing waits for an ACK.", 0.5),
            Hint(requests * rtt_ms / 1000, "this is in seconds.", 0.5),
        ],
        wrong="With one write, each request takes one round trip.",
    )
    return combine([(0.5, now), (0.5, fixed)])


def q2(submission: Submission) -> Verdict:
    """Check the total time with a round trip per command, and per batch."""
    n = submission.numbers
    commands, rtt_s = n["batch"] * n["batches"], n["redis_rtt_ms"] / 1000
    alone = submission.check_number(
        "q2_alone_s",
        commands * rtt_s,
        unit="s",
        within=EXACT,
        hints=[Hint(commands * rtt_s * 1000, "this is in milliseconds.", 0.5)],
        wrong="How many round trips, one after the other?",
    )
    together = submission.check_number(
        "q2_pipelined_s",
        n["batches"] * rtt_s,
        unit="s",
        within=EXACT,
        hints=[
            Hint(n["batches"] * rtt_s * 1000, "this is in milliseconds.", 0.5),
            Hint(rtt_s, "this is one batch.", 0.25),
            Hint(n["batch"] * rtt_s, "this counts commands per batch, not batches.", 0.25),
        ],
        wrong="What does the client wait for, and how many times?",
    )
    return combine([(0.5, alone), (0.5, together)])


def _last(size: int) -> int:
    """Return the size of the last segment of `size` bytes."""
    return (size - 1) % task.MSS_BYTES + 1


def q3(submission: Submission) -> Verdict:
    """Check the size of the last segment if the header is sent alone, or with the file."""
    header, file = submission.numbers["header_bytes"], submission.numbers["file_bytes"]
    plain = submission.check_number(
        "q3_plain_last_bytes",
        _last(file),
        unit="bytes",
        within=0,
        hints=[Hint(_last(header + file), "the header has left before the file.", 0.25)],
        wrong="Which bytes are in the segment of the header, and how much of the file is left?",
    )
    nopush = submission.check_number(
        "q3_nopush_last_bytes",
        _last(header + file),
        unit="bytes",
        within=0,
        hints=[Hint(_last(file), "under the cork the header waits for the file.", 0.25)],
        wrong="Under the cork only full segments leave, and the rest leaves when it is pulled.",
    )
    return combine([(0.5, plain), (0.5, nopush)])


#: For each cause, a question that tells it apart from the most similar cause.
SIGNS = {
    "body-waits-for-ack": "Which packet is between the first and the second half of a page?",
    "closed-with-bytes-unread": "How does the connection end, and who ends it?",
    "many-small-writes": "How much is in a segment of a page?",
    "one-request-per-round-trip": "Compare the wait for a page with the wait for the SYN-ACK.",
    "program-thinks": "Compare the wait for a page with the wait for the SYN-ACK.",
}


def q4(submission: Submission) -> Verdict:
    """Check the cause that the capture shows."""
    cause = facts_of(submission.capture).cause
    return submission.check_choice("q4_cause", cause, task.CAUSES, wrong=SIGNS[cause])


def _asked(capture: Stored) -> SegmentArray:
    """Return the packets from the client's first data to the last data of either side."""
    rows = facts_of(capture).rows
    first = (rows.carries_data & rows.from_client).nonzero()[0][0]
    return rows[first : rows.carries_data.nonzero()[0][-1] + 1]


@lru_cache(maxsize=16)
def _longest_pause(capture: Stored) -> float:
    return max(pauses_ms(_asked(capture)))


def q5(submission: Submission) -> Verdict:
    """Check the number of the server's data segments, and the longest pause."""
    rows = _asked(submission.capture)
    count = submission.check_number(
        "q5_answer_segments",
        len(rows.data("server")),
        within=0,
        hints=[
            Hint(len(rows.data("client")), "these are the client's.", 0.25),
            Hint(int(rows.from_server.sum()), "ACKs and the handshake carry no data.", 0.25),
        ],
        wrong="Count the server's segments with payload after the first request.",
    )
    pause_ms = _longest_pause(submission.capture)
    pause = submission.check_number(
        "q5_pause_ms",
        pause_ms,
        unit="ms",
        within=0.005,
        hints=[Hint(pause_ms / 1000, "this is in seconds.", 0.5)],
        wrong="Look at consecutive packets from the first request to the last data.",
    )
    return combine([(0.5, count), (0.5, pause)])


def q6(submission: Submission) -> Verdict:
    """Run intake.c with the student's own limit and upload."""
    n = submission.numbers
    verdict: Verdict = task.look_at_intake(submission, n["limit_bytes"], n["upload_bytes"])
    return verdict


def q7(submission: Submission) -> Verdict:
    """Run desk.c with the student's own number of customers."""
    verdict: Verdict = task.look_at_desk(submission, submission.numbers["customers"])
    return verdict


def q8(submission: Submission) -> Verdict:
    """Send the learner's packet to a server, close without reading, and look at what it sends."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
