"""Problem set "segments" (MTU and MSS): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `judge_slices`, on other paths.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tcplab.errors import ParameterError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, numbers_in, one_of
from tcplab.grading.packets import NO_PROBES, OwnPacket, connected
from tcplab.grading.programs import compiled, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_maxseg_bytes", "q1_data_bytes"],
    "q2": ["q2_data_percent"],
    "q3": ["q3_again_bytes", "q3_segments"],
    "q4": ["q4_full_bytes"],
    "q5": ["q5_last_byte", "q5_times"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["slices.c"]
IN_PROGRAMS = ["header_bytes"]

REASONS = ("application-idle", "black-hole", "segment-lost")


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    return {
        "tunnel_bytes": own.integer("tunnel", 20, 220),
        "mtu_bytes": own.integer("mtu", 576, 2200),
        "wide_mtu_bytes": own.integer("wide", 3000, 9000),
        "flight_segments": own.integer("flight", 3, 10),
        "narrow_mtu_bytes": own.integer("narrow", 600, 1500),
        "first_flight_bytes": 10 * own.integer("my_mss", 101, 800),
        "capture": own.captures()[0],
        "header_bytes": own.of_course.integer("header_bytes", 8, 60, 4),
        "file_bytes": own.integer("file", 24_000, 30_000, 7),
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept an MSS below the tunnel's MTU, and data up to this MSS."""
    given = numbers_in(submission.answers, ANSWERS["q1"], unit="bytes")
    if isinstance(given, Verdict):
        return given
    maxseg, data = given
    if not 0 < data <= maxseg:
        return Verdict(0, "A segment carries at least one byte, and no more than was announced.")
    if maxseg >= 1500 - submission.numbers["tunnel_bytes"]:
        return Verdict(0, "q1_maxseg_bytes: with its headers, this is too long for the tunnel.")
    return Verdict(1, "Plausible sizes. Which headers and options does each of them leave out?")


def check_q2(submission: Submission) -> Verdict:
    """Accept a percentage from 50 to below 100."""
    given = numbers_in(submission.answers, ANSWERS["q2"], unit="percent")
    if isinstance(given, Verdict):
        return given
    if not 0 < given[0] < 100:
        return Verdict(0, "q2_data_percent must be a number between 0 and 100.")
    if given[0] < 50:
        return Verdict(0, "Can full segments have more headers than data?")
    return Verdict(
        1, "This is a plausible share. Have you counted the bytes that no capture shows?"
    )


def check_q3(submission: Submission) -> Verdict:
    """Accept a number of bytes, and a number of segments that can carry it."""
    given = numbers_in(submission.answers, ANSWERS["q3"], least=1)
    if isinstance(given, Verdict):
        return given
    again, segments = given
    n = submission.numbers
    if again > n["flight_segments"] * n["wide_mtu_bytes"]:
        return Verdict(0, "q3_again_bytes: this is more than was sent, including the headers.")
    if segments * n["narrow_mtu_bytes"] < again:
        return Verdict(0, "q3_segments: so few packets of the narrow link cannot carry this data.")
    return Verdict(1, "Possible. What is around the data of each segment?")


def check_q4(submission: Submission) -> Verdict:
    """Accept a size from 1 to 1460 bytes."""
    given = numbers_in(submission.answers, ANSWERS["q4"], least=1, most=1460)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number. Have you looked at both SYNs?")


def check_q5(submission: Submission) -> Verdict:
    """Accept a byte of the file, and a number of times up to the number of segments."""
    bounds = bounds_of(submission.capture)
    byte = numbers_in(submission.answers, ["q5_last_byte"], least=1, most=bounds.payload_bytes)
    times = numbers_in(submission.answers, ["q5_times"], least=1, most=bounds.segments)
    for given in (byte, times):
        if isinstance(given, Verdict):
            return given
    return Verdict(1, "This is a byte. Why was it sent as often as this, and by which rule?")


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed reasons."""
    then = "This is one of the reasons. What in the capture rules out the other two?"
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


def check_q8(submission: Submission) -> Verdict:
    """Open a connection with the learner's packet, and count the bytes of the first flight."""
    wanted = submission.numbers["first_flight_bytes"]
    try:
        syn = OwnPacket.read(submission.answers["q8_packet"], "q8_packet")
        with connected(submission.lab(sysctls=NO_PROBES), syn) as (ours, server):
            server.setblocking(False)
            server.send(bytes(10_000))
            heard = ours.hear_all(lambda heard: heard[-1].sent_bytes >= wanted)
    except ParameterError as error:
        return Verdict(0, str(error))
    came = max((segment.sent_bytes for segment in heard), default=0)
    if came == wanted:
        return Verdict(1, f"The server sent {came} bytes, and waits.")
    return Verdict(
        0,
        f"The server sent {came} bytes instead of {wanted}. How many segments may leave before the"
        " first ACK, and what does your SYN say about their size?",
    )


def check_q7(submission: Submission) -> Verdict:
    """Compile slices.c and let it send 20,000 bytes over two paths."""
    return judge_slices(submission, 20_000, interface_mtu=1380, path_mtu=1204)


# ---- slices.c ------------------------------------------------------------------------------------

PEER = Path(__file__).parent / "slices_peer.py"
IP_AND_UDP_BYTES = 28


@compiled("slices.c")
def judge_slices(
    submission: Submission, file_bytes: int, interface_mtu: int, path_mtu: int
) -> Verdict:
    """Run the learner's program with a small MTU on its interface, then on a later link."""
    parts = []
    for mtu, is_narrow in ((interface_mtu, False), (path_mtu, True)):
        run, sent = run_slices(submission, file_bytes, mtu, is_narrow)
        most_bytes = mtu - IP_AND_UDP_BYTES - submission.numbers["header_bytes"]
        parts.append((0.5, look_at_slices(run, sent, mtu, is_narrow, most_bytes)))
        if run.outcome.stopped_by:  # the other path would give the same result
            return Verdict(0, parts[0][1].message)
    return combine(parts)


def run_slices(
    submission: Submission, file_bytes: int, mtu: int, is_narrow: bool
) -> tuple[LabRun, bytes]:
    """Run the learner's program; return the run and the file that the program had to send."""
    file = random.Random(file_bytes).randbytes(file_bytes)
    narrow = {"rtt_ms": 6, "to_server": {"mtu": mtu, "icmp": "on"}}
    run = submission.run_in_lab(
        submission.compile("slices.c"),
        ["10.0.0.2", "{port}", "data"],
        peer=[sys.executable, str(PEER), str(submission.numbers["header_bytes"])],
        lab=narrow if is_narrow else {"rtt_ms": 4, "mtu": mtu},
        files={"data": file},
        limits=Limits(wall_s=12, cpu_s=8, processes=8),
    )
    return run, file


def look_at_slices(run: LabRun, file: bytes, mtu: int, is_narrow: bool, most_bytes: int) -> Verdict:
    """Check that the file arrived, unfragmented and in no more datagrams than necessary."""
    where = f"On a path with MTU {mtu} behind an Ethernet," if is_narrow else f"With MTU {mtu},"
    if not run.outcome.ok:
        return Verdict(0, f"{where} {how_it_ended(run, 'slices')}.")
    if run.peer is None:
        return Verdict(0, f"{where} the receiver failed: {run.peer_error}.")
    if not run.peer["ended"] or run.peer["sha256"] != hashlib.sha256(file).hexdigest():
        return Verdict(
            0,
            f"{where} {run.peer['bytes']} of {len(file)} bytes arrived"
            f" {'with' if run.peer['ended'] else 'without'} an end, and the file must stay the"
            " same.",
        )
    sizes: Sequence[int] = run.peer["datagram_bytes"]
    cut = sum(size + IP_AND_UDP_BYTES > mtu for size in sizes)
    if cut:
        return Verdict(
            0,
            f"{where} {cut} of {len(sizes)} datagrams arrived in fragments, and the longest had"
            f" {max(sizes)} bytes. Did your host or a router cut them, and what allowed it?",
        )
    fewest = -(-len(file) // most_bytes)
    if len(sizes) > fewest:
        return Verdict(
            0.4,
            f"{where} nothing was fragmented, but there were more datagrams than necessary. The"
            f" longest had {max(sizes)} bytes. What does the kernel know about the path?",
        )
    return Verdict(1, f"{where} no datagram was fragmented, and none was unnecessary.")
