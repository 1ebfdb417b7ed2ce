"""The hidden judge of the problem set "diagnosis", which runs only in the grader.

It computes the right answers from the models and the handed-out captures, and checks programs
by their traffic.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of, pauses_ms
from tcplab.grading.checks import (
    Hint,
    Verdict,
    as_number,
    choice,
    combine,
    equal_parts,
    list_in,
    number,
)
from tcplab.grading.submission import Submission
from tcplab.models import bdp_bytes, goodput_mbyte_s, window_from_buffer, window_limit_mbit

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_diagnosis")


#: Relative tolerance of an answer that is calculated from given numbers.
EXACT = 0.005
#: This tolerance covers both estimates of a packet's data share: 160/256 (kernel) and 1448/2304.
ROUNDED = 0.008


def window_bytes(rcvbuf_bytes: int) -> int:
    """Return the receive window for a requested buffer: the data share of twice the request."""
    return window_from_buffer(2 * rcvbuf_bytes)


def q1(submission: Submission) -> Verdict:
    """Check the bandwidth-delay product and the receiver's window."""
    rate, rtt = submission.numbers["rate_mbit"], submission.numbers["rtt_ms"]
    asked = submission.numbers["rcvbuf_bytes"]
    right = bdp_bytes(rate, rtt)
    holds = submission.check_number(
        "q1_bdp_bytes",
        right,
        unit="bytes",
        within=EXACT,
        hints=[
            Hint(8 * right, "these are bits.", 0.5),
            Hint(right / 2, "this is only one way; count until the ACK is back.", 0.5),
            Hint(right / 1e3, "the units: is it ms or s?", 0.25),
            Hint(right * 1e3, "the units: is it ms or s?", 0.25),
        ],
        wrong="How many bytes leave before the first of them can be acknowledged?",
    )
    window = window_bytes(asked)
    offers = submission.check_number(
        "q1_window_bytes",
        window,
        unit="bytes",
        within=ROUNDED,
        hints=[
            Hint(window / 2, "what does Linux do with the number in setsockopt?", 0.5),
            Hint(2 * asked, "this is the buffer; only a part of a buffer is data.", 0.5),
            Hint(asked, "this is the request, not the grant or the window.", 0.25),
        ],
        wrong="Find the grant first, and then the share of it that is data.",
    )
    return combine([(0.5, holds), (0.5, offers)])


def q2(submission: Submission) -> Verdict:
    """Check the rate with one window per round trip, and the time at the link's full goodput."""
    rate, rtt = submission.numbers["rate_mbit"], submission.numbers["rtt_ms"]
    megabytes = submission.numbers["backup_mb"]
    right = window_limit_mbit(window_bytes(submission.numbers["rcvbuf_bytes"]), rtt)
    hints = [
        Hint(right / 8, "this is in MB/s; give Mbit/s.", 0.5),
        Hint(2 * right, "the ACK has to come back before the window moves.", 0.5),
        Hint(rate, "the link is not the limit here."),
    ]
    own_window = as_number(submission.answers["q1_window_bytes"])
    if own_window is not None and 0 < own_window < bdp_bytes(rate, rtt):
        # A wrong answer to q1 does not cost points again.
        own = window_limit_mbit(own_window, rtt)
        hints.insert(0, Hint(own, "right for the window that you gave in q1.", 1.0))
    now = submission.check_number(
        "q2_now_mbit",
        right,
        unit="Mbit/s",
        within=ROUNDED,
        hints=hints,
        wrong="How much may be sent in each round trip?",
    )
    seconds = megabytes / goodput_mbyte_s(rate)
    fixed = submission.check_number(
        "q2_fixed_s",
        seconds,
        unit="s",
        within=EXACT,
        hints=[
            Hint(megabytes * 8 / rate, "a packet carries headers, too.", 0.5),
            Hint(seconds / 8, "MB and Mbit are not the same."),
        ],
        wrong="The link is the limit then. Use its goodput, with headers and gaps counted.",
    )
    return combine([(0.5, now), (0.5, fixed)])


def q3(submission: Submission) -> Verdict:
    """Check the rate and the size of small segments with Nagle's algorithm, one per round trip."""
    rtt, line = submission.numbers["ticker_rtt_ms"], submission.numbers["line_bytes"]
    rate = submission.check_number(
        "q3_segments_per_s",
        1000 / rtt,
        within=EXACT,
        hints=[
            Hint(1000, "this would be right if no line waited."),
            Hint(1000 * line, "this is the rate with TCP_NODELAY."),
            Hint(2000 / rtt, "the ACK has to come all the way back.", 0.5),
        ],
        wrong="What has to happen before the next small segment may leave, and how often?",
    )
    size = submission.check_number(
        "q3_segment_bytes",
        line * rtt,
        unit="bytes",
        within=EXACT,
        hints=[
            Hint(line, "this is one line; how many are written while TCP awaits one ACK?"),
            Hint(1, "this is the size today; Nagle's algorithm collects bytes."),
            Hint(line * rtt / 2, "the ACK has to come all the way back.", 0.5),
        ],
        wrong="Everything that is written while TCP awaits an ACK leaves together.",
    )
    return combine([(0.5, rate), (0.5, size)])


@lru_cache(maxsize=16)
def _longest_pause(capture: Stored) -> tuple[float, str]:
    """Return the longest pause in ms after the client's first data, and the side that ended it."""
    rows = facts_of(capture).rows
    first = (rows.carries_data & rows.from_client).nonzero()[0][0]
    during = rows[first : rows.carries_data.nonzero()[0][-1] + 1]
    pauses = pauses_ms(during)
    after = during[pauses.index(max(pauses)) + 1]
    return max(pauses), task.ENDS[int(after["direction"])]


def _each(submission: Submission, name: str) -> list[Any] | Verdict:
    """Return the answer if it is a list with an element for each capture, else a Verdict."""
    length = len(submission.numbers["captures"])
    return list_in(submission.answers[name], length, name=name, of="elements, one for each capture")


#: For each cause, a question that tells it apart from the most similar cause.
SIGNS = {
    "small-writes-and-delayed-ack": "Who sends the packet that ends the pause, and what is in it?",
    "cork-not-pulled": "Which packet ends the pause, and is anything unacknowledged before it?",
    "window-smaller-than-bdp": "How much is in flight, what limits it, and does the window ever"
    " close?",
    "receiver-does-not-read": "Look at the window in the packets from the server.",
    "tiny-segments": "Is there a pause at all? How much is in a segment?",
    "segment-lost": "Look at the sequence numbers before and after the pause.",
}


def q4(submission: Submission) -> Verdict:
    """Check the cause of each capture."""
    given = _each(submission, "q4_causes")
    if isinstance(given, Verdict):
        return given
    verdicts = []
    for i, (value, capture) in enumerate(zip(given, submission.captures, strict=True)):
        cause = facts_of(capture).cause
        name = f"q4_causes[{i}]"
        verdicts.append(choice(value, cause, task.CAUSES, name=name, wrong=SIGNS[cause]))
    return equal_parts(verdicts)


def q5(submission: Submission) -> Verdict:
    """Check how long a reading waits in the broker, and which program can end the wait."""
    held = submission.check_number(
        "q5_held_ms",
        40,
        unit="ms",
        within=0.06,
        hints=[Hint(20, "the data takes this time to the subscriber, and its ACK as long.", 0.5)],
        wrong="What has to come back before the broker's kernel sends the next segment?",
    )
    changed = submission.check_choice(
        "q5_to_change",
        "broker",
        task.PROGRAMS,
        wrong="In which host's kernel do the readings wait, and who can set an option there?",
    )
    return equal_parts([held, changed])


def q6(submission: Submission) -> Verdict:
    """Check the longest pause in each capture, and the side that ended it."""
    pauses, ended_by = _each(submission, "q6_pauses_ms"), _each(submission, "q6_ended_by")
    if isinstance(pauses, Verdict):
        return pauses
    if isinstance(ended_by, Verdict):
        return ended_by
    verdicts = []
    for i, (pause, end, capture) in enumerate(
        zip(pauses, ended_by, submission.captures, strict=True)
    ):
        pause_ms, who = _longest_pause(capture)
        length = number(
            pause,
            pause_ms,
            name=f"q6_pauses_ms[{i}]",
            unit="ms",
            within=EXACT,
            hints=[Hint(pause_ms / 1e3, "this is in seconds.", 0.5)],
            wrong="Look at consecutive packets of both sides, from the client's first data to the"
            " last data.",
        )
        ended = choice(
            end,
            who,
            task.ENDS,
            name=f"q6_ended_by[{i}]",
            wrong="Which side sent the first packet after it?",
        )
        verdicts.append(equal_parts([length, ended]))
    return equal_parts(verdicts)


def q7(submission: Submission) -> Verdict:
    """Run lookup.c with the student's own number of questions, on a path longer than it says."""
    rtt_ms = 60 + secrets.randbelow(20)  # a program that sleeps instead of reading asks too early
    verdict: Verdict = task.look_at_lookup(submission, submission.numbers["questions"], rtt_ms)
    return verdict


def q8(submission: Submission) -> Verdict:
    """Run mirror.c over the student's own link."""
    link = {name: submission.numbers[f"mirror_{name}"] for name in ("rate_mbit", "rtt_ms")}
    verdict: Verdict = task.look_at_mirror(submission, **link)
    return verdict


def q9(submission: Submission) -> Verdict:
    """Run journal.c with the student's own number of lines."""
    verdict: Verdict = task.look_at_journal(submission, submission.numbers["lines"])
    return verdict


def q10(submission: Submission) -> Verdict:
    """Send the segments to a server and then the learner's packet, and count what can be read."""
    verdict: Verdict = task.check_q10(submission)
    return verdict
