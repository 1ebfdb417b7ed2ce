"""Problem set "buffers" (buffer sizing): its questions, numbers and public checks.

Learners get this file. The hidden judge also uses `judge_sink`, on other paths.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Sequence
from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.captures import bounds_of
from tcplab.grading.checks import counts_in, equal_parts, numbers_in, one_of
from tcplab.grading.packets import SYN, OwnPacket, connected, with_packet
from tcplab.grading.programs import compiled, how_it_ended
from tcplab.grading.sandbox import Limits
from tcplab.grading.submission import LabRun, Submission
from tcplab.models import bdp_bytes, goodput_mbyte_s, throughput_mbit

#: The notebook variables with the answer to each question; none if the answer is a program.
ANSWERS = {
    "q1": ["q1_bdp_bytes", "q1_mbit"],
    "q2": ["q2_granted"],
    "q3": ["q3_window_percent", "q3_scale"],
    "q4": ["q4_window_bytes"],
    "q5": ["q5_in_flight_bytes"],
    "q6": ["q6_reason"],
    "q7": [],
    "q8": ["q8_packet"],
}
FILES = ["sink.c"]
IN_PROGRAMS = ["label_bytes"]

REASONS = ("application", "congestion-window", "receive-window", "send-buffer")

#: RTT in ms and rate in Mbit/s. The paths of the second list hold more than twice as many bytes as
#: those of the first, so no single buffer suits a short and a long path.
SHORT_PATHS = [(20, 37), (25, 29), (30, 24), (37, 20), (40, 18), (45, 16), (60, 12)]
LONG_PATHS = [(35, 45), (40, 39), (40, 40), (44, 36), (49, 32), (53, 30), (62, 25)]

#: The server of q8 writes this many bytes, which is more than ten segments.
WRITTEN_BYTES = 10_000
#: A socket whose buffer was not set offers about this window at first.
FIRST_WINDOW_BYTES = 65_535
#: Share of the points for a buffer that the kernel sizes.
OF_AUTOTUNING = 0.3
#: A buffer that the program does not set stays small, so that no other limit on the window helps.
FIXED_BUFFER = {"net.ipv4.tcp_moderate_rcvbuf": "0", "net.ipv4.tcp_rmem": "4096 65536 6291456"}
#: If the window scale is at least this, the kernel expected to grow the buffer automatically.
SCALE_OF_AUTOTUNING = 6
ENOUGH = 0.9
#: Bounds of the window's share of the granted buffer, which is about 5/8 (1/2 before Linux 6.6).
WINDOW_OF_GRANT = (0.4, 0.75)
_SAID = re.compile(rb"receive buffer of (\d{1,10}) bytes, received (\d{1,15}) bytes\s*\Z")


def numbers(own: Numbers) -> dict[str, Any]:
    """Return the numbers that this student's questions contain."""
    rmem_max = own.integer("rmem_max", 131_072, 425_984, 4096)
    # The window holds a whole number of segments, so that no partial segment is sent.
    scale, mss_bytes = own.integer("my_scale", 1, 4), 16 * own.integer("my_mss", 20, 60)
    return {
        "rtt_ms": own.integer("rtt_ms", 30, 129),
        "rate_mbit": own.integer("rate_mbit", 40, 200),
        "window_bytes": own.integer("window_bytes", 16_000, 50_000, 10),
        "rmem_max_bytes": rmem_max,
        "requests": [
            own.integer("request", 20_000, 90_000, 1000),
            rmem_max + own.integer("more", 10_000, 90_000, 5000),
            own.integer("tiny", 300, 1100, 100),
            own.integer("odd", 5001, 15_001, 1111),
        ],
        "scale": own.integer("scale", 0, 2),
        "my_mss_bytes": mss_bytes,
        "my_scale": scale,
        "released_bytes": own.integer("my_window", 2, 8) * mss_bytes,
        "late_request": own.integer("late_request", 400_000, 1_000_000, 1000),
        "capture": own.captures()[0],
        "short_path": list(own.pick("short_path", SHORT_PATHS)),
        "label_bytes": own.of_course.integer("label_bytes", 20, 900),
        "long_path": list(own.pick("long_path", LONG_PATHS)),
    }


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------


def check_q1(submission: Submission) -> Verdict:
    """Accept a BDP above the window, and a window-limited rate below the rate of the link."""
    given = numbers_in(submission.answers, ANSWERS["q1"])
    if isinstance(given, Verdict):
        return given
    held, mbit = given
    if held <= submission.numbers["window_bytes"]:
        return Verdict(
            0,
            "q1_bdp_bytes: with so few bytes, the window would fill the path. Look at the units."
            " The rate is in bits, and the round-trip time is in ms.",
        )
    if not 0 < mbit < submission.numbers["rate_mbit"]:
        return Verdict(0, "q1_mbit must be above 0, and below the rate of the link.")
    return Verdict(1, "Plausible. Do both numbers fit together? Is window / BDP = rate / link?")


def check_q2(submission: Submission) -> Verdict:
    """Accept one number of bytes per request, unless the list repeats the requests."""
    asked = submission.numbers["requests"]
    given = counts_in(submission.answers["q2_granted"], len(asked), name="q2_granted", of="bytes")
    if isinstance(given, Verdict):
        return given
    if given == asked:
        return Verdict(0, "Does getsockopt() return the requested size? Try one of them.")
    return Verdict(
        1, "There is a grant for each request. Have you tried one of them on your machine?"
    )


def check_q3(submission: Submission) -> Verdict:
    """Accept a percentage and a window scale from 0 to 14."""
    percent = numbers_in(submission.answers, ["q3_window_percent"], above=0, most=100)
    scale = numbers_in(submission.answers, ["q3_scale"], least=0)
    for given in (percent, scale):
        if isinstance(given, Verdict):
            return given
        if given is scale and given[0] > 14:
            return Verdict(0, "q3_scale: RFC 7323 allows exponents from 0 to 14.")
    return Verdict(1, "This is a share and a scale. How many bits does the window field have?")


def check_q4(submission: Submission) -> Verdict:
    """Accept a number of bytes that a scaled window can have."""
    given = numbers_in(submission.answers, ANSWERS["q4"], unit="bytes", above=0, most=65_535 << 14)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number of bytes. Is it from the right direction?")


def check_q5(submission: Submission) -> Verdict:
    """Accept at most as many bytes as were sent."""
    most = bounds_of(submission.capture).payload_bytes
    given = numbers_in(submission.answers, ANSWERS["q5"], unit="bytes", above=0, most=most)
    if isinstance(given, Verdict):
        return given
    return Verdict(1, "This is a number of bytes. Is it from the right direction?")


def check_q6(submission: Submission) -> Verdict:
    """Accept any of the listed reasons."""
    then = "This is one of the reasons. What did the client receive right before it?"
    return one_of(submission.answers["q6_reason"], REASONS, name="q6_reason", then=then)


@with_packet("q8_packet")
def check_q8(submission: Submission, packet: OwnPacket) -> Verdict:
    """Send the learner's packet to a server that sees a closed window, and count what leaves."""
    n = submission.numbers
    options = struct.pack(">BBHBBBB", 2, 4, n["my_mss_bytes"], 1, 3, 3, n["my_scale"])
    syn = OwnPacket(flags=SYN, options=options)
    with connected(submission.lab(), syn, window=0) as (ours, server):
        server.setblocking(False)
        server.send(bytes(WRITTEN_BYTES))
        ours.send(packet)
        heard = ours.hear_all(lambda heard: heard[-1].sent_bytes >= n["released_bytes"])
    came = max((segment.sent_bytes for segment in heard), default=0)
    if came == n["released_bytes"]:
        return Verdict(1, f"Your packet released {came} bytes.")
    return Verdict(
        0,
        f"After your packet, the server sent {came} bytes instead of {n['released_bytes']}. In"
        " which unit does the window field count, and what else limits a new connection?",
    )


def check_q7(submission: Submission) -> Verdict:
    """Compile sink.c and let tcpsource send to it over a path with a 25 ms RTT and 40 Mbit/s."""
    return judge_sink(submission, [(25, 40)])


# ---- sink.c --------------------------------------------------------------------------------------

WRITES, WRITE_BYTES = range(41, 51), 14_480


@compiled("sink.c")
def judge_sink(submission: Submission, paths: Sequence[tuple[int, int]]) -> Verdict:
    """Run the learner's program on each path, given by its RTT in ms and rate in Mbit/s."""
    verdicts = []
    for path in paths:
        run, verdict = _on_path(submission, *path)
        verdicts.append(verdict)
        if not run.answered or run.outcome.stopped_by:  # the other path would give the same result
            return Verdict(0, verdict.message)
    # What fills the link on the better path must do so if the kernel adds nothing to the buffer.
    best = max(range(len(paths)), key=lambda index: verdicts[index].share or 0)
    if (share := verdicts[best].share or 0) > OF_AUTOTUNING:
        _, alone = _on_path(submission, *paths[best], sysctls=FIXED_BUFFER)
        if (alone.share or 0) < share:
            return Verdict(alone.share, f"Without the kernel's autotuning: {alone.message}")
    return equal_parts(verdicts)


def _on_path(
    submission: Submission, rtt_ms: int, rate_mbit: int, **lab: Any
) -> tuple[LabRun, Verdict]:
    writes = secrets.choice(WRITES)  # drawn now, so that the program has to count
    run = run_sink(submission, rtt_ms, rate_mbit, writes, **lab)
    data_bytes = writes * WRITE_BYTES - submission.numbers["label_bytes"]
    return run, look_at_sink(run, rtt_ms, rate_mbit, data_bytes)


def run_sink(
    submission: Submission, rtt_ms: int, rate_mbit: int, writes: int, **lab: Any
) -> LabRun:
    """Run the learner's program on the server, and tcpsource on the client."""
    command = ["tcpsource", "--json", "-b", "auto", "--port", "{port}"]
    return submission.run_in_lab(
        submission.compile("sink.c"),
        ["{port}", str(rtt_ms), str(rate_mbit)],
        server_port=9000,
        peer=[*command, "-s", str(WRITE_BYTES), "-c", str(writes), "10.0.0.2"],
        lab={"rtt_ms": rtt_ms, "rate_mbit": rate_mbit, **lab},
        limits=Limits(wall_s=15, cpu_s=8, processes=8),
    )


def share_of_link(window_bytes: float, rtt_ms: float, rate_mbit: float) -> float:
    """Return the share of a link's goodput that a window allows."""
    return throughput_mbit(window_bytes, rtt_ms, rate_mbit) / (goodput_mbyte_s(rate_mbit) * 8)


def look_at_sink(run: LabRun, rtt_ms: int, rate_mbit: int, data_bytes: int) -> Verdict:
    """Grade the buffer by the SYN-ACK's scale, the largest window, and the reported size."""
    path = f"On a path with a {rtt_ms} ms RTT and {rate_mbit} Mbit/s"
    if not run.answered:
        return Verdict(0, f"{path}, no program listened; {how_it_ended(run, 'sink')}.")
    if run.peer is None or not run.outcome.ok:
        reason_ = run.peer_error if run.outcome.ok else how_it_ended(run, "sink")
        return Verdict(0, f"{path}, the transfer did not finish: {reason_}.")
    reported = _SAID.search(run.outcome.output)
    if reported is None or int(reported[2]) != data_bytes:
        return Verdict(
            0,
            f"{path}, {data_bytes} bytes followed the label, and the last line of the output must"
            " say so.",
        )
    offers = run.server_segments.sent_by("server")
    scale, window = int(offers["wscale"].max()), int(offers["window"].max())
    if scale >= SCALE_OF_AUTOTUNING:
        reason = (
            f"{path}, your SYN-ACK announced the scale {scale}. When it left, the kernel expected a"
            " buffer of megabytes. Which call must come before the sender's SYN?"
        )
        # An offered window is never taken back, so the first windows may not reflect the buffer.
        later = int(offers["window"][len(offers) // 2 :].max())
        return Verdict(OF_AUTOTUNING if later > FIRST_WINDOW_BYTES else 0, reason)
    enough = share_of_link(window, rtt_ms, rate_mbit)
    if enough < ENOUGH:
        return Verdict(
            0,
            f"{path}, the largest window that you offered was {window} bytes, which allows"
            f" {enough:.0%} of the link's rate. How many bytes must be in flight to fill the link?",
        )
    if share_of_link(window / 2, rtt_ms, rate_mbit) >= ENOUGH:
        return Verdict(
            0.5,
            f"{path}, the largest window that you offered was {window} bytes. The link is full, but"
            f" {window / bdp_bytes(rate_mbit, rtt_ms):.1f} times what the path holds is too much."
            " Half of it would be enough.",
        )
    granted = int(reported[1])
    if not WINDOW_OF_GRANT[0] * granted <= window <= WINDOW_OF_GRANT[1] * granted:
        return Verdict(
            0.8,
            f"{path}, the window fills the link, and half of it would not. But sink reports a"
            f" buffer of {granted} bytes, and no such buffer offers {window}. Which call returns"
            " its size?",
        )
    return Verdict(1, f"{path}, the window fills the link, and half of it would not.")
