"""The hidden judge of the problem set "segments", which runs only in the grader.

It computes the right answers from the models and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import announced_mss_bytes, header_share, mss_bytes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_segments")

ETHERNET_MTU = 1500
TIMESTAMPS_OPTION = 12
#: The ranges from which the MTUs of the two paths of slices.c are drawn.
INTERFACE_MTUS, PATH_MTUS = range(1300, 1461, 4), range(900, 1151, 2)


def q1(submission: Submission) -> Verdict:
    """Check the MSS to announce, and the data per packet, with a tunnel in the path."""
    mtu = ETHERNET_MTU - submission.numbers["tunnel_bytes"]
    announced, data = announced_mss_bytes(mtu), mss_bytes(mtu)
    maxseg = submission.check_count(
        "q1_maxseg_bytes",
        announced,
        hints=[
            Hint(data, "it fits, but does not fill the path. What does an MSS leave out?", 0.5),
            Hint(mtu, "this is the path's MTU, but a segment has headers."),
            Hint(announced + 20, "TCP has a header, too.", 0.25),
        ],
        wrong="Subtract the headers that an announced MSS excludes from the packets that the"
        " tunnel allows.",
    )
    carried = submission.check_count(
        "q1_data_bytes",
        data,
        hints=[Hint(announced, "the time stamps are in every segment.", 0.25)],
        wrong="Subtract all headers and options of a segment with data from the same packet.",
    )
    return combine([(0.5, maxseg), (0.5, carried)])


def q2(submission: Submission) -> Verdict:
    """Check the percentage of a busy link's capacity that carries data."""
    mtu = submission.numbers["mtu_bytes"]
    data = mss_bytes(mtu)
    return submission.check_number(
        "q2_data_percent",
        100 - 100 * header_share(data, mtu),
        unit="percent",
        within=0.00015,
        hints=[
            Hint(1 - header_share(data, mtu), "this is a fraction of 1; give a percentage.", 0.5),
            Hint(100 * data / (mtu + 14), "an Ethernet adds 24 bytes that no capture shows.", 0.5),
            Hint(100 * data / mtu, "the link carries more than the IP packet.", 0.25),
            Hint(
                100 * (data + TIMESTAMPS_OPTION) / (mtu + 38),
                "the time stamps option is not data.",
                0.5,
            ),
        ],
        wrong="Divide the data of a full segment by everything that its frame takes on the link,"
        " with the gap.",
    )


def q3(submission: Submission) -> Verdict:
    """Check the payload of a retransmitted flight, and how many smaller segments carry it."""
    n = submission.numbers
    wide, narrow, flight = n["wide_mtu_bytes"], n["narrow_mtu_bytes"], n["flight_segments"]
    data = flight * mss_bytes(wide)
    expected = -(-data // mss_bytes(narrow))
    again = submission.check_count(
        "q3_again_bytes",
        data,
        hints=[
            Hint(flight * announced_mss_bytes(wide), "time stamps are in every segment.", 0.5),
            Hint(flight * wide, "headers are built again; how much of it is data?", 0.25),
            Hint(mss_bytes(wide), "this is one segment, but all were dropped.", 0.25),
        ],
        wrong="Multiply the data of one full segment by the number of segments.",
    )
    hints = [Hint(flight, "the same segments would be dropped again.")]
    for size, why, share in (
        (announced_mss_bytes(narrow), "time stamps are in every segment.", 0.5),
        (narrow, "each segment has headers again.", 0.25),
    ):
        if (wrong := -(-data // size)) != expected:
            hints.append(Hint(wrong, why, share))
    cut = submission.check_count(
        "q3_segments",
        expected,
        hints=hints,
        wrong="Divide all that data into segments that fill a packet of the narrow link.",
    )
    return combine([(0.5, again), (0.5, cut)])


@lru_cache(maxsize=16)
def _found_in(capture: Stored) -> dict[str, Any]:
    """Return the correct answers for a capture, including the cause that it was recorded for."""
    facts = facts_of(capture)
    ends = facts.data["seq"] + facts.data["payload_bytes"]
    sent = np.zeros(ends.max(), dtype=int)  # how often each byte was sent
    for start, end in zip(facts.data["seq"], ends, strict=True):
        sent[start:end] += 1
    most_often = np.flatnonzero(sent == sent.max())
    syns = facts.rows[facts.rows.is_syn]
    announced = [int(syns.sent_by(end)["mss"].max()) for end in ("client", "server")]
    return {
        "announced": min(announced),
        "announced_by_client": announced[0],
        "full_bytes": min(announced) - TIMESTAMPS_OPTION,
        "first_byte": int(most_often[0]),
        "last_byte": int(most_often[-1]),
        "times": int(sent.max()),
        "reason": facts.cause,
    }


def q4(submission: Submission) -> Verdict:
    """Check the data in a full segment, the smaller announced MSS minus the time stamps option."""
    facts = _found_in(submission.capture)
    client = facts["announced_by_client"]
    hints = [Hint(facts["announced"], "every segment carries the time stamps, too.", 0.5)]
    if client != facts["announced"]:
        hints += [
            Hint(client - TIMESTAMPS_OPTION, "this is what the client *receives* at most.", 0.25),
            Hint(client, "which announcement limits the client, its own or the server's?"),
        ]
    return submission.check_count(
        "q4_full_bytes",
        facts["full_bytes"],
        hints=hints,
        wrong="Look at the options of both SYNs, and at those of the segments after them.",
    )


def q5(submission: Submission) -> Verdict:
    """Check the last of the bytes that the client sent most often, and how often it was sent."""
    facts = _found_in(submission.capture)
    byte = submission.check_count(
        "q5_last_byte",
        facts["last_byte"],
        hints=[
            Hint(facts["first_byte"], "this is the first of these bytes.", 0.5),
            Hint(facts["last_byte"] + 1, "this is the number of the byte after it.", 0.5),
        ],
        wrong="Go through the client's segments with data, and count for each of their bytes that"
        " it was sent once more. The first byte of a segment has its sequence number.",
    )
    times = submission.check_count(
        "q5_times",
        facts["times"],
        hints=[Hint(facts["times"] - 1, "the first time counts, too.", 0.5)],
        wrong="Count the client's segments with data that carry this byte.",
    )
    return combine([(0.75, byte), (0.25, times)])


def q6(submission: Submission) -> Verdict:
    """Check the reason for the pause in the capture."""
    return submission.check_choice(
        "q6_reason",
        _found_in(submission.capture)["reason"],
        task.REASONS,
        wrong="Was anything unacknowledged in the pause? If so, did the same segment get through"
        " when it was sent again unchanged, or only when it was cut smaller?",
    )


def q7(submission: Submission) -> Verdict:
    """Run slices.c over two random paths, so that it has to discover their MTUs."""
    interface_mtu, path_mtu = secrets.choice(INTERFACE_MTUS), secrets.choice(PATH_MTUS)
    verdict: Verdict = task.judge_slices(
        submission, submission.numbers["file_bytes"], interface_mtu, path_mtu
    )
    return verdict


def q8(submission: Submission) -> Verdict:
    """Open a connection with the learner's packet, and count the bytes of the first flight."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
