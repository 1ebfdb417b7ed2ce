"""The hidden judge of the problem set "slow-start", which runs only in the grader.

It computes the right answers from the models and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

import math
import secrets
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import mathis_mbit

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_slow_start")

MSS_BYTES = task.MSS_BYTES
#: Relative tolerances of a calculated answer, and of one with Mathis's constant (1.31 or 1.3).
EXACT, ROUNDED = 0.005, 0.01
#: The initial window of RFC 6928, which is also the smallest window after a pause.
TEN = task.INITIAL_WINDOW_SEGMENTS


def flights(segments: int, first: int, most: float = math.inf) -> list[int]:
    """Return the segments in each flight while the window doubles from `first` up to `most`."""
    sizes: list[int] = []
    window = float(first)
    while segments:
        sizes.append(int(min(window, most, segments)))
        segments -= sizes[-1]
        window *= 2
    return sizes


def q1(submission: Submission) -> Verdict:
    """Check the last flight and the duration of slow start up to the receiver's window."""
    n = submission.numbers
    rtt_ms, segments = n["page_rtt_ms"], -(-n["page_bytes"] // MSS_BYTES)
    right = flights(segments, TEN, n["page_window_segments"])
    free = flights(segments, TEN)
    last = submission.check_count(
        "q1_last_segments",
        right[-1],
        hints=[Hint(free[-1], "this would be right if the receiver's window were larger.")],
        wrong="Add up the flights. Which window limits each of them?",
    )
    took_ms = len(right) * rtt_ms
    took = submission.check_number(
        "q1_took_ms",
        took_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(took_ms - rtt_ms / 2, "the last ACK has to come back, too.", 0.5),
            Hint(len(free) * rtt_ms, "the receiver's window holds the later flights back.", 0.25),
            Hint(took_ms / 1e3, "this is in seconds.", 0.5),
        ],
        wrong="Each flight takes one round trip.",
    )
    return combine([(0.5, last), (0.5, took)])


def q2(submission: Submission) -> Verdict:
    """Check the window after a pause, halved per timeout down to ten, and the extra time."""
    n = submission.numbers
    before, rtt_ms = n["idle_window_segments"], n["idle_rtt_ms"]
    # The pause is never a whole number of timeouts.
    halved = before >> n["idle_pause_ms"] // n["idle_rto_ms"]
    first = max(TEN, halved)
    segments = submission.check_count(
        "q2_first_segments",
        first,
        hints=[
            Hint(value, message)
            for value, message in [
                (before, "the pause is longer than the timeout."),
                (TEN, "is the pause long enough for that?"),
                (
                    max(TEN, before // 2),
                    "this is halved once. How many timeouts does the pause hold?",
                ),
                (halved, "even a new connection may send more than that."),
            ]
            if value != first
        ],
        wrong="Halve the window for each timeout that fits into the pause.",
    )
    round_trips = len(flights(before, first)) - 1
    more = submission.check_number(
        "q2_more_ms",
        round_trips * rtt_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(
                (round_trips + 1) * rtt_ms,
                "this is the whole time; how long does it take with the option off?",
                0.5,
            ),
            Hint(round_trips * rtt_ms / 1e3, "this is in seconds.", 0.5),
        ],
        wrong="Count the flights in both cases, and one round trip for each additional flight.",
    )
    return combine([(0.5, segments), (0.5, more)])


def q3(submission: Submission) -> Verdict:
    """Check the rate by Mathis's formula, and the loss for a given rate."""
    n = submission.numbers
    kind = "random"
    right = mathis_mbit(MSS_BYTES, n["path_rtt_ms"], n["path_loss_percent"] / 100, kind)
    rate = submission.check_number(
        "q3_rate_mbit",
        right,
        unit="Mbit/s",
        within=ROUNDED,
        hints=[
            Hint(right / 8, "this is in MB/s; give Mbit/s.", 0.5),
            Hint(right / 1.31, "the constant is missing.", 0.5),
            Hint(right / 10, "a percent is a hundredth.", 0.25),
        ],
        wrong="Use MSS / RTT · C / √p in bits and seconds.",
    )
    at_one = mathis_mbit(MSS_BYTES, n["goal_rtt_ms"], 0.01, kind)
    percent = (at_one / n["goal_mbit"]) ** 2
    loss = submission.check_number(
        "q3_loss_percent",
        percent,
        unit="percent",
        within=2 * ROUNDED,
        hints=[
            Hint(percent / 100, "this is a share, not a percentage.", 0.5),
            Hint(percent**0.5, "the loss is under a square root."),
            Hint(percent / 1.31**2, "the constant is missing.", 0.5),
        ],
        wrong="Solve the formula for p, the loss at which the rate is exactly the goal.",
    )
    return combine([(0.5, rate), (0.5, loss)])


class Found(NamedTuple):
    """Facts about a capture in which segments were lost."""

    copies: int  #: number of the client's retransmissions
    gaps: int  #: number of the server's segments with SACK blocks
    wait_ms: float  #: the longest time from a segment's first copy to its last
    first_wait_ms: float  #: the longest time from a segment's first copy to its second
    distinct: int  #: number of the client's data segments that were sent again


@lru_cache(maxsize=256)
def found_in(capture: Stored) -> Found:
    """Count and time the retransmissions in a capture, and count its SACKs."""
    facts = facts_of(capture)
    times: dict[int, list[int]] = {}
    for row in facts.data:
        times.setdefault(int(row["seq"]), []).append(int(row["time_ns"]))
    again = [copies for copies in times.values() if len(copies) > 1]
    server = facts.rows.sent_by("server")
    return Found(
        copies=int(facts.data["is_retransmission"].sum()),
        gaps=int((server["sack_blocks"] > 0).sum()),
        wait_ms=max((copies[-1] - copies[0]) / 1e6 for copies in again),
        first_wait_ms=max((copies[1] - copies[0]) / 1e6 for copies in again),
        distinct=len(again),
    )


def q4(submission: Submission) -> Verdict:
    """Check the number of retransmissions, and of ACKs that report a gap."""
    retransmissions, facts = found_in(submission.capture), facts_of(submission.capture)
    again = submission.check_count(
        "q4_again_segments",
        retransmissions.copies,
        hints=[
            Hint(value, message, share)
            for value, message, share in [
                (len(facts.data), "these are all data segments.", 0.0),
                (retransmissions.distinct, "one of them was sent more than twice.", 0.5),
            ]
            if value != retransmissions.copies
        ],
        wrong="Which data segments have a sequence number that was sent before?",
    )
    gaps = submission.check_count(
        "q4_gap_segments",
        retransmissions.gaps,
        wrong="Count all segments of the server with the option SACK, whatever else they carry.",
    )
    return combine([(0.5, again), (0.5, gaps)])


def q5(submission: Submission) -> Verdict:
    """Check the longest time from a segment's first copy to its last."""
    retransmissions = found_in(submission.capture)
    hints = [Hint(retransmissions.wait_ms / 1e3, "this is in seconds.", 0.5)]
    if retransmissions.first_wait_ms < 0.99 * retransmissions.wait_ms:
        hints.append(Hint(retransmissions.first_wait_ms, "this copy was lost, too.", 0.5))
    return submission.check_number(
        "q5_wait_ms",
        retransmissions.wait_ms,
        unit="ms",
        within=EXACT,
        hints=hints,
        wrong="For each segment that was sent again, count from its first copy to its last copy.",
    )


def q6(submission: Submission) -> Verdict:
    """Check the event that triggered the last retransmission."""
    return submission.check_choice(
        "q6_reason",
        facts_of(submission.capture).cause,
        task.REASONS,
        wrong="Had the client received an ACK with a gap right before the last copy left? Was the"
        " copy the second one of the last segment of all?",
    )


def q7(submission: Submission) -> Verdict:
    """Run window.c with randomly drawn losses."""
    losses = task.Losses.drawn(Random(secrets.randbits(64)))
    verdict: Verdict = task.look_at_window(submission, losses)
    return verdict


def q8(submission: Submission) -> Verdict:
    """Send the learner's ACK to a server with ten segments in flight, and see what it repeats."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
