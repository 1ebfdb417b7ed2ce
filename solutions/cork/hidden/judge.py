"""The hidden judge of set cork. It runs in the grader, never near a learner's process.

What is right is computed: from the rules, from the capture that was handed out, from the wire.
"""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.captures import calls_of, data_segments, facts_of, pauses_ms
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import segment_sizes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_ps6_for_the_judge")

#: Ethernet 14, IPv4 20, TCP 20, time stamps option 12.
HEADER_BYTES = 66
#: TCP_RTO_MIN of Linux.
RTO_MIN_MS = 200
#: Tolerance for answers that are calculated from given numbers.
EXACT = 0.005


def _sizes(pieces: tuple[int, ...], option: str) -> list[int]:
    return [size for flight in segment_sizes(pieces, option) for size in flight]


def q1(submission: Submission) -> Verdict:
    """The segments of a message in three ways."""
    pieces = submission.numbers["pieces_bytes"]
    sizes = {option: _sizes(pieces, option) for option in ("default", "no_delay", "cork")}
    default = submission.check_counts(
        "q1_default_sizes",
        sizes["default"],
        partial=False,
        hints=[
            Hint(sizes["no_delay"], "does the last small piece leave before any ACK is there?"),
            Hint(sizes["cork"], "when the header is written, nothing tells TCP to hold it."),
        ],
        wrong="What is held until the header is acknowledged, and what joins it meanwhile?",
    )
    nodelay = submission.check_counts(
        "q1_nodelay_sizes",
        sizes["no_delay"],
        partial=False,
        hints=[Hint(sizes["default"], "here nothing waits, so nothing can be joined.")],
        wrong="Each write leaves at once. How is one cut that is longer than the MSS?",
    )
    cork = submission.check_counts(
        "q1_cork_sizes",
        sizes["cork"],
        partial=False,
        hints=[Hint(sizes["default"], "the cork holds the header, too, until a segment is full.")],
        wrong="Full segments leave, and the rest when the cork is pulled.",
    )
    return combine([(1 / 3, default), (1 / 3, nodelay), (1 / 3, cork)])


def q2(submission: Submission) -> Verdict:
    """Calls, and the headers that a cork saves."""
    pieces, size = submission.numbers["pieces"], submission.numbers["piece_bytes"]
    saved = (pieces - 1) * HEADER_BYTES
    calls = submission.check_count(
        "q2_calls_cork",
        pieces + 2,
        hints=[
            Hint(pieces, "to set the cork and to pull it are calls, too.", 0.5),
            Hint(pieces + 1, "the cork is set, and it is pulled.", 0.5),
        ],
        wrong="A call a piece, and what the cork takes.",
    )
    one = submission.check_count(
        "q2_calls_writev",
        1,
        hints=[Hint(pieces, "writev(2) takes all pieces, in a list.")],
        wrong="See writev(2).",
    )
    less = submission.check_count(
        "q2_saved_bytes",
        saved,
        hints=[
            Hint(pieces * HEADER_BYTES, "one segment is left, and has its headers.", 0.5),
            Hint((pieces - 1) * (HEADER_BYTES - 12), "the time stamps option is 12 bytes.", 0.5),
            Hint((pieces - 1) * (HEADER_BYTES + size), "the data is sent either way.", 0.5),
        ],
        wrong="How many segments fewer, and how many bytes of headers has each of them?",
    )
    return combine([(0.4, calls), (0.1, one), (0.5, less)])


def q3(submission: Submission) -> Verdict:
    """The retransmission timeout: of a young connection, and of one that knows its round trip."""
    rtt_ms = submission.numbers["rtt_ms"]
    old_ms = rtt_ms + RTO_MIN_MS
    young_ms = max(3 * rtt_ms, old_ms)
    manual = Hint(RTO_MIN_MS, "this is tcp(7)'s ceiling; it holds where the round trip is short.")
    young = submission.check_number(
        "q3_young_ms",
        young_ms,
        unit="ms",
        within=EXACT,
        hints=[
            manual,
            Hint(old_ms, "after one measurement TCP does not yet trust it that far.", 0.5),
        ],
        wrong="How does the first measurement set the retransmission timeout (RFC 6298)?",
    )
    old = submission.check_number(
        "q3_old_ms",
        old_ms,
        unit="ms",
        within=EXACT,
        hints=[
            manual,
            Hint(young_ms, "this is so as long as TCP has measured only once.", 0.5),
            Hint(rtt_ms + 2 * RTO_MIN_MS, "the least variation is counted once."),
        ],
        wrong="The timer is the retransmission timeout; what is its least distance from the RTT?",
    )
    return combine([(0.5, young), (0.5, old)])


def q4(submission: Submission) -> Verdict:
    """Writes and segments, counted."""
    facts, calls = facts_of(submission.capture), calls_of(submission.capture)
    names = [call.name for call in calls]
    writes = submission.check_count(
        "q4_writes",
        names.count("write"),
        hints=[
            Hint(len(calls), "these are all calls, corks and reads among them.", 0.5),
            Hint(names.count("read"), "these are the messages."),
        ],
        wrong="Count the lines of the log that are writes.",
    )
    segments = data_segments(submission.answers["q4_data_segments"], facts, name="q4_data_segments")
    return combine([(0.5, writes), (0.5, segments)])


def q5(submission: Submission) -> Verdict:
    """From the first write of the last message to its last segment."""
    facts, calls = facts_of(submission.capture), calls_of(submission.capture)
    before_last = [call.time_ns for call in calls if call.name == "read"][-2]
    first_write = next(c for c in calls if c.name == "write" and c.time_ns > before_last)
    waited_ms = (int(facts.data["time_ns"][-1]) - first_write.time_ns) / 1e6
    pause_ms = pauses_ms(facts.data)[-1]
    return submission.check_number(
        "q5_waited_ms",
        waited_ms,
        unit="ms",
        within=EXACT,
        hints=[
            Hint(waited_ms / 1e3, "this is in seconds.", 0.5),
            Hint(pause_ms, "this is between two segments; the log has the write.", 0.5),
        ],
        wrong="Find the last message's first write in the log; its clock is the capture's.",
    )


def q6(submission: Submission) -> Verdict:
    """Why."""
    return submission.check_choice(
        "q6_reason",
        facts_of(submission.capture).cause,
        task.REASONS,
        wrong="What came right before the segment left: an ACK, a call in the log, or nothing?",
    )


def q7(submission: Submission) -> Verdict:
    """respond.c with the student's own number of answers and round-trip time."""
    n = submission.numbers
    verdict: Verdict = task.look_at_answers(submission, n["answers"], n["answers_rtt_ms"])
    return verdict


def q8(submission: Submission) -> Verdict:
    """The learner's SYN, sent to a server with a cork."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
