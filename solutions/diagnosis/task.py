"""Problem set "diagnosis": its questions, numbers and public checks.

Learners get this file. The hidden judge also uses the `look_at_...` functions, with the
student's own parameters.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import statistics
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from tcplab.experiments.diagnosis import Backup, checksum
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import Bounds, bounds_of
from tcplab.grading.checks import (
    as_number,
    combine,
    describe,
    list_in,
    numbers_in,
    one_of,
)
from tcplab.grading.packets import SYN_1460, OwnPacket, connected, with_packet
from tcplab.grading.programs import (
    always_held,
    compiled,
    departures,
    how_it_ended,
    never_listened,
)
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission
from tcplab.models import bdp_bytes
from tcplab.segments import FROM_SERVER
from tcplab.timeline import Exchange

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_bdp_bytes", "q1_window_bytes"],
    "q2": ["q2_now_mbit", "q2_fixed_s"],
    "q3": ["q3_segments_per_s", "q3_segment_bytes"],
    "q4": ["q4_causes"],
    "q5": ["q5_held_ms", "q5_to_change"],
    "q6": ["q6_pauses_ms", "q6_ended_by"],
    "q7": [],
    "q8": [],
    "q9": [],
    "q10": ["q10_packet"],
}
FILES = ["lookup.c", "mirror.c", "journal.c"]
IN_PROGRAMS = ["factor", "stamp_step", "version"]

PROGRAMS = ("broker", "sensor", "subscriber")
CAUSES = (
    "cork-not-pulled",
    "receiver-does-not-read",
    "segment-lost",
    "small-writes-and-delayed-ack",
    "tiny-segments",
    "window-smaller-than-bdp",
)
ENDS = ("client", "server")

#: Rates in Mbit/s and round-trip times in ms, whose product is 100 to 150 kB.
_LINKS = ((40, 20), (40, 24), (40, 30), (50, 16), (50, 22), (50, 24), (60, 16), (60, 20))


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    rate_mbit, rtt_ms = own.pick("mirror_link", _LINKS)
    return {
        "rate_mbit": own.integer("rate_mbit", 100, 500),
        "rtt_ms": own.integer("rtt_ms", 15, 99),
        "rcvbuf_bytes": own.integer("rcvbuf_bytes", 8000, 48_000, 16),
        "backup_mb": own.integer("backup_mb", 100, 900),
        "line_bytes": own.integer("line_bytes", 24, 48),
        "ticker_rtt_ms": own.integer("ticker_rtt_ms", 5, 29),
        "captures": own.captures(3),
        "questions": own.integer("questions", 15, 20),
        "lines": own.integer("lines", 70, 120, 10),
        "pieces": _pieces(own),
        "factor": own.of_course.integer("factor", 33, 97, 2),
        "stamp_step": own.of_course.integer("stamp_step", 2, 99),
        "version": own.of_course.integer("version", 10, 99),
        "mirror_rate_mbit": rate_mbit,
        "mirror_rtt_ms": rtt_ms,
    }


def _pieces(own: Numbers) -> list[tuple[int, int]]:
    """Return segments as (sequence number, size). One is missing, one late, and one comes twice."""
    sizes = [own.integer(f"piece {turn}", 20, 400) for turn in range(8)]
    pieces = [(1 + sum(sizes[:turn]), size) for turn, size in enumerate(sizes)]
    late, missing = own.integer("late", 0, 1), own.integer("missing", 3, 6)
    sent = [piece for turn, piece in enumerate(pieces) if turn != missing]
    sent.insert(late + own.integer("by", 1, 2), sent.pop(late))
    sent.insert(own.integer("again", 4, 7), pieces[own.integer("twice", 0, 2)])
    return sent


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def _bounds(submission: Submission) -> list[Bounds]:
    return [bounds_of(capture) for capture in submission.captures]


def _each_is_one_of(
    submission: Submission, name: str, options: tuple[str, ...], then: str
) -> Verdict:
    """Accept a list with one of the options for each capture."""
    given = list_in(
        submission.answers[name], len(submission.numbers["captures"]), name=name, of="words"
    )
    if isinstance(given, Verdict):
        return given
    verdicts = [
        one_of(answer, options, name=f"{name}[{i}]", then=then) for i, answer in enumerate(given)
    ]
    return next((verdict for verdict in verdicts if not verdict.passed), verdicts[0])


def check_q1(submission: Submission) -> Verdict:
    """Accept a BDP of at least 1000 bytes, and a window smaller than the granted buffer."""
    given = numbers_in(submission.answers, ANSWERS["q1"], unit="bytes")
    if isinstance(given, Verdict):
        return given
    bdp, window = given
    if bdp < 1000:
        return Verdict(0, "q1_bdp_bytes: give bytes. How many bits per second is a Mbit/s?")
    if not 0 < window < 2 * submission.numbers["rcvbuf_bytes"]:
        return Verdict(0, "q1_window_bytes: a window is a part of the granted buffer.")
    return Verdict(1, "These are two sizes. Which of them limits the transfer?")


def check_q2(submission: Submission) -> Verdict:
    """Accept a rate and a duration that the link allows, if the fixed program is not slower."""
    given = numbers_in(submission.answers, ANSWERS["q2"])
    if isinstance(given, Verdict):
        return given
    now_mbit, fixed_s = given
    if not 0 < now_mbit <= submission.numbers["rate_mbit"]:
        return Verdict(0, "q2_now_mbit: no transfer is faster than its link.")
    if fixed_s < submission.numbers["backup_mb"] * 8 / submission.numbers["rate_mbit"]:
        return Verdict(0, "q2_fixed_s: in this time the link can't carry even the data alone.")
    if fixed_s > submission.numbers["backup_mb"] * 8 / now_mbit:
        return Verdict(0, "The fixed program should be faster than this one.")
    return Verdict(1, "Possible on this link. Have you counted everything that a packet carries?")


def check_q3(submission: Submission) -> Verdict:
    """Accept a rate, and a size up to the MSS, whose product is close to the rate of the writes."""
    given = numbers_in(submission.answers, ANSWERS["q3"])
    if isinstance(given, Verdict):
        return given
    if not all(answer > 0 for answer in given):
        return Verdict(0, "Both numbers must be larger than 0.")
    if given[1] > 1448:
        return Verdict(0, "q3_segment_bytes: no segment here carries more than 1448 bytes.")
    per_s = 1000 * submission.numbers["line_bytes"]
    if not 0.5 < given[0] * given[1] / per_s < 2:
        return Verdict(
            0,
            f"{given[0]:g} segments per second of {given[1]:g} bytes are {given[0] * given[1]:,.0f}"
            f" bytes per second; the program writes {per_s:,}. Where is the difference?",
        )
    return Verdict(1, "Everything that is written is sent. Which event releases each segment?")


def check_q4(submission: Submission) -> Verdict:
    """Accept a list of three causes."""
    then = "These are three causes. Which sign of the decision table does each capture show?"
    return _each_is_one_of(submission, "q4_causes", CAUSES, then)


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the printed capture, and one of the three programs."""
    given = numbers_in(submission.answers, ["q5_held_ms"], unit="ms", above=0, most=900)
    if isinstance(given, Verdict):
        return given
    then = "This is a time and a program. What lets each of the broker's segments leave?"
    return one_of(submission.answers["q5_to_change"], PROGRAMS, name="q5_to_change", then=then)


def check_q6(submission: Submission) -> Verdict:
    """Accept a list of three durations, and a list of the three sides that ended the pauses."""
    name, length = "q6_pauses_ms", len(submission.numbers["captures"])
    pauses = list_in(submission.answers[name], length, name=name, of="times in ms")
    if isinstance(pauses, Verdict):
        return pauses
    for pause, bounds in zip(pauses, _bounds(submission), strict=True):
        if not 0 < (as_number(pause) or 0) <= bounds.lasts_ms:
            return Verdict(
                0, f"q6_pauses_ms: {describe(pause)} is no time in ms that fits into the capture."
            )
    then = "These are times and ends. What had the end that ended the pause been waiting for?"
    return _each_is_one_of(submission, "q6_ended_by", ENDS, then)


@with_packet("q10_packet")
def check_q10(submission: Submission, packet: OwnPacket) -> Verdict:
    """Send the segments to a server and then the learner's packet, and count what can be read."""
    pieces = submission.numbers["pieces"]
    end = max(first + size for first, size in pieces)
    missing = end - 1 - sum(size for _first, size in set(pieces))
    with connected(submission.lab(), SYN_1460) as (ours, server):
        for first, size in pieces:
            ours.send(OwnPacket(seq=first, ack=1, data=bytes(size)))
        ours.send(packet)
        ours.hear(lambda heard: heard[-1].ack == end)
        server.setblocking(False)
        readable = len(server.recv(end))
    if readable < end - 1:
        return Verdict(
            0,
            f"After your packet, the program can read {readable} bytes. Which is the first byte"
            " that has not arrived?",
        )
    if len(packet.data) > missing:
        return Verdict(
            0, f"The program can read everything, but only {missing} bytes were missing."
        )
    return Verdict(1, f"Your {missing} bytes let the program read all {readable}.")


def check_q7(submission: Submission) -> Verdict:
    """Compile lookup.c and let it ask 14 questions over a link with a 40 ms RTT."""
    return look_at_lookup(submission, questions=14)


def check_q8(submission: Submission) -> Verdict:
    """Compile mirror.c and send it 2 MB over a link that holds 125 kB."""
    return look_at_mirror(submission, rate_mbit=50, rtt_ms=20)


def check_q9(submission: Submission) -> Verdict:
    """Compile journal.c and let it send 100 lines."""
    return look_at_journal(submission, lines=100)


# ---- the three programs --------------------------------------------------------------------------

PEER = str(Path(__file__).parent / "peer.py")
LIMITS = Limits(wall_s=15, cpu_s=10, processes=8)
SERVER = "10.0.0.2"
PORT = 9000

QUESTION_BYTES, ANSWER_BYTES, QUESTION_RTT_MS = 35, 2, 40
MIRROR_BYTES = 2_000_000
#: The lines that wait for an ACK in this time fit into one segment, so that none of them is cut.
JOURNAL_RTT_MS = 25


def question_bytes(questions: int, version: int) -> bytes:
    """Return all bytes that the learner's lookup program has to send."""
    return b"".join(
        b"lookup %012d\r\nversion %d\r\n\r\n" % (number, version) for number in range(questions)
    )


def journal_lines(lines: int, step: int) -> list[bytes]:
    """Return the lines that the learner's journal program has to send."""
    levels = (b"info", b"warning", b"error")
    return [
        b"%08d %s: one more of the same\n" % (number * step, levels[number % 3])
        for number in range(lines)
    ]


def _recorded(run: LabRun) -> Exchange[None]:
    """Return the run as an Exchange, for the functions of tcplab.experiments."""
    return Exchange(None, None, run.client_segments, None, run.server_segments)


def _not_the_bytes(run: LabRun, name: str, expected: bytes) -> Verdict | None:
    """Return None if the program exited cleanly and its peer got `expected`, else a Verdict."""
    if not run.outcome.ok:
        return Verdict(0, f"{how_it_ended(run, name)}.")
    if run.peer is None:
        return Verdict(0, f"The other end did not get the expected bytes: {run.peer_error}.")
    if run.peer["sha256"] != hashlib.sha256(expected).hexdigest():
        return Verdict(
            0,
            f"{run.peer['bytes']} bytes arrived, {len(expected)} were expected, and they differ."
            " The bytes of the stream must not change.",
        )
    return None


# -- lookup.c --


@compiled("lookup.c")
def look_at_lookup(
    submission: Submission, questions: int, rtt_ms: float = QUESTION_RTT_MS
) -> Verdict:
    """Check that each question is one segment, sent at once but not before the previous answer."""
    run = submission.run_in_lab(
        submission.compile("lookup.c"),
        [SERVER, "{port}", str(questions)],
        peer=[sys.executable, PEER, "answer"],
        lab={"rtt_ms": rtt_ms},
        limits=LIMITS,
    )
    wrong = _not_the_bytes(run, "lookup", question_bytes(questions, submission.numbers["version"]))
    if wrong is not None:
        return wrong
    if _asks_too_early(run):
        return Verdict(
            0,
            "A question left before the answer to the previous question had arrived. The protocol"
            " allows one question at a time, and that must not change.",
        )
    sent = departures(run)
    if len(sent) > 1.1 * questions:
        held = sum(
            not segment.is_ahead and segment.start_bytes % QUESTION_BYTES > 0 for segment in sent
        )
        if held > questions / 4:
            return Verdict(
                0,
                f"Your program sent {len(sent)} segments for {questions} questions, and {held}"
                " times the rest of a question left only after the server had acknowledged its"
                " beginning.",
            )
        return Verdict(
            0.5,
            f"Nothing waits for an ACK any more, but {questions} questions leave in {len(sent)}"
            " segments. How can the kernel know that the beginning is only a part?",
        )
    if _lies_about(run):
        return Verdict(
            0.25,
            "There is one segment per question, but each left long after the previous"
            " answer, although nothing was in flight. What still holds it, and until"
            " when?",
        )
    return Verdict(1, f"{questions} questions left at once, in {len(sent)} segments.")


def _asks_too_early(run: LabRun) -> bool:
    rows = run.client_segments
    sent = answered = 0
    for row in rows.data(retransmissions=False):
        if row["direction"] == FROM_SERVER:
            answered += int(row["payload_bytes"])
        else:
            sent += int(row["payload_bytes"])
            if sent > QUESTION_BYTES * (answered // ANSWER_BYTES + 1):
                return True
    return False


def _lies_about(run: LabRun) -> bool:
    """Return whether the pauses before questions are long relative to the quickest answer."""
    rows = run.client_segments
    answers: list[int] = []
    pauses: list[int] = []
    last = None
    for row in rows.data(retransmissions=False):
        if last is not None and row["direction"] != last["direction"]:
            took_ns = int(row["time_ns"]) - int(last["time_ns"])
            (answers if row["direction"] == FROM_SERVER else pauses).append(took_ns)
        last = row
    return bool(answers and pauses) and 4 * statistics.median(pauses) > min(answers)


# -- mirror.c --


@compiled("mirror.c")
def look_at_mirror(submission: Submission, rate_mbit: float, rtt_ms: float) -> Verdict:
    """Check that every byte is read, and that the window is at least what the link holds."""
    seed = secrets.randbelow(
        1 << 31
    )  # random, so that only a program that reads the bytes can compute their sum
    run = submission.run_in_lab(
        submission.compile("mirror.c"),
        ["{port}"],
        peer=[sys.executable, PEER, "send", "{port}", str(seed), str(MIRROR_BYTES)],
        server_port=PORT,
        lab={"rtt_ms": rtt_ms, "rate_mbit": rate_mbit},
        limits=LIMITS,
    )
    if not run.answered:
        return never_listened(run, "mirror", PORT)
    data = random.Random(seed).randbytes(MIRROR_BYTES)  # the bytes that peer.py sends
    wrong = _not_the_bytes(run, "mirror", data)
    if wrong is not None:
        return wrong
    reported = _last_json(run.outcome.output)
    if reported.get("bytes") != len(data) or reported.get("checksum") != checksum(
        data, submission.numbers["factor"]
    ):
        return Verdict(
            0,
            f"mirror reports {describe(reported.get('bytes'))} bytes and the checksum"
            f" {describe(reported.get('checksum'))}, which is not what was sent. The program has to"
            " read every byte and add it to the sum.",
        )
    seen = Backup("mirror.c", {}, {}, _recorded(run), {})
    window, wire_holds = seen.window_bytes, bdp_bytes(rate_mbit, rtt_ms)
    if window < wire_holds:
        return Verdict(
            0,
            f"The receiver offers a window of {window:,.0f} bytes, but the link holds"
            f" {wire_holds:,.0f}. The transfer took {seen.round_trips} round trips, and the sender"
            " had to stop in each of them.",
        )
    return Verdict(1, "The window is larger than what the link holds, so the link is the limit.")


def _last_json(output: bytes) -> Mapping[str, Any]:
    try:
        reported = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        return {}
    return reported if isinstance(reported, dict) else {}


# -- journal.c --


@compiled("journal.c")
def look_at_journal(submission: Submission, lines: int) -> Verdict:
    """Check that each segment ends where a line ends, and that no line waits.

    No ACK releases any of the first lines.
    """
    start = partial(
        submission.run_in_lab,
        submission.compile("journal.c"),
        [SERVER, "{port}", str(lines)],
        peer=[sys.executable, PEER, "read"],
        lab={"rtt_ms": JOURNAL_RTT_MS, "initial_window": 4 * lines},
        limits=LIMITS,
    )
    run = start()
    expected = journal_lines(lines, submission.numbers["stamp_step"])
    wrong = _not_the_bytes(run, "journal", b"".join(expected))
    if wrong is not None:
        return wrong
    ends = set(accumulate(map(len, expected)))
    sent = departures(run)
    torn = sum(segment.end_bytes not in ends for segment in sent)
    if torn:
        return Verdict(
            0,
            f"Your program sent {len(sent)} segments for {lines} lines, and {torn} of them end in"
            " the middle of a line. It gave pieces to TCP.",
        )
    whole = Verdict(1, "Every segment ends where a line ends.")
    return combine([(0.5, whole), (0.5, _look_at_waiting(run, start, ends))])


def _look_at_waiting(run: LabRun, again: Callable[[], LabRun], ends: set[int]) -> Verdict:
    """Check that lines leave before earlier ones are acknowledged, and before the next."""
    sent = departures(run)
    ahead = sum(segment.is_ahead for segment in sent)
    if always_held(run, again, ends):
        return Verdict(
            0,
            f"In {len(sent)} segments for {len(ends)} lines, lines wait for each other. What holds"
            " them?",
        )
    if 2 * ahead < len(sent) - 1:
        return Verdict(
            0,
            f"Only {ahead} of {len(sent)} segments left before the ACK of the earlier data. The"
            " others were held until it came.",
        )
    return Verdict(1, "No line waited for another.")
