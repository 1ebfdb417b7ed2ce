"""Problem set "slow-start" (the congestion window): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_window`, with losses drawn at grading.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcplab.errors import LabError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, numbers_in, one_of
from tcplab.grading.packets import NO_PROBES, SYN, OwnPacket, connected, with_packet
from tcplab.grading.programs import compiled, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_last_segments", "q1_took_ms"],
    "q2": ["q2_first_segments", "q2_more_ms"],
    "q3": ["q3_rate_mbit", "q3_loss_percent"],
    "q4": ["q4_again_segments", "q4_gap_segments"],
    "q5": ["q5_wait_ms"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["window.c"]
IN_PROGRAMS = ["piece_bytes"]

REASONS = ("loss-probe", "sack", "timeout")
MSS_BYTES = 1448
#: The initial window of RFC 6928.
INITIAL_WINDOW_SEGMENTS = 10


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    idle_rto_ms = own.integer("idle_rto", 220, 420)
    timeouts = own.integer("idle timeouts", 1, 4)
    lost_first = own.integer("lost_first", 2, 4)
    return {
        "page_bytes": own.integer("page", 402_000, 630_000, 13),
        "page_window_segments": own.integer("page window", 44, 76),
        "page_rtt_ms": own.integer("page rtt", 23, 148),
        "idle_window_segments": own.integer("idle window", 90, 390),
        "idle_rto_ms": idle_rto_ms,
        "idle_pause_ms": idle_rto_ms * timeouts + own.integer("idle rest", 40, 180),
        "idle_rtt_ms": own.integer("idle rtt", 17, 95),
        "path_rtt_ms": own.integer("path rtt", 12, 180),
        "path_loss_percent": own.integer("path loss", 20, 300) / 100,
        "goal_mbit": own.integer("goal rate", 8, 90),
        "goal_rtt_ms": own.integer("goal rtt", 12, 120),
        "my_mss_bytes": own.integer("my_mss", 300, 490),
        "lost_first": lost_first,
        "lost_segments": own.integer("lost segments", 2, 7 - lost_first),
        "piece_bytes": own.of_course.integer("piece_bytes", 400, 600),
        "capture": own.captures()[0],
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept a number of segments within the page, and a duration of at least a round trip."""
    n = submission.numbers
    given = numbers_in(submission.answers, ANSWERS["q1"], above=0, most=n["page_bytes"])
    if isinstance(given, Verdict):
        return given
    last, took_ms = given
    if last != int(last) or last * MSS_BYTES > n["page_bytes"]:
        return Verdict(0, "q1_last_segments must be a whole number, and no more than the page has.")
    if took_ms < n["page_rtt_ms"]:
        return Verdict(0, "q1_took_ms: no ACK can arrive before a round trip is over.")
    return Verdict(
        1, "These numbers are possible. Which of the two windows is smaller in each flight?"
    )


def check_q2(submission: Submission) -> Verdict:
    """Accept a number of segments up to the window before the pause, and a duration."""
    n = submission.numbers
    most = n["idle_window_segments"] * max(1, n["idle_rtt_ms"])
    given = numbers_in(submission.answers, ANSWERS["q2"], most=most)
    if isinstance(given, Verdict):
        return given
    first, more_ms = given
    if first != int(first) or not 1 <= first <= n["idle_window_segments"]:
        return Verdict(
            0, "q2_first_segments must be a whole number, and no window grows during a pause."
        )
    if more_ms < 0:
        return Verdict(0, "q2_more_ms: can a smaller window be faster?")
    return Verdict(1, "These numbers are possible. How many whole timeouts fit into the pause?")


def check_q3(submission: Submission) -> Verdict:
    """Accept a positive rate, and a percentage."""
    given = numbers_in(submission.answers, ANSWERS["q3"], above=0, most=100_000)
    if isinstance(given, Verdict):
        return given
    if given[1] > 100:
        return Verdict(0, "q3_loss_percent: it is not possible to lose more than all packets.")
    return Verdict(1, "Possible. Are the units bits and seconds, and is the loss a percentage?")


def check_q4(submission: Submission) -> Verdict:
    """Accept two numbers of segments."""
    most = bounds_of(submission.capture).segments
    given = numbers_in(submission.answers, ANSWERS["q4"], least=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(
        1, "These are two counts. Which segments of the client carry a number that came before?"
    )


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the capture."""
    most = bounds_of(submission.capture).lasts_ms
    given = numbers_in(submission.answers, ANSWERS["q5"], unit="ms", above=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a time. Is it from the first copy of that segment to its last one?")


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed reasons."""
    then = (
        "This is one of the reasons. What did the client receive between the two copies, and when?"
    )
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


@with_packet("q8_packet")
def check_q8(submission: Submission, packet: OwnPacket) -> Verdict:
    """Send the learner's ACK to a server with ten segments in flight, and see what it repeats."""
    first = submission.numbers["lost_first"] - 1
    wanted = set(range(first, first + submission.numbers["lost_segments"]))
    # On a busy machine, the server's timer may end before the ACK comes. A timer repeats only the
    # first segment that is not confirmed.
    for _ in range(5):
        again = _repeated(submission, packet, wanted)
        if again == wanted:
            return Verdict(1, f"After your packet, the server repeated the {len(wanted)} segments.")
        if not again <= {0, first}:
            break
    if 0 in again and packet.ack > 1:
        raise LabError("the server repeated its first segment before your ACK came; check again")
    numbers = ", ".join(str(index + 1) for index in sorted(again)) or "none"
    return Verdict(
        0,
        f"After your packet, the server repeated these segments: {numbers}. Which number is the"
        " first that is missing, and which bytes does the block report?",
    )


def _repeated(submission: Submission, packet: OwnPacket, wanted: set[int]) -> set[int]:
    """Send the packet to a server with ten segments in flight; return those it then repeats."""
    mss = submission.numbers["my_mss_bytes"]
    syn = OwnPacket(flags=SYN, options=struct.pack(">BBHBBBB", 2, 4, mss, 1, 1, 4, 2))
    with connected(submission.lab(sysctls=NO_PROBES), syn) as (ours, server):
        server.send(bytes(INITIAL_WINDOW_SEGMENTS * mss))
        ours.hear(lambda heard: heard[-1].sent_bytes == INITIAL_WINDOW_SEGMENTS * mss)
        ours.send(packet)
        heard = ours.hear_all(lambda heard: wanted <= {one.seq // mss for one in heard})
    return {one.seq // mss for one in heard}


def check_q7(submission: Submission) -> Verdict:
    """Compile window.c and let it send 182 pieces over a network with fixed losses."""
    return look_at_window(
        submission, Losses(pieces=182, lost=(1, 4), acks_lost=(3, 7), dark=6, late=3, seed=9)
    )


# ---- window.c ------------------------------------------------------------------------------------

PEER = str(Path(__file__).parent / "peer.py")
#: Sizes of the flights of a doubling window, up to the flight in which packets are lost.
DOUBLING = (10, 20, 40)
#: Bounds of the window after a loss, as shares of the window before it. The halved window may have
#: grown since, so half of the old window plus GROWTH packets is also accepted.
HALF, GROWTH = (0.35, 0.7), 2
_TOO_FEW = "With flights of {shown} packets, the file ends too soon to judge this."


@dataclass(frozen=True)
class Losses:
    """A file, and the packets and ACKs that the network loses or delays."""

    pieces: int  #: number of pieces of the file, the last of which is not full
    lost: tuple[int, ...]  #: packets of that flight that are lost
    acks_lost: tuple[int, ...]  #: packets of the flight before it whose ACK is lost
    dark: int  #: number of a flight that is lost completely
    late: int  #: packet of the first flight that the next packet overtakes
    seed: int  #: seed of the file
    flight: int = 2  #: number of the flight in which packets are lost

    def file(self, piece_bytes: int) -> bytes:
        """Return the bytes to send."""
        rng = random.Random(self.seed)
        return rng.randbytes(self.pieces * piece_bytes - rng.randrange(1, piece_bytes))

    @classmethod
    def drawn(cls, rng: random.Random) -> Losses:
        """Return a random file with random losses."""
        return cls(
            pieces=rng.randrange(176, 192),
            lost=tuple(sorted(rng.sample(range(5), rng.randrange(2, 4)))),
            # Neighbours would leave a sender that takes a late packet for lost with so few packets
            # in the third flight that it seems to break other rules, too.
            acks_lost=(rng.randrange(3, 6), rng.randrange(7, 9)),
            dark=rng.randrange(6, 8),
            late=rng.randrange(2, 7),
            seed=rng.randrange(1 << 31),
        )


def send_file(submission: Submission, losses: Losses, file: bytes) -> LabRun:
    """Run the learner's program against peer.py."""

    def places(flight: int, packets: tuple[int, ...]) -> str:
        return ",".join(f"{flight}.{packet}" for packet in packets)

    lost, acks_lost = (losses.flight, losses.lost), (losses.flight - 1, losses.acks_lost)
    arguments = [str(losses.pieces), places(*lost), places(*acks_lost)]
    arguments += [str(losses.dark), places(0, (losses.late,))]
    return submission.run_in_lab(
        submission.compile("window.c"),
        ["10.0.0.2", "{port}", "file"],
        peer=[sys.executable, PEER, *arguments],
        lab={"rtt_ms": 2},
        files={"file": file},
        limits=Limits(wall_s=20, cpu_s=6, processes=8),
    )


@compiled("window.c")
def look_at_window(submission: Submission, losses: Losses) -> Verdict:
    """Check that every byte arrived, and then how many packets each flight had.

    A busy machine may cut a flight in two, so a run with partial credit is repeated once. A program
    with full credit gets a shorter file with an earlier loss, which no table of flights fits.
    """
    first = _look_at_one_run(submission, losses)
    if first.passed:
        earlier = replace(losses, pieces=60, flight=1)
        tried = (_halving_in_one_run(submission, earlier) for _ in range(2))
        halved = next((verdict for verdict in tried if verdict.passed), None)
        wrong = Verdict(0, "But a loss in an earlier flight does not halve the window.")
        return combine([(0.7, first), (0.3, halved or wrong)])
    if not first.share:
        return first
    second = _look_at_one_run(submission, losses)
    return second if (second.share or 0) > (first.share or 0) else first


def _look_at_one_run(submission: Submission, losses: Losses) -> Verdict:
    file = losses.file(submission.numbers["piece_bytes"])
    run = send_file(submission, losses, file)
    if run.peer is None:
        return Verdict(0, f"The receiver sent no report, and {how_it_ended(run, 'window')}.")
    sizes = [len(flight) for flight in run.peer["flights"]]
    if not run.peer["complete"]:
        return Verdict(
            0,
            f"Not every piece arrived within {len(sizes)} flights of {_list(sizes)} packets, and"
            f" {how_it_ended(run, 'window')}. Nothing else counts until every byte arrives.",
        )
    if run.peer["sha256"] != hashlib.sha256(file).hexdigest():
        return Verdict(0, "All numbers arrived, but the data after them is not the file.")
    if not run.outcome.ok:
        return Verdict(0, f"Everything arrived, but {how_it_ended(run, 'window')}.")
    return combine(
        [
            (0.2, Verdict(1, "Every byte arrived.")),
            (0.2, _look_at_the_doubling(sizes)),
            (0.2, _look_at_the_halving(sizes, losses)),
            (0.1, _look_at_the_growth(sizes)),
            (0.15, _look_at_the_timeout(sizes, losses)),
            (0.15, _look_at_the_copies(run.peer["again"], sizes, losses)),
        ]
    )


def _halving_in_one_run(submission: Submission, losses: Losses) -> Verdict:
    """Check only the flights before and after the loss."""
    run = send_file(submission, losses, losses.file(submission.numbers["piece_bytes"]))
    sizes = [len(flight) for flight in run.peer["flights"]] if run.peer else []
    return _look_at_the_halving(sizes, losses)


def _list(sizes: list[int]) -> str:
    shown = ", ".join(map(str, sizes[:12]))
    return shown + (", …" if len(sizes) > 12 else "")


def _look_at_the_doubling(sizes: list[int]) -> Verdict:
    if sizes[: len(DOUBLING)] == list(DOUBLING):
        return Verdict(1, "The window begins with ten and doubles.")
    return Verdict(
        0,
        f"The first flights have {_list(sizes[:4])} packets. With how many does the window begin,"
        " how much does it grow when an ACK covers two packets, and is a packet lost that arrives"
        " just after the next packet?",
    )


def _look_at_the_halving(sizes: list[int], losses: Losses) -> Verdict:
    if len(sizes) <= losses.flight + 1:
        return Verdict(0, _TOO_FEW.format(shown=_list(sizes)))
    before, after = sizes[losses.flight : losses.flight + 2]
    if HALF[0] * before <= after <= max(HALF[1] * before, before / 2 + GROWTH):
        return Verdict(1, "A loss halves the window.")
    return Verdict(
        0,
        f"Packets of a flight of {before} were lost, and the next flight has {after}. By how much"
        " does the window shrink, and how many times per flight?",
    )


def _look_at_the_growth(sizes: list[int]) -> Verdict:
    after = sizes[len(DOUBLING) : len(DOUBLING) + 3]
    steps = [late - early for early, late in itertools.pairwise(after)]
    if len(after) == 3 and max(steps) <= 4 and 1 <= sum(steps) <= 8:
        return Verdict(1, "After slow start, the window grows by one per round trip.")
    return Verdict(
        0,
        f"After the loss the flights have {_list(after)} packets. How many ACKs does the window"
        " need to grow by one when slow start is over?",
    )


def _look_at_the_timeout(sizes: list[int], losses: Losses) -> Verdict:
    after = sizes[losses.dark + 1 : losses.dark + 4]
    if len(sizes) <= losses.dark:
        return Verdict(0, _TOO_FEW.format(shown=_list(sizes)))
    if after == [1, 2, 4]:
        return Verdict(1, "After a timeout, the window begins with one.")
    return Verdict(
        0,
        f"After a flight of which nothing arrived, the flights have {_list(after)} packets. How"
        " large is the window after a timeout, and by which rule does it grow then?",
    )


def _look_at_the_copies(again: int, sizes: list[int], losses: Losses) -> Verdict:
    if len(sizes) <= losses.dark:
        return Verdict(0, _TOO_FEW.format(shown=_list(sizes)))
    if again == 0:
        return Verdict(1, "No packet that had arrived was sent again.")
    return Verdict(
        0,
        f"{again} packets were sent again that had arrived. What does the first number of an ACK"
        " say about all numbers below it, and what is in flight when a copy leaves?",
    )
