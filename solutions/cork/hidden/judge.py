"""The hidden judge of the problem set "cork", which runs only in the grader.

It computes the right answers from the rules and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.captures import calls_of, data_segments, facts_of, pauses_ms
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import segment_sizes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_cork")

#: Bytes of a segment's headers: Ethernet 14, IPv4 20, TCP 20, time stamps option 12.
HEADER_BYTES = 66
#: Linux's minimum retransmission timeout, TCP_RTO_MIN.
RTO_MIN_MS = 200
#: Relative tolerance of an answer that is calculated from given numbers.
EXACT = 0.005


def _sizes(pieces: tuple[int, ...], option: str) -> list[int]:
    return [size for flight in segment_sizes(pieces, option) for size in flight]


def q1(submission: Submission) -> Verdict:
    """Check the sizes of the segments when a message is sent in three ways."""
    pieces = submission.numbers["pieces_bytes"]
    sizes = {option: _sizes(pieces, option) for option in ("default", "no_delay", "cork")}
    default = submission.check_counts(
        "q1_default_sizes",
        sizes["default"],
        partial=False,
        hints=[
            Hint(sizes["no_delay"], "does the last small piece leave before any ACK has arrived?"),
            Hint(sizes["cork"], "when the header is written, TCP has no reason to hold it."),
        ],
        wrong="What is held until the header is acknowledged, and what joins it meanwhile?",
    )
    nodelay = submission.check_counts(
        "q1_nodelay_sizes",
        sizes["no_delay"],
        partial=False,
        hints=[Hint(sizes["default"], "here nothing waits, so nothing can be joined.")],
        wrong="Each write leaves at once. How is a write cut that is longer than the MSS?",
    )
    cork = submission.check_counts(
        "q1_cork_sizes",
        sizes["cork"],
        partial=False,
        hints=[Hint(sizes["default"], "the cork holds the header, too, until a segment is full.")],
        wrong="Full segments leave at once, and the rest leaves when the cork is pulled.",
    )
    return combine([(1 / 3, default), (1 / 3, nodelay), (1 / 3, cork)])


def q2(submission: Submission) -> Verdict:
    """Check the numbers of calls with a cork and with writev(), and the header bytes saved."""
    pieces, size = submission.numbers["pieces"], submission.numbers["piece_bytes"]
    saved = (pieces - 1) * HEADER_BYTES
    calls = submission.check_count(
        "q2_calls_cork",
        pieces + 2,
        hints=[
            Hint(pieces, "setting and pulling the cork are calls, too.", 0.5),
            Hint(pieces + 1, "the cork is not only set, but also pulled.", 0.5),
        ],
        wrong="There is one call per piece, and the cork takes more calls.",
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
            Hint(pieces * HEADER_BYTES, "one segment is left, and it has headers.", 0.5),
            Hint((pieces - 1) * (HEADER_BYTES - 12), "the time stamps option is 12 bytes.", 0.5),
            Hint((pieces - 1) * (HEADER_BYTES + size), "the data is sent either way.", 0.5),
        ],
        wrong="How many segments are saved, and how many header bytes does each of them have?",
    )
    return combine([(0.4, calls), (0.1, one), (0.5, less)])


def q3(submission: Submission) -> Verdict:
    """Check the retransmission timeout of a new connection, and of an old one."""
    rtt_ms = submission.numbers["rtt_ms"]
    old_ms = rtt_ms + RTO_MIN_MS
    young_ms = max(3 * rtt_ms, old_ms)
    manual = Hint(RTO_MIN_MS, "this is the ceiling in tcp(7); it holds if the RTT is short.")
    young = submission.check_number(
        "q3_young_ms",
        young_ms,
        unit="ms",
        within=EXACT,
        hints=[
            manual,
            Hint(old_ms, "after one measurement, TCP assumes a larger variation.", 0.5),
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
            Hint(young_ms, "this is right as long as TCP has measured only once.", 0.5),
            Hint(rtt_ms + 2 * RTO_MIN_MS, "the minimum variation is counted once."),
        ],
        wrong="The timer is the retransmission timeout. What is its minimum distance from the RTT?",
    )
    return combine([(0.5, young), (0.5, old)])


def q4(submission: Submission) -> Verdict:
    """Check the number of writes and of data segments."""
    facts, calls = facts_of(submission.capture), calls_of(submission.capture)
    names = [call.name for call in calls]
    writes = submission.check_count(
        "q4_writes",
        names.count("write"),
        hints=[
            Hint(len(calls), "these are all calls, including corks and reads.", 0.5),
            Hint(names.count("read"), "these are the messages."),
        ],
        wrong="Count the lines of the log that are writes.",
    )
    segments = data_segments(submission.answers["q4_data_segments"], facts, name="q4_data_segments")
    return combine([(0.5, writes), (0.5, segments)])


def q5(submission: Submission) -> Verdict:
    """Check the time from the first write of the last message to its last segment."""
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
        wrong="Find the last message's first write in the log, which has the capture's clock.",
    )


def q6(submission: Submission) -> Verdict:
    """Check the reason for the pause in the capture."""
    return submission.check_choice(
        "q6_reason",
        facts_of(submission.capture).cause,
        task.REASONS,
        wrong="Did an ACK, a call in the log, or nothing come right before the segment left?",
    )


def q7(submission: Submission) -> Verdict:
    """Run respond.c with the student's own number of answers."""
    verdict: Verdict = task.look_at_answers(submission, submission.numbers["answers"])
    return verdict


def q8(submission: Submission) -> Verdict:
    """Connect to a server with the learner's SYN, and check how much the server's cork holds."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
