"""Problem set 4, buffer sizing: what is asked, each student's numbers, public checks.

Learners get this file. The hidden judge uses `run_sink` and `look_at_sink` too, on other paths.
"""

from __future__ import annotations

from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.checks import as_number, choice, describe
from tcplab.grading.sandbox import Limits
from tcplab.grading.work import LabRun, Work
from tcplab.models import bdp_bytes, goodput_mbyte_s, throughput_mbit

#: question -> the notebook's variables
ANSWERS = {
    "q1": ["q1_bdp_bytes", "q1_mbit"],
    "q2": ["q2_granted"],
    "q3": ["q3_window_bytes", "q3_scale"],
    "q4": ["q4_window_bytes"],
    "q5": ["q5_in_flight_bytes"],
    "q6": ["q6_reason"],
    "q7": [],
}
FILES = ["sink.c"]

REASONS = ("receive-window", "congestion-window", "send-buffer", "application")

#: RTT in ms and rate in Mbit/s. No one buffer suits a path of the first list and one of the second:
#: those of the second hold more than twice as much.
SHORT_PATHS = [(20, 37), (25, 29), (30, 24), (37, 20), (40, 18), (45, 16), (60, 12)]
LONG_PATHS = [(35, 45), (40, 39), (40, 40), (44, 36), (49, 32), (53, 30), (62, 25)]

#: What an untouched socket offers at first is about this, whatever is set later.
FIRST_WINDOW_BYTES = 65_535
#: A scale from here on was chosen for the 6 MiB that the kernel may grow an untouched buffer to.
SCALE_OF_AUTOTUNING = 6
ENOUGH = 0.9


def numbers(own: Numbers) -> dict[str, Any]:
    """The student's own numbers."""
    rmem_max = own.pick("rmem_max", [131_072, 212_992, 262_144, 425_984])
    return {
        "rtt_ms": own.pick("rtt_ms", [30, 36, 44, 50, 64, 70, 80, 120]),
        "rate_mbit": own.pick("rate_mbit", [40, 50, 60, 80, 90, 150, 200]),
        "window_bytes": own.pick("window_bytes", [16_384, 20_480, 24_576, 32_768, 40_960, 49_152]),
        "rmem_max_bytes": rmem_max,
        "requests": [
            own.integer("request", 20_000, 90_000, 1000),
            rmem_max + own.integer("more", 10_000, 90_000, 5000),
            own.integer("tiny", 300, 1100, 100),
            own.integer("odd", 5001, 15_001, 1111),
        ],
        "scale": own.integer("scale", 0, 1),
        "late_request": own.pick("late_request", [500_000, 600_000, 800_000, 1_000_000]),
        "capture": f"captures/{own.integer('capture', 1, 6)}.pcapng",
        "short_path": list(own.pick("short_path", SHORT_PATHS)),
        "long_path": list(own.pick("long_path", LONG_PATHS)),
    }


# ---- public checks: is it an answer at all, and is it of the right kind? -------------------------


def check_q1(work: Work) -> Verdict:
    """Both are numbers, and what is limited by a window is slower than the link."""
    held, mbit = (as_number(work.answers[name]) for name in ANSWERS["q1"])
    if held is None or mbit is None:
        given = ", ".join(f"{name} = {describe(work.answers[name])}" for name in ANSWERS["q1"])
        return Verdict(0, f"{given}: give two plain numbers, in bytes and in Mbit/s.")
    if held <= work.numbers["window_bytes"]:
        return Verdict(
            0,
            "q1_bdp_bytes: so little that the window would fill the path? Look at the units: the"
            " rate is in bits, the round trip in ms.",
        )
    if not 0 < mbit < work.numbers["rate_mbit"]:
        return Verdict(0, "q1_mbit: more than nothing, and less than the link carries.")
    return Verdict(1, "Plausible. Do both numbers fit together: is window / BDP = rate / link?")


def check_q2(work: Work) -> Verdict:
    """A list with a number for each request."""
    given, wanted = work.answers["q2_granted"], len(work.numbers["requests"])
    if not isinstance(given, list) or len(given) != wanted:
        return Verdict(0, f"q2_granted must be a list of {wanted} whole numbers.")
    if any(as_number(each) is None for each in given):
        return Verdict(0, "q2_granted: each of them must be a number of bytes.")
    if given == work.numbers["requests"]:
        return Verdict(0, "getsockopt() would return what was asked for? Try one of them.")
    return Verdict(1, "A grant for each request. Have you tried one of them on your machine?")


def check_q3(work: Work) -> Verdict:
    """A window and an exponent."""
    window, scale = (as_number(work.answers[name]) for name in ANSWERS["q3"])
    if window is None or scale is None:
        return Verdict(0, "Give two whole numbers: a window in bytes, and a scale.")
    if not 0 <= scale <= 14:
        return Verdict(0, "q3_scale: RFC 7323 allows exponents from 0 to 14.")
    if window > 65_535 << 14:
        return Verdict(0, "q3_window_bytes: no window of TCP can be as large as that.")
    return Verdict(1, "A window and a scale. How many bits has the window field?")


def _number_of_bytes(work: Work, name: str) -> Verdict:
    given = work.answers[name]
    if type(given).__module__ == "numpy" and hasattr(given, "tolist"):
        given = given.tolist()  # as the grading does
    if as_number(given) is None:
        shown = describe(work.answers[name])
        return Verdict(0, f"{name} is {shown}; give a plain number of bytes, with int(...).")
    return Verdict(1, "A number of bytes. Is it of the right direction?")


def check_q4(work: Work) -> Verdict:
    """A plain number."""
    return _number_of_bytes(work, "q4_window_bytes")


def check_q5(work: Work) -> Verdict:
    """A plain number."""
    return _number_of_bytes(work, "q5_in_flight_bytes")


def check_q6(work: Work) -> Verdict:
    """One of the reasons."""
    given = work.answers["q6_reason"]
    if given not in REASONS:
        return choice(given, REASONS[0], REASONS, name="q6_reason")
    return Verdict(1, "One of the reasons. Which bound does your answer to q5 meet?")


def check_q7(work: Work) -> Verdict:
    """Compiles sink.c and lets tcpsource send to it over a path of 25 ms and 40 Mbit/s."""
    built = work.compile("sink.c")
    if built.binary is None:
        return Verdict(0, f"sink.c does not compile:\n{built.messages}")
    return look_at_sink(run_sink(work, 25, 40), 25, 40)


# ---- sink.c --------------------------------------------------------------------------------------

WRITES, WRITE_BYTES = 40, 14_480


def run_sink(work: Work, rtt_ms: int, rate_mbit: int) -> LabRun:
    """The learner's program on the server, tcpsource on the client."""
    command = ["tcpsource", "--json", "-b", "auto", "--port", "{port}"]
    return work.run_in_lab(
        work.compile("sink.c"),
        ["{port}", str(rtt_ms), str(rate_mbit)],
        role="server",
        peer=[*command, "-s", str(WRITE_BYTES), "-c", str(WRITES), "10.0.0.2"],
        lab={"rtt_ms": rtt_ms, "rate_mbit": rate_mbit},
        limits=Limits(wall_s=15, cpu_s=8, processes=8),
    )


def share_of_link(window_bytes: float, rtt_ms: float, rate_mbit: float) -> float:
    """The part of a link's goodput that a window lets through."""
    return throughput_mbit(window_bytes, rtt_ms, rate_mbit) / (goodput_mbyte_s(rate_mbit) * 8)


def look_at_sink(run: LabRun, rtt_ms: int, rate_mbit: int) -> Verdict:
    """What the capture says of the buffer: the scale in the SYN-ACK, and the largest window."""
    path = f"On a path of {rtt_ms} ms and {rate_mbit} Mbit/s"
    total = WRITES * WRITE_BYTES
    if not run.answered:
        return Verdict(0, f"{path}: nobody listened; sink {run.outcome.how_it_ended()}.")
    if run.peer is None or not run.outcome.ok:
        found = run.peer_error if run.outcome.ok else f"sink {run.outcome.how_it_ended()}"
        return Verdict(0, f"{path} the transfer did not come to its end: {found}.")
    if run.outcome.output.decode(errors="replace").split()[-2:] != [str(total), "bytes"]:
        return Verdict(
            0, f"{path}: {total} bytes were sent, and the last line of the output must say so."
        )
    told = run.server_segments[run.server_segments["direction"] == 1]
    scale, window = int(told["wscale"].max()), int(told["window"].max())
    if scale >= SCALE_OF_AUTOTUNING:
        reason = (
            f"{path} your SYN-ACK announced the scale {scale}: when it left, the kernel expected a"
            " buffer of megabytes. Which call must come before the sender's SYN?"
        )
        # An offer is not taken back, so a small buffer shows only when the first one is used up.
        later = int(told["window"][len(told) // 2 :].max())
        return Verdict(0.3 if later > FIRST_WINDOW_BYTES else 0, reason)
    enough = share_of_link(window, rtt_ms, rate_mbit)
    if enough < ENOUGH:
        return Verdict(
            0,
            f"{path} the largest window that you offered was {window} bytes, which lets"
            f" {enough:.0%} of the link's rate through. How much must be under way to fill it?",
        )
    if share_of_link(window / 2, rtt_ms, rate_mbit) >= ENOUGH:
        return Verdict(
            0.5,
            f"{path} the largest window that you offered was {window} bytes. The link is full, but"
            f" {window / bdp_bytes(rate_mbit, rtt_ms):.1f} times what the path holds is too much:"
            " half of it would do.",
        )
    return Verdict(1, f"{path} the window fills the link, and half of it would not.")
