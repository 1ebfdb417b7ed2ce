"""The wire beside two programs that only forward, and what it is to reach.

    python -m tests.benchmarks --only wire --output DIR

How many Gbit/s a program can carry between two veth pairs depends on the machine more than on the
program. So the same transfers run, in turn, over the wire and over forward.c, which moves frames
and knows of no link: by recv() and send(), and by recvmmsg() and sendmmsg().
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

from tests.benchmarks.quiet import (
    Entrant,
    Measured,
    Rules,
    contest,
    median_interval,
    paired_ratios,
    summary,
    tell,
)

from tcplab.experiments import wire_bench
from tcplab.lab import Lab, program_path

WIRE: Final = "the wire"
MODES: Final = {
    "a forwarder by recv and send": "one",
    "a forwarder by recvmmsg and sendmmsg": "many",
}
#: Where the wire was to carry 5 Gbit/s, two sketches of it carried 3.3 and 4.7.
FACTORS: Final = dict(zip(MODES, (5 / 3.3, 5 / 4.7), strict=True))
_SOURCE = Path(__file__).with_name("forward.c")


def measure(rules: Rules) -> list[dict[str, Any]]:
    """A row for the wire and one for each forwarder: Gbit/s, offloads off; empty without cc."""
    compiler = shutil.which("cc")
    if compiler is None:
        tell("skipped: the wire beside mere forwarders (apt install gcc)")
        return []
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tcplab-")))
        _programs_with_forwarder(directory, compiler)
        labs = {WIRE: stack.enter_context(Lab())}
        for name, mode in MODES.items():
            with mock.patch.dict(os.environ, TCPLAB_BIN=str(directory), FORWARD_MODE=mode):
                labs[name] = stack.enter_context(Lab())
        entrants: dict[str, Entrant] = {
            name: partial(transfer, lab, rules.seconds) for name, lab in labs.items()
        }
        samples = contest(entrants, rules, "forwarding")
    return [{"entrant": name, **summary(taken)} for name, taken in samples.items()]


def transfer(lab: Lab, seconds: float) -> Measured:
    """One transfer over whatever is between the hosts, Gbit/s of payload."""
    gbit_per_s, wire_cpu_s_per_gb, _retransmissions = wire_bench.transfer(lab, seconds)
    moved = round(gbit_per_s / 8 * 1e9 * seconds)
    return Measured(gbit_per_s, moved, {"wire_cpu_s_per_gb": wire_cpu_s_per_gb})


def goals(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The issue's limits, and the wire against the forwarders round by round.

    Args:
        wire: wire_bench's data, and as "forwarders" what measure() found.
    """
    fast = [row for row in wire["delay"] if row["road"] == WIRE and row["pps"] == 10_000]
    rates = [row for row in wire["rate"] if row["road"] == WIRE]
    rate_errors = [abs(row["rate_error_percent"]) for row in rates if row["rate_mbit"] <= 500]
    goodput_errors = [abs(row["goodput_error_percent"]) for row in rates]
    through = {row["offload"]: row for row in wire["throughput"]}
    limits = [
        ("RTT error p50 at 10 000 packets/s, µs", 50, max(row["error_us_p50"] for row in fast)),
        ("RTT error p99 at 10 000 packets/s, µs", 300, max(row["error_us_p99"] for row in fast)),
        ("rate error up to 500 Mbit/s, %", 0.5, max(rate_errors)),
        ("goodput error, %", 1, max(goodput_errors)),
    ]
    told = [_limit(name, f"at most {most:g}", was, was <= most) for name, most, was in limits]
    # Others can only slow a transfer down: what the wire can carry is what the best round shows.
    for offload, least in (("off", 5), ("on", 20)):
        for which, key in (("best round", "highest"), ("median", "gbit_per_s")):
            name, was = f"Gbit/s, offloads {offload}, {which}", through[offload][key]
            told.append(_limit(name, f"at least {least}", was, was >= least))
    return told + _against_forwarders(wire["forwarders"])


def _limit(name: str, of: str, was: float, reached: bool) -> dict[str, Any]:
    return {"entrant": name, "of": of, "factor": None, "was": was, "reached": reached}


def _against_forwarders(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    values = {row["entrant"]: row["values"] for row in rows}
    told = []
    for forwarder, factor in FACTORS.items() if values else ():
        ratios = paired_ratios(values[WIRE], values[forwarder])
        was = statistics.median(ratios)
        goal = {"of": forwarder, "factor": factor, "was": was, "reached": was >= factor}
        interval = median_interval(ratios)
        told.append({"entrant": "Gbit/s, offloads off", **goal, "interval": interval})
    return told


def _programs_with_forwarder(directory: Path, compiler: str) -> None:
    """All the course's programs, but in the wire's place a forwarder."""
    for program in program_path("wire").parent.iterdir():
        if program.name != "wire" and program.is_file():
            (directory / program.name).symlink_to(program)
    words = [
        compiler,
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(directory / "wire"),
        str(_SOURCE),
    ]
    subprocess.run(words, check=True)
