"""All benchmarks side by side: `make bench`.

    python -m tests.benchmarks [--only PART]... [--rounds N] [--repeats N] [--seconds S]
                               [--minutes M] [--output DIR]

PART is programs, lab, wire, capture, reading, panels or grading. Ends with exit status 0 whatever
was measured: a missed goal is told in the document, and a slow machine is no mistake. Best run on a
machine that has nothing else to do; the peers that are not installed are named aloud. A result of
some parts goes to another DIR than docs, where it would replace that of all.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks import (
    bench_capture,
    bench_grading,
    bench_lab,
    bench_panels,
    bench_programs,
    bench_segments,
    bench_wire,
    report,
    tools,
)
from tests.benchmarks.quiet import DISTURBED, Others, Rules, tell

from tcplab.errors import LabError
from tcplab.experiments import provenance, wire_bench
from tcplab.lab import Lab, program_path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PARTS = ("programs", "lab", "wire", "capture", "reading", "panels", "grading")


def main() -> None:
    """Measures, and writes benchmarks.md, benchmarks.json and images/benchmarks.svg."""
    arguments = _arguments()
    start = time.monotonic()
    repeat_until = start + 60 * arguments.minutes
    rules = Rules(arguments.rounds, arguments.repeats, arguments.seconds, repeat_until)
    with Others() as others:
        time.sleep(1)
    if others.share > DISTURBED:
        tell(f"others use {100 * others.share:.0f} % of the processors: a quiet machine is better")
    try:
        results = _measure(arguments.only or PARTS, rules)
    except LabError as error:
        sys.exit(f"benchmarks: {error}")
    results["provenance"]["took_s"] = round(time.monotonic() - start)
    report.write(results, arguments.output)
    tell(f"written: {arguments.output}/benchmarks.md, .json and images/benchmarks.svg")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="this part; may be given again (all)"
    )
    parser.add_argument("--rounds", type=_positive, default=7, help="of each contest (7)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="how often a disturbed round is run again (3)"
    )
    parser.add_argument("--seconds", type=_positive, default=1, help="a round lasts (1)")
    parser.add_argument(
        "--minutes", type=float, default=8, help="after so long no round is run again (8)"
    )
    parser.add_argument("--output", type=Path, default=DOCS, help="directory (docs)")
    arguments = parser.parse_args()
    if arguments.only and arguments.output == DOCS:
        parser.error("--only would replace docs/benchmarks.md by a part of it: give --output DIR")
    return arguments


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1")
    return int(text)


def _measure(parts: tuple[str, ...] | list[str], rules: Rules) -> dict[str, Any]:
    with Lab() as lab:
        origin = provenance(
            lab,
            compiler=_compiler(),
            versions=tools.versions(),
            absent=[name for name, present in tools.available().items() if not present],
            rounds=rules.rounds,
            repeats=rules.repeats,
            seconds=rules.seconds,
            disturbed_percent=100 * DISTURBED,
        )
    results: dict[str, Any] = {"provenance": origin}
    if "programs" in parts:
        results["programs"] = bench_programs.measure(rules)
    if "lab" in parts:
        results["lab"] = bench_lab.measure(rules)
        results["lab_goals"] = bench_lab.goals(results["lab"])
    if "wire" in parts:
        found = wire_bench.measure(seconds=2 * rules.seconds, rounds=rules.rounds, progress=tell)
        results["wire"] = {**found.as_data(), "forwarders": bench_wire.measure(rules)}
        results["wire_goals"] = bench_wire.goals(results["wire"])
    if "capture" in parts:
        results["capture"] = bench_capture.measure(rules)
        results["capture_goals"] = bench_capture.goals(results["capture"])
    if "reading" in parts:
        rows, counts = bench_segments.measure(rules)
        results["reading"] = {"rows": rows, **counts}
        results["reading_goals"] = bench_segments.goals(rows)
    if "panels" in parts:
        results["panels"] = bench_panels.measure(rules)
        results["panels_goals"] = bench_panels.goals(results["panels"])
    if "grading" in parts:
        results["grading"] = bench_grading.measure(rules)
        results["grading_goals"] = bench_grading.goals(results["grading"])
    return results


def _compiler() -> str:
    """What the object files of a program say of their origin."""
    found = re.search(
        rb"(GCC: \([^\0]*|clang version [^\0]*)", program_path("tcpsource").read_bytes()
    )
    return found.group().decode(errors="replace") if found else "an unknown compiler"


if __name__ == "__main__":
    main()
