"""The hidden judge of the problem set "sendfile", which runs only in the grader.

It computes the right answers from the rules and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.captures import calls_of, data_segments, facts_of, longest_pause
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import goodput_mbyte_s, segment_sizes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_sendfile")

BLOCK_BYTES = 4096
#: Largest number of bytes that one call of sendfile(2) transfers.
MOST_IN_ONE_CALL_BYTES = 0x7FFFF000


def seconds(size_mb: float, rate_mbit: float, cpu_s_per_gb: float) -> float:
    """Return the duration of a transfer that the slower of link and CPU limits."""
    return max(size_mb / goodput_mbyte_s(rate_mbit), size_mb / 1000 * cpu_s_per_gb)


def q1(submission: Submission) -> Verdict:
    """Check the time on a slow link, and how many times as long method A takes on each link."""
    n = submission.numbers
    size_mb, slow, fast = n["size_mb"], n["slow_mbit"], n["fast_mbit"]
    way_a, way_b = n["read_send_cpu_s_per_gb"], n["sendfile_cpu_s_per_gb"]
    slow_s = seconds(size_mb, slow, way_b)
    on_slow = seconds(size_mb, slow, way_a) / slow_s
    on_fast = seconds(size_mb, fast, way_a) / seconds(size_mb, fast, way_b)
    first = submission.check_number(
        "q1_slow_s",
        slow_s,
        unit="s",
        within=0.005,
        hints=[
            Hint(
                size_mb * 8 / slow,
                "the link carries headers, too; 1448 of 1538 bytes are data.",
                0.5,
            ),
            Hint(size_mb * 8 * 1518 / 1448 / slow, "preamble and gap take time, too.", 0.5),
            Hint(1000 * slow_s, "this is in milliseconds.", 0.5),
            Hint(size_mb / 1000 * way_b, "this is the CPU time; the link takes longer."),
        ],
        wrong="How many bytes of the file does the link carry per second?",
    )
    times = submission.check_number(
        "q1_slow_times",
        on_slow,
        hints=[
            Hint(
                way_a / way_b,
                "this compares CPU time. Does the CPU wait for the link, or the link for the CPU?",
            )
        ],
        wrong="How long does each method take over this link?",
    )
    fast_times = submission.check_number(
        "q1_fast_times",
        on_fast,
        within=0.006,
        hints=[
            Hint(way_a / way_b, "B would be that fast if there were no link.", 0.5),
            Hint(1, "is the link still slower than A's CPU?"),
        ],
        wrong="Compute for A and for B whether the CPU or the link is slower.",
    )
    return combine([(0.45, first), (0.1, times), (0.45, fast_times)])


def _calls(size_bytes: int, most_bytes: int) -> int:
    return -(-size_bytes // most_bytes)


def q2(submission: Submission) -> Verdict:
    """Check how many calls send a file with read() and send(), and with sendfile()."""
    size = submission.numbers["large_file_bytes"]
    blocks, parts = _calls(size, BLOCK_BYTES), _calls(size, MOST_IN_ONE_CALL_BYTES)
    copying = submission.check_count(
        "q2_calls_read_send",
        2 * blocks,
        hints=[
            Hint(blocks, "a block takes two calls.", 0.5),
            Hint(2 * (blocks - 1), "the rest after the last whole block is sent, too.", 0.5),
            Hint(
                2 * blocks + 1,
                "the program knows the size, and does not read again at the end.",
                0.5,
            ),
        ],
        wrong="How many blocks does the file have, and which calls does each block take?",
    )
    referring = submission.check_count(
        "q2_calls_sendfile",
        parts,
        hints=[
            Hint(1, "one call would be enough without a limit that sendfile(2) names."),
            Hint(parts - 1, "the rest after the last whole part needs a call, too.", 0.5),
        ],
        wrong="sendfile(2) names the maximum that one call transfers.",
    )
    return combine([(0.5, copying), (0.5, referring)])


def _sizes(writes: list[int], option: str) -> list[int]:
    return [size for flight in segment_sizes(writes, option) for size in flight]


def q3(submission: Submission) -> Verdict:
    """Check the segments if the header is sent at once, and if a cork joins it with the file."""
    writes = [submission.numbers["header_bytes"], submission.numbers["small_file_bytes"]]
    plain, corked = _sizes(writes, "default"), _sizes(writes, "cork")
    first = submission.check_counts(
        "q3_plain_sizes",
        plain,
        partial=False,
        hints=[Hint(corked, "when the header is written, TCP does not know about the file yet.")],
        wrong="Does the header wait for anything? Where does the file's first segment end?",
    )
    second = submission.check_counts(
        "q3_corked_sizes",
        corked,
        partial=False,
        hints=[
            Hint(plain, "a cork holds everything that is not a full segment, including the header.")
        ],
        wrong="A cork releases full segments and holds the rest until it is pulled.",
    )
    return combine([(0.5, first), (0.5, second)])


def q4(submission: Submission) -> Verdict:
    """Check the number of the client's data segments and how many of their bytes are the files'."""
    facts = facts_of(submission.capture)
    segments = data_segments(submission.answers["q4_data_segments"], facts, name="q4_data_segments")
    calls = calls_of(submission.capture)
    payload, header = facts.payload_bytes, sum(call.bytes for call in calls if call.name == "send")
    files = submission.check_count(
        "q4_file_bytes",
        payload - header,
        hints=[
            Hint(payload, "this includes the headers, which are in the log.", 0.5),
            Hint(header, "these are the headers."),
        ],
        wrong="Count all payload of the client, without the headers.",
    )
    return combine([(0.5, segments), (0.5, files)])


def q5(submission: Submission) -> Verdict:
    """Check the longest pause between two data segments of the client."""
    return longest_pause(
        submission.answers["q5_stall_ms"], facts_of(submission.capture), name="q5_stall_ms"
    )


def q6(submission: Submission) -> Verdict:
    """Check the reason for the pause in the capture."""
    return submission.check_choice(
        "q6_reason",
        facts_of(submission.capture).cause,
        task.REASONS,
        wrong="What came from the server right before the pause ended, and with which window?",
    )


def q7(submission: Submission) -> Verdict:
    """Run sendrange.c with the student's own file, part and round-trip time."""
    n = submission.numbers
    request = task.Request(
        n["mark"], n["range_file_bytes"], n["range_offset"], n["range_bytes"], n["range_rtt_ms"]
    )
    verdict: Verdict = task.look_at_range(submission, request)
    return verdict


def q8(submission: Submission) -> Verdict:
    """Open a connection with the learner's packet, and look at the segments of a page."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
