"""Problem set 5, Nagle and delayed ACK: what is asked, each student's numbers, public checks.

Learners get this file. The hidden judge uses `look_at_records` too, with other parameters.
"""

from __future__ import annotations

from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.checks import as_number, choice, combine, describe
from tcplab.grading.sandbox import Limits
from tcplab.grading.work import LabRun, Work

#: question -> the notebook's variables
ANSWERS = {
    "q1": ["q1_default_ms", "q1_nodelay_ms"],
    "q2": ["q2_payload_percent"],
    "q3": ["q3_waits"],
    "q4": ["q4_data_segments"],
    "q5": ["q5_stall_ms"],
    "q6": ["q6_reason"],
    "q7": [],
}
FILES = ["records.c"]

REASONS = ("held-by-nagle", "corked", "application-idle")
MSS_BYTES = 1448


def numbers(own: Numbers) -> dict[str, Any]:
    """The student's own numbers."""
    small, large = own.integer("small", 20, 90, 10), own.integer("large", 100, 400, 20)
    patterns = [
        (large,),
        (small, large),
        (MSS_BYTES, large),
        (2 * MSS_BYTES, small),
        (MSS_BYTES - 8, large),
    ]
    turn = own.integer("turn", 0, 4)
    return {
        "rtt_ms": own.pick("rtt_ms", [10, 16, 24, 30, 50, 60, 80]),
        "writes": own.integer("writes", 3, 12),
        "write_bytes": own.pick("write_bytes", [1, 2, 4, 6, 10, 14, 22]),
        "patterns": patterns[turn:] + patterns[:turn],
        "capture": f"captures/{own.integer('capture', 1, 6)}.pcapng",
        "records": own.integer("records", 24, 32),
        "record_rtt_ms": own.pick("record_rtt_ms", [60, 70, 80]),
    }


# ---- public checks: is it an answer at all, and is it of the right kind? -------------------------


def check_q1(work: Work) -> Verdict:
    """Both are times, and the cure does not make it slower."""
    slow, fast = (as_number(work.answers[name]) for name in ANSWERS["q1"])
    if slow is None or fast is None:
        given = ", ".join(f"{name} = {describe(work.answers[name])}" for name in ANSWERS["q1"])
        return Verdict(0, f"{given}: give two plain numbers, in milliseconds.")
    if slow <= fast:
        return Verdict(0, "With TCP_NODELAY nothing waits. Can that be the slower one?")
    if fast < work.numbers["rtt_ms"]:
        return Verdict(0, "A reply cannot be there before one round trip is over.")
    return Verdict(1, "The order is right. Count the round trips once more before you hand in.")


def check_q2(work: Work) -> Verdict:
    """A percentage."""
    given = as_number(work.answers["q2_payload_percent"])
    if given is None or not 0 < given < 100:
        return Verdict(0, "q2_payload_percent must be a number between 0 and 100.")
    if given > 50:
        return Verdict(0, "More payload than headers, with writes as small as these?")
    return Verdict(1, "A plausible share.")


def check_q3(work: Work) -> Verdict:
    """A list of indices."""
    given = work.answers["q3_waits"]
    most = len(work.numbers["patterns"])
    if not isinstance(given, list) or any(each not in range(most) for each in given):
        return Verdict(0, f"q3_waits must be a list of indices from 0 to {most - 1}, such as [0].")
    return Verdict(1, "A list of patterns. Have you tried one of them in a lab?")


def check_q6(work: Work) -> Verdict:
    """One of the reasons."""
    given = work.answers["q6_reason"]
    if given not in REASONS:
        return choice(given, REASONS[0], REASONS, name="q6_reason")
    return Verdict(1, "One of the reasons. What in the capture and the log speaks for it?")


def check_q7(work: Work) -> Verdict:
    """Compiles records.c and sends 20 records over a wire of 50 ms."""
    built = work.compile("records.c")
    if built.binary is None:
        return Verdict(0, f"records.c does not compile:\n{built.messages}")
    return look_at_records(run_records(work, records=20, rtt_ms=50), 20)


# ---- records.c -----------------------------------------------------------------------------------


def run_records(work: Work, records: int, rtt_ms: float) -> LabRun:
    """The learner's program on the client, recordsink on the server."""
    return work.run_in_lab(
        work.compile("records.c"),
        ["10.0.0.2", "{port}", str(records)],
        peer=["recordsink", "--json", "--port", "0", "--quickack", "always"],
        lab={"rtt_ms": rtt_ms},
        limits=Limits(wall_s=20, cpu_s=8, processes=8),
    )


def record_sizes(records: int) -> list[int]:
    """What records.c sends: record i has 20 + 7 i modulo 81 bytes."""
    return [20 + 7 * i % 81 for i in range(records)]


def look_at_records(run: LabRun, records: int) -> Verdict:
    """Two things to see in a capture: where segments end, and whether a record had to wait."""
    sizes = record_sizes(records)
    if not run.outcome.ok:
        return Verdict(0, f"records {run.outcome.how_it_ended()}.")
    if run.peer is None or run.peer["records"] != records or run.peer["bytes"] != sum(sizes):
        found = run.peer_error or f"{run.peer and run.peer['records']} of {records} records came"
        return Verdict(0, f"The receiver did not get the records as they are: {found}.")
    sent = run.sent_sizes()
    ends = {sum(sizes[: i + 1]) for i in range(records)}
    seen, position = 0, 0
    for size in sent:
        position += size
        seen += position in ends
    if seen == len(sent):
        whole = Verdict(1, "Every segment ends where a record ends.")
    else:
        whole = Verdict(
            0,
            f"Your program sent {len(sent)} segments for {records} records, and {len(sent) - seen}"
            " of them end in the middle of one. TCP saw pieces: write a record at once, or cork.",
        )
    return combine([(0.5, whole), (0.5, _look_at_waiting(run, records))])


def _look_at_waiting(run: LabRun, records: int) -> Verdict:
    """A record that does not wait leaves while those before it are still un-ACKed."""
    rows = run.client_segments
    acked, ahead = 1, 0
    for row in rows:
        if row["direction"] == 1:
            acked = max(acked, int(row["ack"]))
        elif row["payload_bytes"] and not row["is_retransmission"] and int(row["seq"]) > acked:
            ahead += 1
    if 2 * ahead >= records - 1:
        return Verdict(1, "No record waited for the ACK of another.")
    return Verdict(
        0,
        f"Records come every 20 ms, and only {ahead} segments left before the ACK of what was sent"
        " before. The others were held until it came: which rule holds them, and what switches it"
        " off?",
    )
