"""Problem set "sendfile": its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `look_at_range`, with other parameters.
"""

from __future__ import annotations

import random
import secrets
import socket
import struct
from dataclasses import dataclass, field, replace
from typing import Any

from tcplab.errors import LabError, ParameterError, SandboxError
from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import combine, describe, numbers_in, one_of, sizes_in
from tcplab.grading.packets import NO_PROBES, OwnPacket, connected
from tcplab.grading.programs import compiled, departures, how_it_ended, run_into_file
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission
from tcplab.programs.compile import Built

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_slow_s", "q1_slow_times", "q1_fast_times"],
    "q2": ["q2_calls_read_send", "q2_calls_sendfile"],
    "q3": ["q3_plain_sizes", "q3_corked_sizes"],
    "q4": ["q4_data_segments", "q4_file_bytes"],
    "q5": ["q5_stall_ms"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["sendrange.c"]
IN_PROGRAMS = ["mark"]

REASONS = ("corked", "held-by-nagle", "window-closed")
MSS_BYTES = 1448
#: The header that sendrange.c sends, with the course's mark, the offset and the number of bytes.
HEADER = struct.Struct(">QQQ")
#: Number of segments that leave before any ACK can arrive (RFC 6928), so no later write joins them.
FIRST_FLIGHT_SEGMENTS = 10


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    blocks, rest = own.integer("blocks", 3_000_000, 40_000_000, 1000), own.integer("rest", 1, 4000)
    file_bytes = own.integer("range_file", 620_000, 740_000, 1000)
    offset = own.integer("range_offset", 3_001, 9_999)
    mss_bytes = own.integer("my_mss", 300, 490)
    header_bytes, page_bytes = own.integer("page header", 90, 280), own.integer("page", 1400, 2600)
    page_segments = -(-(header_bytes + page_bytes) // mss_bytes)
    return {
        "size_mb": own.integer("size_mb", 40, 400),
        "slow_mbit": own.integer("slow_mbit", 50, 250),
        "fast_mbit": own.integer("fast_mbit", 8000, 12_000, 50),
        "read_send_cpu_s_per_gb": own.integer("cpu_a", 130, 240) / 100,
        "sendfile_cpu_s_per_gb": own.integer("cpu_b", 20, 45) / 100,
        "large_file_bytes": 4096 * blocks + rest,
        "header_bytes": own.integer("header", 90, 330),
        "small_file_bytes": own.integer("small_file", 3_000, 12_900),
        "page_header_bytes": header_bytes,
        "page_bytes": page_bytes,
        "page_segments": page_segments,
        "page_last_bytes": header_bytes + page_bytes - (page_segments - 1) * mss_bytes,
        "mark": own.of_course.integer("mark", 1000, 9999),
        "capture": own.captures()[0],
        "range_file_bytes": file_bytes,
        "range_offset": offset,
        "range_bytes": file_bytes - offset - own.integer("range_behind", 70_001, 90_001, 500),
        "range_rtt_ms": own.pick("range_rtt_ms", [50, 60, 70]),
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept a time that the link allows, and two ratios of at least 1."""
    given = numbers_in(submission.answers, ANSWERS["q1"])
    if isinstance(given, Verdict):
        return given
    seconds, *times = given
    n = submission.numbers
    if seconds < n["size_mb"] * 8 / n["slow_mbit"]:
        return Verdict(0, "q1_slow_s: this would be more bits per second than the link carries.")
    if min(times) < 1:
        return Verdict(0, "B does less work than A. Can it take longer?")
    return Verdict(1, "These numbers are possible. Is the CPU or the link slower, each time?")


def check_q2(submission: Submission) -> Verdict:
    """Accept two numbers of calls, the second of which is smaller."""
    given = numbers_in(submission.answers, ANSWERS["q2"], least=1)
    if isinstance(given, Verdict):
        return given
    if given[1] >= given[0]:
        return Verdict(0, "Does sendfile() take more calls than read() and send()?")
    return Verdict(1, "Plausible. What does sendfile(2) say about the maximum per call?")


def check_q3(submission: Submission) -> Verdict:
    """Accept two lists of sizes that add up to all bytes, with no segment above the MSS."""
    total = submission.numbers["header_bytes"] + submission.numbers["small_file_bytes"]
    for name in ANSWERS["q3"]:
        given = sizes_in(submission.answers[name], total, name=name, most_bytes=MSS_BYTES)
        if isinstance(given, Verdict):
            return given
    return Verdict(1, "All bytes are in the lists. Does each of them leave when you think it does?")


def check_q4(submission: Submission) -> Verdict:
    """Accept a number of segments and a number of bytes."""
    given = numbers_in(
        submission.answers, ANSWERS["q4"], least=1, most=bounds_of(submission.capture).payload_bytes
    )
    if isinstance(given, Verdict):
        return given
    if given[0] > given[1]:
        return Verdict(0, "Can there be more segments than bytes?")
    return Verdict(
        1, "These are two counts. Do the bytes include the header, or the segments an ACK?"
    )


def check_q5(submission: Submission) -> Verdict:
    """Accept a duration within the capture."""
    most = bounds_of(submission.capture).lasts_ms
    given = numbers_in(submission.answers, ANSWERS["q5"], unit="ms", above=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a time. Is it in milliseconds, and between two segments with data?")


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed reasons."""
    then = "This is one of the reasons. Did an ACK, a window update or a call end the pause?"
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


def check_q8(submission: Submission) -> Verdict:
    """Open a connection with the learner's packet, and look at the segments of a page."""
    n = submission.numbers
    page_bytes = n["page_header_bytes"] + n["page_bytes"]
    try:
        syn = OwnPacket.read(submission.answers["q8_packet"], "q8_packet")
        with connected(submission.lab(sysctls=NO_PROBES), syn) as (ours, server):
            server.send(bytes(n["page_header_bytes"]), socket.MSG_MORE)
            server.send(bytes(n["page_bytes"]))
            heard = ours.hear_all(lambda heard: heard[-1].sent_bytes >= page_bytes)
    except ParameterError as error:
        return Verdict(0, str(error))
    sent = {(each.seq, each.data_bytes) for each in heard if each.data_bytes}
    sizes = [size for _, size in sorted(sent)]
    if sizes and (len(sizes), sizes[-1]) == (n["page_segments"], n["page_last_bytes"]):
        return Verdict(
            1, f"The page came in {len(sizes)} segments, the last with {sizes[-1]} bytes."
        )
    return Verdict(
        0,
        f"{len(sizes)} segments came, with {describe(sizes)} bytes. Does the header travel alone,"
        " and how does the server learn the size of a full segment?",
    )


def check_q7(submission: Submission) -> Verdict:
    """Compile sendrange.c and send a part of a 500 kB file over a link with a 50 ms RTT."""
    return look_at_range(
        submission, Request(submission.numbers["mark"], 500_000, 1_777, 420_123, 50)
    )


# ---- sendrange.c ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """A part of a file to send, and the round-trip time of the link."""

    mark: int
    file_bytes: int
    offset: int
    count: int
    rtt_ms: float
    #: A random seed for the file's bytes, so that a program must read the file to send them.
    seed: int = field(default_factory=lambda: secrets.randbelow(1 << 31))

    @property
    def file(self) -> bytes:
        """Return the file's bytes, which are random, so that no two parts of it are alike."""
        return random.Random(self.seed).randbytes(self.file_bytes)

    @property
    def wanted(self) -> bytes:
        """Return the data that the receiver expects: the header, and the bytes of the part."""
        part = self.file[self.offset : self.offset + self.count]
        return HEADER.pack(self.mark, self.offset, len(part)) + part

    def past_the_end(self) -> Request:
        """Return a request that begins near the end of the same file and reaches past it."""
        last = 30_000 + self.offset
        return replace(self, offset=self.file_bytes - last, count=last + 50_000)


def send_range(
    submission: Submission, request: Request, wall_s: int, *, built: Built | None = None
) -> tuple[LabRun, bytes]:
    """Run the learner's program against sendfile_server; return the run and the bytes received.

    Args:
        submission: the submission with the C file.
        request: the part to send.
        wall_s: time limit of the program.
        built: a different executable, which must not read the file; by default the compiled C file.
    """
    return run_into_file(
        submission,
        built or submission.compile("sendrange.c"),
        ["10.0.0.2", "{port}", "file", str(request.offset), str(request.count)],
        lab={"rtt_ms": request.rtt_ms},
        files={"file": request.file},
        limits=Limits(wall_s=wall_s, cpu_s=6, processes=8, no_file_reads=built is not None),
    )


@compiled("sendrange.c")
def look_at_range(submission: Submission, request: Request) -> Verdict:
    """Check that the right bytes arrived, and then how the program sent them."""
    run, received = send_range(submission, request, wall_s=10)
    if damage := _damage(run, received, request):
        return Verdict(0, f"{damage} Nothing else counts until every byte is right.")
    return combine(
        [
            (0.3, Verdict(1, "All bytes of the part arrived, and no others.")),
            (0.2, _look_at_the_end(submission, request.past_the_end())),
            (0.2, _look_at_the_copies(submission, request)),
            (0.15, _look_at_the_header(run)),
            (0.15, _look_at_the_pieces(run)),
        ]
    )


def _damage(run: LabRun, received: bytes, request: Request) -> str:
    """Return sentences that say what is wrong with the run or the bytes, or "" if nothing is."""
    wanted = request.wanted
    if not run.outcome.ok:
        return f"{how_it_ended(run, 'sendrange')}."
    if received == wanted:
        return ""
    if len(received) < HEADER.size:
        return f"Only {len(received)} bytes arrived, which is less than a header."
    mark, offset, length = HEADER.unpack_from(received)
    body, wanted_body = received[HEADER.size :], wanted[HEADER.size :]
    if mark != request.mark:
        return f"The header does not begin with your mark, {request.mark}."
    if offset != request.offset:
        return f"The header does not have the offset {request.offset}. Check the byte order."
    if body == wanted_body:
        return f"The header promises {length} bytes, but {len(body)} follow."
    if body == wanted_body[: len(body)]:
        return (
            f"{len(wanted_body)} bytes of the file were expected, and {len(body)} arrived. What"
            " does sendfile() return, and what has to happen if that is less than you requested?"
        )
    if body[: len(wanted_body)] == wanted_body:
        more = len(body) - len(wanted_body)
        return (
            f"{more} bytes arrived that were not requested. After a short count, how many are left?"
        )
    same = next(
        i for i, pair in enumerate(zip(body, wanted_body, strict=False)) if len({*pair}) > 1
    )
    return (
        f"{len(body)} bytes of the file arrived, but starting at byte {same} they come from another"
        " place in it. Does sendfile(), your program, or both of them advance the offset?"
    )


def _look_at_the_end(submission: Submission, request: Request) -> Verdict:
    """Check that a request that reaches past the end of the file gets the bytes up to the end."""
    run, received = send_range(submission, request, wall_s=8)
    if damage := _damage(run, received, request):
        return Verdict(0, f"With a part that reaches past the end of the file: {damage}")
    return Verdict(1, "A part past the end of the file stops where the file ends.")


def _look_at_the_copies(submission: Submission, request: Request) -> Verdict:
    """Check that the program sends the file even if a call that reads its bytes is fatal.

    Only the call itself is proof, because a name in the executable may be unused, and a call needs
    no name. The program is linked statically, because a dynamic program reads its libraries.
    """
    built = submission.compile("sendrange.c", flags=["-static"])
    if built.binary is None:
        raise LabError(
            "sendrange.c cannot be linked statically here: apt install libc6-dev, or dnf install"
            f" glibc-static ({built.first_error})"
        )
    try:
        run, received = send_range(submission, request, wall_s=8, built=built)
    except SandboxError as error:
        if not submission.unsafe:
            raise
        return Verdict(
            1, f"This machine cannot check whether the file enters the program ({error})."
        )
    if run.outcome.signal == "SIGSYS":
        return Verdict(
            0,
            "The bytes of the file enter the program, by read(), mmap() or a similar call. Which"
            " call sends them without that?",
        )
    if damage := _damage(run, received, request):
        return Verdict(0, f"With calls forbidden that bring the file into the program: {damage}")
    return Verdict(1, "No byte of the file enters the program.")


def _look_at_the_header(run: LabRun) -> Verdict:
    """Check that the first segment contains more than the header."""
    first = departures(run)[0].size_bytes
    if first > HEADER.size:
        return Verdict(1, "The header shares its segment with the file.")
    return Verdict(
        0,
        f"The first segment holds {first} bytes, which is only the header. When it was sent,"
        " TCP could not know that more follows. How can your program tell TCP?",
    )


def _look_at_the_pieces(run: LabRun) -> Verdict:
    """Check that the segments between the first one and the first ACK are full."""
    flight = departures(run)[1:FIRST_FLIGHT_SEGMENTS]
    small = sum(departure.size_bytes < MSS_BYTES for departure in flight)
    if small == 0:
        return Verdict(1, "The file leaves in full segments.")
    return Verdict(
        0,
        f"Of the {len(flight)} segments after the first, {small} are not full, although the file"
        " has more bytes. How many bytes does one call of sendfile() send?",
    )
