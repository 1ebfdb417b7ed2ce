"""The hidden judge of the problem set "buffers", which runs only in the grader.

It computes the right answers from the models and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import bdp_bytes, receive_buffer_grant, window_limit_mbit
from tcplab.segments import FROM_CLIENT, FROM_SERVER

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_buffers")

#: The window field of a TCP header has 16 bits.
MOST_UNSCALED_BYTES = 65_535
#: Relative tolerance of an answer that is calculated from given numbers.
EXACT = 0.005


def q1(submission: Submission) -> Verdict:
    """Check the bandwidth-delay product, and the throughput of a smaller window."""
    rtt_ms, rate_mbit = submission.numbers["rtt_ms"], submission.numbers["rate_mbit"]
    window = submission.numbers["window_bytes"]
    held = bdp_bytes(rate_mbit, rtt_ms)
    limit = window_limit_mbit(window, rtt_ms)
    holds = submission.check_number(
        "q1_bdp_bytes",
        held,
        unit="bytes",
        within=EXACT,
        hints=[
            Hint(held * 8, "these are bits; give bytes.", 0.5),
            Hint(held / 2, "this is only one way; the ACK has to come back.", 0.5),
            Hint(held * 1000, "the round-trip time is in ms, not in seconds."),
            Hint(held / 1000, "this is in kB; give bytes.", 0.5),
        ],
        wrong="It is rate × round-trip time, which enters the path until the first ACK is back.",
    )
    reaches = submission.check_number(
        "q1_mbit",
        limit,
        unit="Mbit/s",
        within=EXACT,
        hints=[
            Hint(limit / 8, "this is in MB/s; give Mbit/s.", 0.5),
            Hint(limit * 2, "there is one window per round trip, not one per direction.", 0.5),
            Hint(
                rate_mbit, "this would be right if the window were as large as what the path holds."
            ),
        ],
        wrong="How many windows leave per second, if each waits for the ACK of the last?",
    )
    return combine([(0.5, holds), (0.5, reaches)])


def q2(submission: Submission) -> Verdict:
    """Check the buffer sizes that the kernel grants: doubled, raised or capped."""
    requests, most = submission.numbers["requests"], submission.numbers["rmem_max_bytes"]
    granted = [receive_buffer_grant(request, most) for request in requests]
    return submission.check_counts(
        "q2_granted",
        granted,
        hints=[
            Hint(
                [2 * request for request in requests],
                "not every request is granted as it is.",
                0.25,
            ),
            Hint(
                [max(min(request, most), granted[2]) for request in requests],
                "the limits are right. What does the kernel add for its own bookkeeping?",
            ),
            Hint(
                [max(min(2 * request, most), granted[2]) for request in requests],
                "does the limit apply to the request, or to the grant?",
                0.5,
            ),
        ],
        wrong="A request is doubled, raised to a minimum, and capped at a limit. In which order?",
    )


def q3(submission: Submission) -> Verdict:
    """Check the share of the buffer that a window can use, and the scale that fills the link."""
    scale = submission.numbers["scale"]
    largest = MOST_UNSCALED_BYTES << scale
    held = bdp_bytes(submission.numbers["rate_mbit"], submission.numbers["rtt_ms"])
    needed = 0
    while MOST_UNSCALED_BYTES << needed < held:
        needed += 1
    granted = receive_buffer_grant(
        submission.numbers["late_request"], 2 * submission.numbers["late_request"]
    )
    percent = 100 * largest / granted
    window = submission.check_number(
        "q3_window_percent",
        percent,
        unit="percent",
        within=0.002,
        hints=[
            Hint(
                2 * percent, "take the share of what getsockopt() returns, not of the request.", 0.5
            ),
            Hint(percent / 100, "this is a fraction of 1; give a percentage.", 0.5),
            Hint(
                100 * MOST_UNSCALED_BYTES / granted,
                "which number of the SYN-ACK multiplies each window that is advertised later?",
                0.5,
            ),
            Hint(100, "the buffer has room for it, but can the server advertise so much?"),
        ],
        wrong="How is the window advertised to the other side, and what multiplies it?",
    )
    exponent = submission.check_count(
        "q3_scale",
        needed,
        hints=[
            Hint(needed - 1, "with this scale the largest window is still too small.", 0.25),
            Hint(needed + 1, "this scale is large enough, but it is not the smallest.", 0.25),
        ],
        wrong="Which power of two times 65,535 reaches what the path of q1 holds?",
    )
    return combine([(0.7, window), (0.3, exponent)])


@lru_cache(maxsize=16)
def _found_in(capture: Stored) -> dict[str, Any]:
    """Return the correct answers for a capture, including the cause that it was recorded for."""
    facts = facts_of(capture)
    rows = facts.rows
    first, acked, most, unscaled = None, 0, 0, 0
    for row in rows:
        if row["direction"] == FROM_CLIENT and row["payload_bytes"]:
            first = int(row["seq"]) if first is None else first
            acked = max(acked, first)
            most = max(most, int(row["seq"]) + int(row["payload_bytes"]) - acked)
        elif row["direction"] == FROM_SERVER and row["wscale"] < 0:
            acked = max(acked, int(row["ack"]))
            unscaled = max(unscaled, int(row["window"]) >> max(int(row["window_shift"]), 0))
    after = rows[rows.from_server & ~rows.is_syn]
    return {
        "window_bytes": int(after["window"].max()),
        "unscaled": unscaled,
        "in_flight_bytes": most,
        "total_bytes": facts.payload_bytes,
        "reason": facts.cause,
    }


def q4(submission: Submission) -> Verdict:
    """Check the largest window that the server offered, in bytes."""
    measured = _found_in(submission.capture)
    hints = []
    if measured["unscaled"] != measured["window_bytes"]:
        hints = [Hint(measured["unscaled"], "this is the unscaled field of the header.", 0.5)]
    return submission.check_number(
        "q4_window_bytes",
        measured["window_bytes"],
        unit="bytes",
        within=0.005,
        hints=hints,
        wrong="Take the largest scaled window in the server's segments after its SYN-ACK.",
    )


def q5(submission: Submission) -> Verdict:
    """Check the largest amount of data in flight, seen at the client's interface."""
    measured = _found_in(submission.capture)
    total_bytes = measured["total_bytes"]
    hints = [Hint(total_bytes, "this is everything that was sent, acknowledged or not.")]
    return submission.check_number(
        "q5_in_flight_bytes",
        measured["in_flight_bytes"],
        unit="bytes",
        within=0.005,
        hints=hints,
        wrong="Go through the segments in order, and subtract the highest ACK so far from the end"
        " of the last data sent.",
    )


def q6(submission: Submission) -> Verdict:
    """Check what held the sender back in the capture."""
    return submission.check_choice(
        "q6_reason",
        _found_in(submission.capture)["reason"],
        task.REASONS,
        wrong="Did an ACK, a larger window, or neither of them end that pause? Was as much in"
        " flight until then as the receiver allowed, ten segments or more, or less than both?",
    )


def q7(submission: Submission) -> Verdict:
    """Run sink.c on two paths that no single buffer size suits."""
    paths = [submission.numbers["short_path"], submission.numbers["long_path"]]
    verdict: Verdict = task.judge_sink(submission, paths)
    return verdict


def q8(submission: Submission) -> Verdict:
    """Send the learner's packet to a server that sees a closed window, and count what leaves."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
