"""The hidden judge of problem set 5. It runs in the grader, never near a learner's process.

What is right is computed: from the rules, from the capture that was handed out, from the wire.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tcplab.grading.assignment import load_module
from tcplab.grading.checks import Hint, Verdict, choice, combine, count, number
from tcplab.grading.work import Work

HERE = Path(__file__).parent
task = load_module(HERE.parent / "task.py", "tcplab_task_ps5_for_the_judge")

#: "Take 40 ms for the delay of an ACK", says the question.
DELAYED_ACK_MS = 40
#: Ethernet 14, IPv4 20, TCP 20, time stamps option 12.
HEADER_BYTES = 66


def q1(work: Work) -> Verdict:
    """Default: first write out, ACK delayed and back, the rest out, reply back. Cured: one RTT."""
    rtt_ms = work.numbers["rtt_ms"]
    slow = number(
        work.answers["q1_default_ms"],
        2 * rtt_ms + DELAYED_ACK_MS,
        name="q1_default_ms",
        unit="ms",
        hints=[
            Hint(
                rtt_ms + DELAYED_ACK_MS,
                "the delayed ACK is there, but the held bytes leave only when it has come back:"
                " how often is the wire crossed?",
                0.5,
            ),
            Hint(DELAYED_ACK_MS, "the delay of the ACK is not all: the wire has a length.", 0.25),
            Hint(rtt_ms, "this would be so if nothing waited."),
        ],
        wrong="Draw the ladder: write, ACK, held bytes, reply.",
    )
    fast = number(
        work.answers["q1_nodelay_ms"],
        rtt_ms,
        name="q1_nodelay_ms",
        unit="ms",
        hints=[Hint(rtt_ms / 2, "this is one way only; the reply has to come back.", 0.5)],
        wrong="Nothing waits for an ACK here: only the way there and back is left.",
    )
    return combine([(2 / 3, slow), (1 / 3, fast)])


def q2(work: Work) -> Verdict:
    """Share of payload when each write is a segment."""
    size = work.numbers["write_bytes"]
    return number(
        work.answers["q2_payload_percent"],
        100 * size / (size + HEADER_BYTES),
        name="q2_payload_percent",
        unit="percent",
        hints=[
            Hint(
                size / (size + HEADER_BYTES),
                "this is a fraction of 1; percent were asked for.",
                0.5,
            ),
            Hint(
                100 * size / (size + 54), "the time stamps option is 12 bytes in each header.", 0.5
            ),
            Hint(100 * size / HEADER_BYTES, "of the whole segment, headers included.", 0.5),
            Hint(100 * HEADER_BYTES / (size + HEADER_BYTES), "this is the headers' share.", 0.5),
        ],
        wrong="Payload over all bytes of the segment as it leaves, Ethernet header included.",
    )


def waiting(patterns: list[tuple[int, ...]]) -> list[int]:
    """Minshall: a small last write waits when a small segment is still un-ACKed before it."""
    found = []
    for index, writes in enumerate(patterns):
        small_before = any(size % task.MSS_BYTES for size in writes[:-1])
        if small_before and writes[-1] % task.MSS_BYTES:
            found.append(index)
    return found


def q3(work: Work) -> Verdict:
    """A point for each pattern on the right side, counted from half of them on."""
    given = work.answers["q3_waits"]
    patterns = work.numbers["patterns"]
    if given is None:
        return Verdict(0, "q3_waits has no answer yet.")
    if not isinstance(given, list) or any(type(each) is not int for each in given):
        return Verdict(0, "q3_waits must be a list of indices.")
    expected = set(waiting(patterns))
    wrong = len(expected ^ set(given))
    if wrong == 0:
        return Verdict(1, "q3_waits: right.")
    hint = (
        "What is under way when the last write comes, a full segment or a small one? Linux holds a"
        " small segment only behind another small one."
    )
    share = 0.5 if wrong == 1 else 0.0
    return Verdict(
        share, f"q3_waits: {wrong} of {len(patterns)} patterns are on the wrong side. {hint}"
    )


@lru_cache(maxsize=16)
def _capture(path: Path) -> dict[str, Any]:
    """What is to be found in a capture: counted here, but for the cause, which made it."""
    from tcplab.segments import from_file

    rows = from_file(path)
    data = rows[(rows["direction"] == 0) & (rows["payload_bytes"] > 0)]
    gaps = data["time_ns"][1:] - data["time_ns"][:-1]
    causes = json.loads((HERE / "captures.json").read_text())
    return {
        "data_segments": len(data),
        "segments": len(rows),
        "both_ways": int((rows["payload_bytes"] > 0).sum()),
        "stall_ms": float(gaps.max()) / 1e6,
        "reason": causes[path.name],
    }


def _found(work: Work) -> dict[str, Any]:
    return _capture(work.folder / work.numbers["capture"])


def q4(work: Work) -> Verdict:
    """Data segments from the client."""
    found = _found(work)
    return count(
        work.answers["q4_data_segments"],
        found["data_segments"],
        name="q4_data_segments",
        hints=[
            Hint(
                found["segments"], "these are all segments, both ways, handshake and ACKs too.", 0
            ),
            Hint(found["both_ways"], "the server's replies are among them.", 0.5),
        ],
        wrong="From the client, and with payload.",
    )


def q5(work: Work) -> Verdict:
    """The longest pause between two data segments of the client."""
    return number(
        work.answers["q5_stall_ms"],
        _found(work)["stall_ms"],
        name="q5_stall_ms",
        unit="ms",
        within=0.05,
        hints=[Hint(_found(work)["stall_ms"] / 1e3, "this is in seconds.", 0.5)],
        wrong="Look at the largest difference between the times of two data segments in a row.",
    )


def q6(work: Work) -> Verdict:
    """Why."""
    return choice(
        work.answers["q6_reason"],
        _found(work)["reason"],
        task.REASONS,
        name="q6_reason",
        wrong="Was the data written before the pause or after it (the log)? Did an ACK end it?",
    )


def q7(work: Work) -> Verdict:
    """records.c with the student's own number of records and round-trip time."""
    built = work.compile("records.c")
    if built.binary is None:
        return Verdict(0, f"records.c does not compile:\n{built.messages}")
    records = work.numbers["records"]
    run = task.run_records(work, records, work.numbers["record_rtt_ms"])
    verdict: Verdict = task.look_at_records(run, records)
    return verdict
