"""The hidden judge of the problem set "tcp-vs-udp", which runs only in the grader.

It computes the right answers from the models and the handed-out capture, and checks tally with
a randomly drawn run.
"""

from __future__ import annotations

import itertools
import random
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

from tcplab.grading.archive import Stored
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import cause_of
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import (
    Encapsulation,
    goodput_mbyte_s,
    packet_count,
    receive_buffer_grant,
)

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_tcp_vs_udp")

#: The offset of a datagram's payload: Ethernet 14, IPv4 20, UDP 8.
PAYLOAD_AT = 42
MAX_UDP_PAYLOAD_BYTES = 65_507
HEADER = struct.Struct("!4sIQ")


def q1(submission: Submission) -> Verdict:
    """Check the rate with small datagrams, and with full segments."""
    rate, size = submission.numbers["rate_mbit"], submission.numbers["block_bytes"]

    def udp(link: str = "ethernet") -> float:
        around = Encapsulation("udp", link=link)
        return goodput_mbyte_s(rate, 1500, around, payload_bytes=size)

    small = submission.check_number(
        "q1_udp_mb_per_s",
        udp(),
        unit="MB/s",
        within=0.005,
        hints=[
            Hint(udp("none"), "each packet travels in a frame, with a gap after it.", 0.5),
            Hint(udp("frame"), "a frame takes more of the link than a capture shows.", 0.5),
            Hint(8 * udp(), "this is in Mbit/s; a byte has 8 bits.", 0.5),
        ],
        wrong="Divide the data by everything that a packet takes on the link, and multiply by"
        " the rate in bytes.",
    )
    full = submission.check_number(
        "q1_tcp_mb_per_s",
        goodput_mbyte_s(rate),
        unit="MB/s",
        within=0.003,
        hints=[
            Hint(
                goodput_mbyte_s(rate, 1500, Encapsulation(timestamps=False)),
                "the time stamps option takes 12 bytes of each packet.",
                0.5,
            ),
            Hint(
                goodput_mbyte_s(rate, payload_bytes=size),
                "TCP does not send a packet for each block.",
                0.5,
            ),
            Hint(8 * goodput_mbyte_s(rate), "this is in Mbit/s; a byte has 8 bits.", 0.5),
        ],
        wrong="How much data is in a packet that TCP has filled?",
    )
    return combine([(0.5, small), (0.5, full)])


def q2(submission: Submission) -> Verdict:
    """Check how many datagrams a receive buffer holds, and the size that a burst needs."""
    asked, charged = submission.numbers["rcvbuf_bytes"], submission.numbers["kernel_bytes"]
    granted = receive_buffer_grant(asked, rmem_max_bytes=1 << 30)
    burst = submission.numbers["burst"]
    kept = submission.check_number(
        "q2_kept",
        granted // charged,
        within=0.005,
        hints=[Hint(asked // charged, "the kernel does not grant the requested size.", 0.5)],
        wrong="How much is granted, and how much of it does one datagram take?",
    )
    least = burst * charged * asked / granted
    ask = submission.check_number(
        "q2_ask_bytes",
        least,
        unit="bytes",
        within=0.002,
        hints=[
            Hint(
                2 * least, "it is enough, but more than necessary. What does the kernel grant?", 0.5
            ),
            Hint(4 * least, "it is enough, but the kernel already doubles the request.", 0.25),
        ],
        wrong="Find the room for the burst as the kernel counts it. Which request grants that?",
    )
    return combine([(0.5, kept), (0.5, ask)])


def q3(submission: Submission) -> Verdict:
    """Check the trips through the stack with plain datagrams, with TCP and with UDP_SEGMENT."""
    blocks, size = submission.numbers["blocks"], submission.numbers["small_bytes"]
    mtu = submission.numbers["loopback_mtu"]
    a_call = min(64, MAX_UDP_PAYLOAD_BYTES // size)
    around = Encapsulation(link="none")
    right = [blocks, packet_count(blocks * size, mtu, around), -(-blocks // a_call)]
    bare = Encapsulation(timestamps=False, link="none")
    without_stamps = [right[0], packet_count(blocks * size, mtu, bare), right[2]]
    return submission.check_counts(
        "q3_trips",
        right,
        hints=[Hint(without_stamps, "TCP's headers are 12 bytes longer than that.", 0.75)],
        wrong="Does one trip carry a block, the data of a full packet, or as many datagrams as a"
        " call may take?",
    )


@lru_cache(maxsize=16)
def _found_in(capture: Stored) -> dict[str, Any]:
    """Return the correct answers for a capture, including the cause that it was recorded for."""
    packets = capture.packets()
    data = packets.data
    came = []
    for offset in packets.offset:
        kind, _, value = HEADER.unpack_from(data, int(offset) + PAYLOAD_AT)
        if kind == b"data":
            came.append(value)
        elif kind == b"end.":
            sent = value
    first, reordered, highest = set(), 0, -1
    for value in came:
        if value not in first and value < highest:
            reordered += 1
        first.add(value)
        highest = max(highest, value)
    fields = capture.log().split()
    read = int(fields[fields.index("read") + 1])
    return {
        "on_the_way": sent - len(first),
        "by_rows": sent - len(came),
        "gaps": highest + 1 - len(first),
        "in_all": sent - read,
        "duplicated": len(came) - len(first),
        "reordered": reordered,
        "backward_steps": sum(a > b for a, b in itertools.pairwise(came)),
        "in_the_buffer": len(first) - read,
        "fix": cause_of(capture),
    }


def q4(submission: Submission) -> Verdict:
    """Check how many datagrams never reached the server's host."""
    facts = _found_in(submission.capture)
    return submission.check_count(
        "q4_lost_on_the_way",
        facts["on_the_way"],
        hints=[
            Hint(
                facts["in_all"],
                "some of these reached the host. Where was the capture recorded?",
                0.5,
            ),
            Hint(facts["by_rows"], "a duplicate did arrive; count each number once.", 0.5),
            Hint(
                facts["gaps"], "more datagrams may have been sent after the last that came.", 0.25
            ),
        ],
        wrong="How many were sent (the end marker), and how many different numbers came?",
    )


def q5(submission: Submission) -> Verdict:
    """Check how many datagrams came twice, and how many came late."""
    facts = _found_in(submission.capture)
    twice = submission.check_count(
        "q5_duplicated",
        facts["duplicated"],
        wrong="How many times did a number come that had come before?",
    )
    late = submission.check_count(
        "q5_reordered",
        facts["reordered"],
        hints=[
            Hint(
                facts["backward_steps"],
                "these are backward steps, including duplicates.",
                0.5,
            )
        ],
        wrong="Count the numbers that come for the first time, and are below the highest so far.",
    )
    return combine([(0.5, twice), (0.5, late)])


def q6(submission: Submission) -> Verdict:
    """Check how many datagrams reached the host but not the program, and the remedy."""
    facts = _found_in(submission.capture)
    lost = submission.check_count(
        "q6_lost_in_the_buffer",
        facts["in_the_buffer"],
        hints=[
            Hint(
                facts["in_all"],
                "this is everything that was lost; a part never reached this host.",
                0.5,
            )
        ],
        wrong="How many different numbers reached the host, and how many did the program read?",
    )
    fix = submission.check_choice(
        "q6_fix",
        facts["fix"],
        task.FIXES,
        wrong="Were most of the datagrams that went wrong dropped on the path, dropped here, or"
        " only out of order?",
    )
    return combine([(1 / 3, lost), (2 / 3, fix)])


def q7(submission: Submission) -> Verdict:
    """Run tally.c with randomly drawn losses, so that no student can know the numbers."""
    stream = task.make_stream(random.SystemRandom())
    verdict: Verdict = task.look_at_tally(submission, stream)
    return verdict


def q8(submission: Submission) -> Verdict:
    """Send the learner's datagrams, and check which of them a program reads."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
