"""The hidden judge of the problem set "queues", which runs only in the grader.

It computes the right answers from the models and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

import math
import secrets
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import data_segments, facts_of
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import bdp_bytes, jain_index, sawtooth_share, serialisation_ms
from tcplab.segments import FROM_CLIENT

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_queues")

PACKET_BYTES = task.PACKET_BYTES
#: Relative tolerance of a calculated answer.
EXACT = 0.005
MSS_BYTES = 1448


def q1(submission: Submission) -> Verdict:
    """Check the ping time behind a full queue, and the buffer size BDP/√n."""
    n = submission.numbers
    one_ms = serialisation_ms(MSS_BYTES, n["home_rate_mbit"])
    waits_ms = n["home_queue_packets"] * one_ms
    ping_ms = n["home_rtt_ms"] + waits_ms
    ping = submission.check_number(
        "q1_ping_ms",
        ping_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(waits_ms, "this is only the queue; the path takes time, too.", 0.5),
            Hint(
                n["home_rtt_ms"] + waits_ms * MSS_BYTES / PACKET_BYTES,
                "a packet takes more of the line than its data does.",
                0.5,
            ),
            Hint(n["home_rtt_ms"] + 2 * waits_ms, "only one direction has a queue.", 0.25),
        ],
        wrong="How long does the line take for all earlier packets, and how long is the round"
        " trip?",
    )
    bdp = bdp_bytes(n["core_rate_mbit"], n["core_rtt_ms"]) / PACKET_BYTES
    packets = submission.check_number(
        "q1_buffer_packets",
        bdp / math.sqrt(n["core_flows"]),
        within=0.02,
        hints=[
            Hint(bdp, "this would be right for one flow.", 0.25),
            Hint(bdp / n["core_flows"], "sums of n flows vary with the root of n.", 0.25),
            Hint(bdp * PACKET_BYTES / math.sqrt(n["core_flows"]), "these are bytes.", 0.5),
        ],
        wrong="Divide the bandwidth-delay product in packets by the root of the number of flows.",
    )
    return combine([(0.5, ping), (0.5, packets)])


def q2(submission: Submission) -> Verdict:
    """Check the percentage of the line that a sawtooth window uses, and Jain's fairness index."""
    n = submission.numbers
    bdp = bdp_bytes(n["saw_rate_mbit"], n["saw_rtt_ms"]) / PACKET_BYTES
    part = n["saw_queue_packets"] / bdp
    used = submission.check_number(
        "q2_used_percent",
        100 * sawtooth_share(part),
        unit="percent",
        within=0.002,
        hints=[Hint(75, "this would be right without any buffer.")],
        wrong="Express the buffer in bandwidth-delay products, and use the sawtooth formula.",
    )
    rates = n["rates_mbit"]
    index = jain_index(rates)
    jain = submission.check_number(
        "q2_jain",
        index,
        within=EXACT,
        hints=[
            Hint(min(rates) / max(rates), "this is the smallest over the largest."),
            Hint(index * len(rates), "the denominator contains n, too.", 0.5),
        ],
        wrong="Divide the square of the sum by n times the sum of the squares.",
    )
    return combine([(0.5, used), (0.5, jain)])


def q3(submission: Submission) -> Verdict:
    """Check the age of data by Little's law, and the limit of unsent data for a given age."""
    n = submission.numbers
    rate, half_ms = n["live_rate_mbit"], n["live_rtt_ms"] / 2
    held = n["live_unsent_bytes"] + n["live_in_flight_bytes"]
    until_ack_ms = held * 8 / (rate * 1000)
    age = submission.check_number(
        "q3_age_ms",
        until_ack_ms - half_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(until_ack_ms, "this is until the ACK is back.", 0.5),
            Hint(
                n["live_unsent_bytes"] * 8 / (rate * 1000),
                "the data in flight is ahead of it, too.",
                0.25,
            ),
        ],
        wrong="Divide the held bytes by the rate, and subtract the time that the ACK takes.",
    )
    may = (n["live_goal_ms"] + half_ms) * rate * 125 - n["live_in_flight_bytes"]
    limit = submission.check_number(
        "q3_limit_bytes",
        may,
        unit="bytes",
        within=EXACT,
        hints=[
            Hint(may + n["live_in_flight_bytes"], "the option does not limit the data in flight."),
            Hint(may - half_ms * rate * 125, "the age ends when the record arrives.", 0.5),
        ],
        wrong="Solve the same equation for the unsent bytes.",
    )
    return combine([(0.5, age), (0.5, limit)])


class Found(NamedTuple):
    """Facts about a capture, seen from its sender."""

    in_flight_bytes: int  #: the largest amount of data in flight
    longest_ms: float  #: the longest round trip, by time stamps
    path_ms: float  #: the round trip of the handshake


@lru_cache(maxsize=256)
def found_in(capture: Stored) -> Found:
    """Return the largest amount in flight and two round-trip times of a capture."""
    rows = facts_of(capture).rows
    syn, syn_ack = rows[rows.is_syn]["time_ns"][:2]
    acked, end, most, longest_ns = 1, 1, 0, 0
    left: dict[int, int] = {}
    for row in rows:
        now = int(row["time_ns"])
        if row["direction"] == FROM_CLIENT:
            if row["payload_bytes"]:
                left.setdefault(int(row["ts_val"]), now)
                end = max(end, int(row["seq"]) + int(row["payload_bytes"]))
                most = max(most, end - acked)
        elif int(row["ack"]) > acked:
            acked = int(row["ack"])
            if int(row["ts_ecr"]) in left:
                longest_ns = max(longest_ns, now - left[int(row["ts_ecr"])])
    return Found(most, longest_ns / 1e6, float(syn_ack - syn) / 1e6)


def q4(submission: Submission) -> Verdict:
    """Check the number of data segments, and the largest amount in flight."""
    facts, measured = facts_of(submission.capture), found_in(submission.capture)
    segments = data_segments(submission.answers["q4_data_segments"], facts, name="q4_data_segments")
    flight = submission.check_count(
        "q4_in_flight_bytes",
        measured.in_flight_bytes,
        hints=[Hint(facts.payload_bytes, "these are all bytes that were sent.")],
        wrong="At each segment that leaves, subtract the last ACK from the end of the data sent.",
    )
    return combine([(0.5, segments), (0.5, flight)])


def q5(submission: Submission) -> Verdict:
    """Check the longest time in the queue, which is the longest round trip minus the path's."""
    measured = found_in(submission.capture)
    queue_ms = measured.longest_ms - measured.path_ms
    return submission.check_number(
        "q5_queue_ms",
        queue_ms,
        unit="ms",
        within=0.01,
        hints=[
            Hint(measured.longest_ms, "this includes the round trip of the path.", 0.5),
            Hint(queue_ms / 1e3, "this is in seconds.", 0.5),
        ],
        wrong="For each ACK that advances, count from when the segment left whose time stamp it"
        " echoes.",
    )


def q6(submission: Submission) -> Verdict:
    """Check what the router did to the transfer."""
    return submission.check_choice(
        "q6_reason",
        facts_of(submission.capture).cause,
        task.REASONS,
        wrong="Was anything sent again? How long was the queue before? Does an ACK echo a mark?",
    )


def q7(submission: Submission) -> Verdict:
    """Run live.c with randomly drawn parameters."""
    asked = task.Asked(
        rounds=_drawn_near(task.PUBLIC.rounds, 2),
        records=_drawn_near(task.PUBLIC.records, 1),
        rtt_ms=_drawn_near(task.PUBLIC.rtt_ms, 4),
        far_rtt_ms=_drawn_near(task.PUBLIC.far_rtt_ms, 4),
    )
    verdict: Verdict = task.look_at_live(submission, asked)
    return verdict


def _drawn_near(public: int, most: int) -> int:
    """Return a random number that differs from `public`, by at most `most`."""
    return public + secrets.choice((-1, 1)) * (1 + secrets.randbelow(most))


def q8(submission: Submission) -> Verdict:
    """Check that the learner's segments make a kernel echo ECN marks in the right ACKs."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
