"""Problem set "real-programs": its questions, numbers and public checks.

Learners get this file. The hidden judge also uses the `look_at_...` functions, with other
parameters.
"""

from __future__ import annotations

import random
import secrets
import sys
from pathlib import Path
from typing import Any

from tcplab.experiments.diagnosis import checksum
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, numbers_in, one_of
from tcplab.grading.packets import RST, SYN_1460, OwnPacket, connected, with_packet
from tcplab.grading.programs import compiled, how_it_ended, never_listened
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission
from tcplab.segments import SegmentArray

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_now_ms", "q1_fixed_ms"],
    "q2": ["q2_alone_s", "q2_pipelined_s"],
    "q3": ["q3_plain_last_bytes", "q3_nopush_last_bytes"],
    "q4": ["q4_cause"],
    "q5": ["q5_answer_segments", "q5_pause_ms"],
    "q6": [],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["desk.c", "intake.c"]
IN_PROGRAMS = ["factor"]

CAUSES = (
    "body-waits-for-ack",
    "closed-with-bytes-unread",
    "many-small-writes",
    "one-request-per-round-trip",
    "program-thinks",
)
MSS_BYTES = 1448


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    return {
        "requests": own.integer("requests", 50, 400),
        "rtt_ms": own.integer("rtt_ms", 2, 19),
        "ack_delay_ms": own.integer("ack_delay_ms", 40, 60),
        "batch": own.integer("batch", 20, 180),
        "batches": own.integer("batches", 20, 90),
        "redis_rtt_ms": own.integer("redis_rtt_ms", 11, 80),
        "header_bytes": own.integer("header", 190, 330),
        "file_bytes": own.integer("file", 3_000, 12_900),
        "capture": own.captures()[0],
        "reply_bytes": own.integer("reply", 100, 900),
        "reset_ack": own.integer("mine", 50, 800),
        "limit_bytes": own.integer("limit", 20_000, 60_000),
        "upload_bytes": own.integer("upload", 400_000, 700_000),
        "factor": own.of_course.integer("factor", 33, 97, 2),
        "customers": own.integer("customers", 4, 6),
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept two durations, the second of which is shorter, but not too short for the link."""
    given = numbers_in(submission.answers, ANSWERS["q1"], unit="ms", above=0, most=10**7)
    if isinstance(given, Verdict):
        return given
    now_ms, fixed_ms = given
    if fixed_ms < submission.numbers["requests"] * submission.numbers["rtt_ms"] / 2:
        return Verdict(0, "q1_fixed_ms: the server answers no request before it has arrived.")
    if fixed_ms >= now_ms:
        return Verdict(0, "The fixed program should be faster than this one.")
    return Verdict(1, "These are two times. What has to cross the link before the body may leave?")


def check_q2(submission: Submission) -> Verdict:
    """Accept two durations, the second of which is shorter."""
    given = numbers_in(submission.answers, ANSWERS["q2"], above=0, most=10**7)
    if isinstance(given, Verdict):
        return given
    if given[1] >= given[0]:
        return Verdict(0, "Can it take longer if the client waits for fewer round trips?")
    return Verdict(1, "These are two times. How many times does the client wait for the link?")


def check_q3(submission: Submission) -> Verdict:
    """Accept two segment sizes up to the MSS."""
    given = numbers_in(submission.answers, ANSWERS["q3"], least=1, most=MSS_BYTES, unit="bytes")
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "These are two sizes. Are all segments before them as full as they can be?")


def check_q4(submission: Submission) -> Verdict:
    """Accept any of the listed causes."""
    then = "This is one of the causes. Which of the others would have the same pauses?"
    return one_of(submission.answers["q4_cause"], CAUSES, name="q4_cause", then=then)


def check_q5(submission: Submission) -> Verdict:
    """Accept a number of segments, and a duration within the capture."""
    bounds, answers = bounds_of(submission.capture), submission.answers
    count = numbers_in(answers, ["q5_answer_segments"], least=1, most=bounds.segments)
    if isinstance(count, Verdict):
        return count
    pause = numbers_in(answers, ["q5_pause_ms"], unit="ms", above=0, most=bounds.lasts_ms)
    if isinstance(pause, Verdict):
        return pause
    return Verdict(1, "A count and a time. Are the server's bare ACKs among the segments?")


@with_packet("q8_packet")
def check_q8(submission: Submission, packet: OwnPacket) -> Verdict:
    """Send the learner's packet to a server, close without reading, and look at what it sends."""
    n = submission.numbers
    with connected(submission.lab(), SYN_1460) as (ours, server):
        server.send(bytes(n["reply_bytes"]))
        ours.hear(lambda heard: heard[-1].sent_bytes == n["reply_bytes"])
        ours.send(packet)
        ours.hear(lambda heard: heard[-1].ack > 1)
        server.close()
        heard = ours.hear(lambda heard: bool(heard[-1].flags & RST))
    if not heard or not (last := heard[-1]).flags & RST:
        return Verdict(0, "close() sent no RST. What must the program leave behind for that?")
    if last.ack != n["reset_ack"]:
        return Verdict(
            0,
            f"The RST has the ack {last.ack} instead of {n['reset_ack']}. Which of your bytes has"
            " the server's kernel accepted?",
        )
    return Verdict(1, f"close() sent an RST with the ack {last.ack}.")


def check_q6(submission: Submission) -> Verdict:
    """Compile intake.c, and send it an upload that it accepts and one that it refuses."""
    return look_at_intake(submission, limit_bytes=30_000, upload_bytes=500_000)


def check_q7(submission: Submission) -> Verdict:
    """Compile desk.c, and connect three customers, the first of whom pauses within a line."""
    return look_at_desk(submission, customers=3)


# ---- the two servers -----------------------------------------------------------------------------

PEER = str(Path(__file__).parent / "peer.py")
LIMITS = Limits(wall_s=25, cpu_s=10, processes=24)
PORT = 9000
RTT_MS, RATE_MBIT = 20, 50
#: A receive buffer grows to at most 8 MiB on these hosts, by SO_RCVBUF (Linux 6.18 grants twice
#: 4 MiB) or SO_RCVLOWAT. A longer upload can end only if the server reads it.
BUFFER_BYTES = 8 << 20
SYSCTLS = {"net.ipv4.tcp_rmem": "4096 131072 6291456"}


def _run(
    submission: Submission, name: str, arguments: list[str], play: list[str], **more: Any
) -> LabRun:
    return submission.run_in_lab(
        submission.compile(name),
        ["{port}", *arguments],
        peer=[sys.executable, PEER, play[0], "{port}", *play[1:]],
        server_port=PORT,
        lab={"rtt_ms": RTT_MS, "rate_mbit": RATE_MBIT, "sysctls": SYSCTLS},
        limits=LIMITS,
        **more,
    )


def _seed() -> int:
    """Return a random seed, so that only a program that reads the bytes can answer."""
    return secrets.randbelow(1 << 31)


# -- intake.c --


def _upload(submission: Submission, limit_bytes: int, size: int, seed: int) -> LabRun:
    return _run(submission, "intake.c", [str(limit_bytes)], ["upload", str(seed), str(size)])


@compiled("intake.c")
def look_at_intake(submission: Submission, limit_bytes: int, upload_bytes: int) -> Verdict:
    """Check that one upload is accepted, and a longer one refused at once without an RST."""
    seed = _seed()
    size = limit_bytes - secrets.randbelow(1000)
    run = _upload(submission, limit_bytes, size, seed)
    data = random.Random(seed).randbytes(size)  # the bytes that peer.py sends
    expected = f"201 {size} {checksum(data, submission.numbers['factor'])}\n"
    if (wrong := _not_told(run, expected)) is not None:
        return wrong
    size = upload_bytes + BUFFER_BYTES
    run = _upload(submission, limit_bytes, size, seed)
    if run.answered and (
        resets := int(run.server_segments.from_server[run.server_segments.is_rst].sum())
    ):
        return Verdict(
            0,
            f"{resets} packets with RST left the server. They tell a client that is still sending"
            " that the connection no longer exists. For which bytes does the kernel send a RST?",
        )
    taken = int(run.server_segments["ack"][run.server_segments.from_server].max(initial=1)) - 1
    if run.answered and taken < size:
        unfinished = (
            f"The client could not finish its upload. Your host took {taken:,} of {size:,} bytes,"
            " as many as its buffers hold. Who reads the others?"
        )
        return Verdict(0, _with_end(run, "intake", unfinished))
    if (wrong := _not_told(run, f"413 at most {limit_bytes} bytes\n")) is not None:
        return wrong
    come = _came_before_the_answer(run.server_segments)
    late = Verdict(0, f"{come:,} of {size:,} bytes had arrived before the answer left.")
    soon = Verdict(1, "The answer left before the upload was over.")
    ended = Verdict(1, "Each client got its answer, and no connection was reset.")
    return combine([(0.5, ended), (0.5, soon if come < upload_bytes / 2 else late)])


def _not_told(run: LabRun, expected: str) -> Verdict | None:
    """Return None if the client read `expected` and the server exited cleanly, else a Verdict."""
    if not run.answered:
        return never_listened(run, "intake", PORT)
    if run.peer is None:
        return Verdict(
            0,
            _with_end(run, "intake", f"The client saw no end of the connection: {run.peer_error}."),
        )
    if run.peer["error"] or run.peer["answer"] != expected:
        then = f", and then: {run.peer['error']}" if run.peer["error"] else ""
        read = f"The client read {run.peer['answer'][:80]!r} instead of {expected!r}{then}."
        return Verdict(0, _with_end(run, "intake", read))
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, 'intake')}.")
    return None


def _with_end(run: LabRun, name: str, sentence: str) -> str:
    return sentence if run.outcome.ok else f"{sentence} {how_it_ended(run, name)}."


def _came_before_the_answer(rows: SegmentArray) -> int:
    """Return how many of the client's bytes had arrived when the server's first byte left."""
    answers = rows[rows.from_server & rows.carries_data]
    data = rows[rows.from_client & rows.carries_data]
    before = data[data["time_ns"] <= answers["time_ns"][0]]
    return int((before["seq"] + before["payload_bytes"]).max()) - 1 if len(before) else 0


# -- desk.c --


@compiled("desk.c")
def look_at_desk(submission: Submission, customers: int) -> Verdict:
    """Check that other customers get answers while the first one pauses, and connections end."""
    play = ["ask", str(_seed()), str(customers), str(submission.numbers["factor"])]
    run = _run(submission, "desk.c", [str(customers)], play, connections=customers)
    if not run.answered:
        return never_listened(run, "desk", PORT)
    if run.peer is None:
        return Verdict(
            0,
            _with_end(
                run, "desk", f"The customers saw no end of the connections: {run.peer_error}."
            ),
        )
    seen, others = run.peer, customers - 1
    if seen["answered"] < others:
        few = (
            f"{_answered_meanwhile(run.server_segments)} of {others} customers were answered while"
        )
        waits = "What does your program wait for meanwhile?"
        few += f" the first was at lunch ({seen['error']}). {waits}"
        return Verdict(0, _with_end(run, "desk", few))
    if not seen["finished"]:
        return Verdict(0, "The first customer came back, finished the line, and got no answer.")
    if _answered_meanwhile(run.server_segments) < others:
        return Verdict(
            0, "On the link, the answers left only after the first customer had come back."
        )
    if seen["ended"] < customers:
        return Verdict(
            0.5,
            f"All are answered, but only {seen['ended']} of {customers} connections ended when the"
            " customer left. Which process still has a descriptor of them?",
        )
    if not run.outcome.ok:
        return Verdict(0.5, f"All are answered, but {how_it_ended(run, 'desk')}.")
    return Verdict(1, f"{others} customers were answered while the first was at lunch.")


def _answered_meanwhile(rows: SegmentArray) -> int:
    """Return how many other customers had an answer before the first one sent its second piece."""
    data = rows[rows.carries_data]
    if not len(data):
        return 0
    first = data["connection"][0]
    pieces = data[(data["connection"] == first) & data.from_client]
    if len(pieces) > 1:
        data = data[data["time_ns"] < pieces["time_ns"][1]]
    return len({*data["connection"][data.from_server].tolist()} - {first})
