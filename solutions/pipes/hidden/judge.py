"""The hidden judge of the problem set "pipes", which runs only in the grader.

It computes the right answers from the models and the handed-out capture, and checks programs
by their traffic.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.captures import facts_of, longest_pause
from tcplab.grading.checks import Hint, Verdict, combine
from tcplab.grading.submission import Submission
from tcplab.models import Encapsulation, chain_cost, goodput_mbyte_s

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_of_pipes")

MIB_PER_MB = 1e6 / 2**20

#: The programs of each chain, by their names in tcplab.models.
STAGES = {
    "dd if=/dev/zero | nc  →  nc > /dev/null": ("dd /dev/zero", "nc from pipe", "nc > /dev/null"),
    "dd if=film | nc  →  nc > copy": ("dd file", "nc from pipe", "nc > file"),
    "nc < film  →  nc > /dev/null": ("nc < file", "nc > /dev/null"),
    "netcat --splice < film  →  nc > /dev/null": ("netcat --splice < file", "nc > /dev/null"),
    "nc < film  →  nc > copy": ("nc < file", "nc > file"),
    "dd if=/dev/zero | nc  →  nc | dd of=/dev/null": (
        "dd /dev/zero",
        "nc from pipe",
        "nc to pipe",
        "dd > /dev/null",
    ),
    "netcat --splice < film  →  nc > copy": ("netcat --splice < file", "nc > file"),
    "nc < film  →  nc | dd of=/dev/null": ("nc < file", "nc to pipe", "dd > /dev/null"),
}


def q1(submission: Submission) -> Verdict:
    """Check the link's goodput in MB/s and MiB/s, the units of dd and pv."""
    rate, mtu = submission.numbers["rate_mbit"], submission.numbers["mtu_bytes"]
    right = goodput_mbyte_s(rate, mtu)
    hints = [
        Hint(rate / 8, "this is all that the link carries, including headers and gaps."),
        Hint(
            goodput_mbyte_s(rate, mtu, Encapsulation(timestamps=False)),
            "the time stamps option takes 12 bytes of each packet.",
            0.5,
        ),
        Hint(
            goodput_mbyte_s(rate, mtu, Encapsulation(link="frame")),
            "the link also carries the preamble, the checksum and a gap, which no capture shows.",
            0.5,
        ),
        Hint(
            goodput_mbyte_s(rate, mtu, Encapsulation(link="none")),
            "the packet travels in a frame, which takes more time on the link.",
            0.5,
        ),
        Hint(8 * right, "this is in Mbit/s; a byte has 8 bits.", 0.5),
    ]
    in_mb = submission.check_number(
        "q1_mb_per_s",
        right,
        unit="MB/s",
        within=0.003,
        hints=hints,
        wrong="Divide the data by everything that a packet takes on the link, and multiply by"
        " the rate in bytes.",
    )
    in_mib = submission.check_number(
        "q1_mib_per_s",
        right * MIB_PER_MB,
        unit="MiB/s",
        within=0.003,
        hints=[
            Hint(right, "this is in MB/s; how many bytes does a MiB have?"),
            Hint(right / MIB_PER_MB, "a MiB is more than a MB, so there are fewer of them.", 0.25),
            *(Hint(hint.value * MIB_PER_MB, hint.message, hint.share) for hint in hints),
        ],
        wrong="It is the same rate, in units of 2^20 bytes.",
    )
    return combine([(0.6, in_mb), (0.4, in_mib)])


def q2(submission: Submission) -> Verdict:
    """Check the number of copies in each chain."""
    chains = submission.numbers["chains"]
    right = [chain_cost(*STAGES[chain]).copies for chain in chains]
    to_null = [chain.endswith("/dev/null") for chain in chains]
    as_the_text = [copies + null for copies, null in zip(right, to_null, strict=True)]
    return submission.check_counts(
        "q2_copies",
        right,
        hints=[
            Hint(
                as_the_text,
                "each read and write counts here. What does /dev/null do with the data?",
                0.5,
            )
        ],
        wrong="A read copies, and a write copies. Writing to /dev/null and splicing save copies.",
    )


def q3(submission: Submission) -> Verdict:
    """Check the cost of a copy, which follows from two chains, and the cost of a third chain."""
    slow, fast = (
        submission.numbers["dd_netcat_s_per_gb"],
        submission.numbers["netcat_file_s_per_gb"],
    )
    copies = [
        chain_cost(*stages).copies
        for stages in (
            ("dd /dev/zero", "nc from pipe", "nc > /dev/null"),
            ("nc < file", "nc > /dev/null"),
            ("netcat --splice < file", "nc > /dev/null"),
        )
    ]
    copy_s = (slow - fast) / (copies[0] - copies[1])
    splice_s = fast - copy_s * (copies[1] - copies[2])
    price = submission.check_number(
        "q3_copy_s_per_gb",
        copy_s,
        unit="s/GB",
        hints=[
            Hint(slow - fast, "this is the price of all copies that one chain saves.", 0.5),
            Hint(
                slow / copies[0],
                "with this price, a chain without copies would cost nothing.",
                0.25,
            ),
            Hint(
                fast / copies[1],
                "with this price, a chain without copies would cost nothing.",
                0.25,
            ),
        ],
        wrong="By how many copies do the two chains differ, and by how much time?",
    )
    spliced = submission.check_number(
        "q3_splice_s_per_gb",
        splice_s,
        unit="s/GB",
        hints=[
            Hint(
                fast * copies[2] / copies[1],
                "this would be right if copies were the only cost; the rest remains.",
                0.25,
            ),
            Hint(fast - copy_s * copies[1], "one copy is left. At which end?", 0.5),
        ],
        wrong="How many copies are left? Add their price to the rest.",
    )
    return combine([(0.5, price), (0.5, spliced)])


def q4(submission: Submission) -> Verdict:
    """Check the size of the file; retransmitted bytes do not count."""
    facts = facts_of(submission.capture)
    once = facts.rows.data("client", retransmissions=False)["payload_bytes"]
    both_ways = facts.rows.data(retransmissions=False)["payload_bytes"]
    return submission.check_count(
        "q4_file_bytes",
        int(once.sum()),
        hints=[
            Hint(facts.payload_bytes, "some bytes were sent more than once; count them once.", 0.5),
            Hint(int(facts.data["wire_bytes"].sum()), "headers are not part of the file.", 0.5),
            Hint(int(both_ways.sum()), "this includes the server's bytes.", 0.5),
        ],
        wrong="Count payload from the client only, and each byte once, by its sequence number.",
    )


def q5(submission: Submission) -> Verdict:
    """Check the longest pause, and its reason."""
    facts = facts_of(submission.capture)
    stall = longest_pause(submission.answers["q5_stall_ms"], facts, name="q5_stall_ms")
    reason = submission.check_choice(
        "q5_reason",
        facts.cause,
        task.REASONS,
        wrong="Did the same bytes come first after the pause, or new bytes after an ACK that"
        " opened the window, or new bytes that nothing had held back?",
    )
    return combine([(1 / 3, stall), (2 / 3, reason)])


def q6(submission: Submission) -> Verdict:
    """Check the number of bytes that the server sent after the client's FIN."""
    rows = facts_of(submission.capture).rows
    fin_ns = rows[rows.from_client & rows.is_fin].first_time_ns
    answered = rows.data("server")
    after_fin = answered[answered["time_ns"] > fin_ns]
    return submission.check_count(
        "q6_bytes_after_fin",
        int(after_fin["payload_bytes"].sum()),
        hints=[
            Hint(
                int(answered["payload_bytes"].sum()),
                "some of these came while the client was still sending.",
                0.5,
            ),
            Hint(len(after_fin), "give bytes, not segments.", 0.5),
            Hint(0, "a FIN ends one direction only."),
        ],
        wrong="Find the client's FIN, then add up the payload that comes from the server.",
    )


def q7(submission: Submission) -> Verdict:
    """Run meter.c with a randomly drawn transfer, so that the program has to measure it."""

    def drawn(least: int, most: int) -> int:
        return least + secrets.randbelow(most - least + 1)

    size_bytes, seconds = drawn(240_000, 420_000), drawn(80, 120) / 100
    pauses_s = drawn(90, 150) / 100, drawn(90, 150) / 100
    transfer = task.Transfer(size_bytes, round(size_bytes * 8e-6 / seconds, 2), *pauses_s)
    verdict: Verdict = task.look_at_meter(submission, transfer)
    return verdict


def q8(submission: Submission) -> Verdict:
    """Send the learner's packets to a closed port of a kernel, and check the RSTs."""
    verdict: Verdict = task.check_q8(submission)
    return verdict
