"""Problem set 1, throughput and copies: what is asked, each student's numbers, public checks.

Learners get this file. The hidden judge uses `look_at_halfcat` too, with other parameters.
"""

from __future__ import annotations

import hashlib
import random
import secrets
import sys
from pathlib import Path
from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import Bounds, bounds_of
from tcplab.grading.checks import combine, counts_in, numbers_in, one_of
from tcplab.grading.programs import compiled, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission

#: question -> the notebook's variables
ANSWERS = {
    "q1": ["q1_mb_per_s", "q1_mib_per_s"],
    "q2": ["q2_copies"],
    "q3": ["q3_copy_s_per_gb", "q3_splice_s_per_gb"],
    "q4": ["q4_file_bytes"],
    "q5": ["q5_stall_ms", "q5_reason"],
    "q6": ["q6_bytes_after_fin"],
    "q7": [],
}
FILES = ["halfcat.c"]

REASONS = ("receiver-full", "segment-lost", "sender-idle")
CHAINS = (
    "dd if=/dev/zero | nc  →  nc > /dev/null",
    "dd if=film | nc  →  nc > copy",
    "nc < film  →  nc > /dev/null",
    "netcat --splice < film  →  nc > /dev/null",
    "nc < film  →  nc > copy",
    "dd if=/dev/zero | nc  →  nc | dd of=/dev/null",
    "netcat --splice < film  →  nc > copy",
    "nc < film  →  nc | dd of=/dev/null",
)


def numbers(own: Numbers) -> dict[str, Any]:
    """The student's own numbers."""
    chains = list(CHAINS)
    return {
        "rate_mbit": own.integer("rate_mbit", 100, 990),
        "mtu_bytes": own.integer("mtu_bytes", 1200, 1490),
        "chains": [
            chains.pop(own.integer(f"chain {turn}", 0, len(chains) - 1)) for turn in range(4)
        ],
        "dd_netcat_s_per_gb": own.integer("dd_netcat", 440, 549) / 1000,
        "netcat_file_s_per_gb": own.integer("netcat_file", 330, 399) / 1000,
        "capture": own.captures()[0],
        "file_bytes": own.integer("file_bytes", 70_000, 90_000, 7),
        "answer_bytes": own.integer("answer_bytes", 150_000, 250_000, 11),
        "echo_bytes": own.integer("echo_bytes", 3_000_000, 3_200_000, 1009),
    }


# ---- public checks: is it an answer at all, and is it of the right kind? -------------------------


def _bounds(submission: Submission) -> Bounds:
    return bounds_of(submission.folder / submission.numbers["capture"])


def check_q1(submission: Submission) -> Verdict:
    """Both are rates, the wire is not exceeded, and the units are told apart."""
    given = numbers_in(submission.answers, ANSWERS["q1"])
    if isinstance(given, Verdict):
        return given
    mb, mib = given
    if mb >= submission.numbers["rate_mbit"] / 8:
        return Verdict(0, "That is as much as the wire carries in all. Where are the headers?")
    if not 0 < mib < mb:
        return Verdict(0, "A MiB is larger than a MB. Which of the two numbers is then larger?")
    return Verdict(1, "Plausible rates. Have you counted all that is around the data?")


def check_q2(submission: Submission) -> Verdict:
    """A list with a number for each chain."""
    given = counts_in(
        submission.answers["q2_copies"], len(submission.numbers["chains"]), name="q2_copies"
    )
    if isinstance(given, Verdict):
        return given
    if max(given) > 12:
        return Verdict(0, "q2_copies: so many copies has none of these chains.")
    if min(given) == 0:
        return Verdict(
            0, "Zero copies? Each of these chains has an nc at its end. What does it do?"
        )
    return Verdict(1, "A number for each chain. Go through the reads and writes of each once more.")


def check_q3(submission: Submission) -> Verdict:
    """Both are CPU times, and what saves copies saves time."""
    given = numbers_in(submission.answers, ANSWERS["q3"], unit="CPU seconds for a GB")
    if isinstance(given, Verdict):
        return given
    copy_s, splice_s = given
    if not 0 < copy_s < submission.numbers["netcat_file_s_per_gb"]:
        return Verdict(0, "q3_copy_s_per_gb: one copy alone cannot cost as much as a whole chain.")
    if not 0 < splice_s < submission.numbers["netcat_file_s_per_gb"]:
        return Verdict(0, "q3_splice_s_per_gb: with fewer copies it should cost less CPU time.")
    return Verdict(1, "Plausible. Check it: do your price and rest give both measured numbers?")


def check_q4(submission: Submission) -> Verdict:
    """A whole number, and no more than was sent."""
    most = _bounds(submission).payload_bytes
    given = numbers_in(submission.answers, ANSWERS["q4"], least=1, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "A number of bytes. Does it count each of them once?")


def check_q5(submission: Submission) -> Verdict:
    """A time and one of the reasons."""
    most = _bounds(submission).lasts_ms
    stall = numbers_in(submission.answers, ["q5_stall_ms"], unit="ms", above=0, most=most)
    if isinstance(stall, Verdict):
        return stall
    then = "A time and a reason. What in the capture speaks against the other two?"
    return one_of(submission.answers["q5_reason"], REASONS, name="q5_reason", then=then)


def check_q6(submission: Submission) -> Verdict:
    """A whole number, and no more than was sent."""
    most = _bounds(submission).payload_bytes
    given = numbers_in(submission.answers, ANSWERS["q6"], least=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "A number of bytes. Which segment is the client's FIN?")


def check_q7(submission: Submission) -> Verdict:
    """Compiles halfcat.c and runs it against both servers."""
    return look_at_halfcat(
        submission, file_bytes=75_001, answer_bytes=160_001, echo_bytes=3_000_001
    )


# ---- halfcat.c -----------------------------------------------------------------------------------

PEER = Path(__file__).parent / "peer.py"


def made_bytes(seed: int, size: int) -> bytes:
    """As in peer.py: always the same for a seed."""
    return random.Random(seed).randbytes(size)


@compiled("halfcat.c")
def look_at_halfcat(
    submission: Submission, file_bytes: int, answer_bytes: int, echo_bytes: int
) -> Verdict:
    """First a server that answers when it has read everything, then one that echoes."""
    whole = _look_at_answer(submission, file_bytes, answer_bytes)
    if not whole.passed:
        return combine([(0.6, whole), (0.4, Verdict(0, ""))])
    return combine([(0.6, whole), (0.4, _look_at_echo(submission, echo_bytes))])


def _run(submission: Submission, file: bytes, mode: list[str]) -> LabRun:
    return submission.run_in_lab(
        submission.compile("halfcat.c"),
        ["10.0.0.2", "{port}", "data"],
        peer=[sys.executable, str(PEER), *mode],
        lab={"rtt_ms": 10},
        files={"data": file},
        limits=Limits(wall_s=12, cpu_s=12, processes=16, output_bytes=8 << 20),
    )


def _look_at_answer(submission: Submission, file_bytes: int, answer_bytes: int) -> Verdict:
    seed = secrets.randbelow(1 << 31)  # so that only who reads the answer knows it
    file, answer = made_bytes(file_bytes, file_bytes), made_bytes(seed, answer_bytes)
    run = _run(submission, file, ["answer", str(seed), str(answer_bytes)])
    seen = run.peer
    if seen is None:
        return _nobody_came(run)
    if seen["error"] == "timeout" and not seen["saw_end"]:
        return Verdict(
            0,
            f"The server has {seen['received_bytes']} of {file_bytes} bytes and waited 5 s for"
            " more, or for your end, before it gave up. How does a peer learn that no more comes?",
        )
    if seen["sha256"] != hashlib.sha256(file).hexdigest():
        if seen["received_bytes"] < file_bytes and _client_reset(run):
            return Verdict(
                0,
                f"The server read {seen['received_bytes']} of {file_bytes} bytes, then a RST from"
                " your host ended both directions: a socket was closed while bytes of the server"
                " lay in it unread. Who reads what the server says, and how long?",
            )
        return Verdict(
            0,
            f"The server read {seen['received_bytes']} bytes, and they are not the {file_bytes} of"
            " the file. Does each write send what was read, no less and no more?",
        )
    if (told := _compare(run, answer, "The server's answer")) is not None:
        return told
    if not run.outcome.ok:
        return Verdict(0, f"All bytes came, but {how_it_ended(run, 'halfcat')}.")
    return Verdict(1, "The file and the whole answer arrived, though the answer came last.")


def _look_at_echo(submission: Submission, echo_bytes: int) -> Verdict:
    file = made_bytes(echo_bytes, echo_bytes)
    run = _run(submission, file, ["echo"])
    seen = run.peer
    if seen is None:
        return _nobody_came(run)
    if not seen["saw_end"]:
        return Verdict(
            0,
            f"A server that echoes everything took {seen['received_bytes']} of {echo_bytes} bytes,"
            " then both sides stood still: it could not send, since nobody read. Who should have"
            " been reading while halfcat was sending?",
        )
    if (told := _compare(run, file, "The echo")) is not None:
        return told
    if not run.outcome.ok:
        return Verdict(0, f"The whole echo came, but {how_it_ended(run, 'halfcat')}.")
    return Verdict(1, "An echo of some MB came back whole: both directions flow at a time.")


def _nobody_came(run: LabRun) -> Verdict:
    return Verdict(0, f"The server saw no connection, and {how_it_ended(run, 'halfcat')}.")


def _client_reset(run: LabRun) -> bool:
    """Whether the learner's host sent a RST."""
    return bool(run.client_segments.sent_by("client").is_rst.any())


def _compare(run: LabRun, expected: bytes, what: str) -> Verdict | None:
    """None when standard output is what it should be."""
    output = run.outcome.output
    if output == expected:
        return None
    same = next(
        (i for i, pair in enumerate(zip(output, expected, strict=False)) if pair[0] != pair[1]),
        min(len(output), len(expected)),
    )
    if same < min(len(output), len(expected)):
        why = "From there on they differ: is what is written exactly what was read?"
    elif len(output) > len(expected):
        why = "And then there are more: does each write end where the read did?"
    elif _client_reset(run):
        why = (
            "The rest came to a host that answered it with RST: nobody had the socket open for"
            " reading any more. Who closed it, and what is there to close one direction only?"
        )
    else:
        why = "The rest was not waited for. What tells halfcat that the peer has said everything?"
    return Verdict(
        0,
        f"{what} has {len(expected)} bytes; on halfcat's standard output there are {len(output)},"
        f" of which the first {same} are right. {why}",
    )
