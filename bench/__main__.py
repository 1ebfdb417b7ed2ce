"""Run all benchmarks: `make bench`.

    python -m bench [--only PART]... [--rounds N] [--repeats N] [--seconds S] [--minutes M]
                    [--output DIR]

The exit status is 0 even if a goal is missed, since the document reports that, and a slow machine
is not an error. Run it on an idle machine. The document names the peers that are not
installed. If you run only some parts, choose a DIR other than docs, where their results would
replace those of all parts.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import capture, explain, lab, peers, programs, report, wire
from bench.rounds import DISTURBED, Others, Rules, say

from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.lab import Lab, program_path

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PARTS: Final[dict[str, Callable[[Rules], report.Part]]] = {
    "programs": programs.measure,
    "lab": lab.measure,
    "wire": wire.measure,
    "capture": capture.measure,
    "explain": explain.measure,
}


def main() -> None:
    """Measure, and write benchmarks.md, benchmarks.json and images/benchmarks.svg."""
    arguments = _arguments()
    start = time.monotonic()
    repeat_until = start + 60 * arguments.minutes
    rules = Rules(arguments.rounds, arguments.repeats, arguments.seconds, repeat_until)
    with Others() as others:
        time.sleep(1)
    if others.share > DISTURBED:
        say(f"others use {100 * others.share:.0f} % of the processors: a quiet machine is better")
    try:
        origin = _origin(rules)
        parts = [PARTS[name](rules) for name in PARTS if name in (arguments.only or PARTS)]
    except LabError as error:
        sys.exit(f"bench: {error}")
    origin["took_s"] = round(time.monotonic() - start)
    report.write(origin, parts, arguments.output)
    say(f"written: {arguments.output}/benchmarks.md, .json and images/benchmarks.svg")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=PARTS,
        help="measure only this part; may be repeated (default: all)",
    )
    parser.add_argument("--rounds", type=_positive, default=7, help="rounds of each contest (7)")
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="maximum number of times to repeat a disturbed round (3)",
    )
    parser.add_argument("--seconds", type=_positive, default=1, help="length of a round (1)")
    parser.add_argument(
        "--minutes", type=float, default=8, help="repeat no round after this time (8)"
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


def _origin(rules: Rules) -> dict[str, Any]:
    with Lab() as network:
        return dict(
            provenance(
                network,
                compiler=_compiler(),
                versions=peers.versions(),
                absent=[name for name, present in peers.available().items() if not present],
                rounds=rules.rounds,
                repeats=rules.repeats,
                seconds=rules.seconds,
                disturbed_percent=100 * DISTURBED,
            )
        )


def _compiler() -> str:
    """Return the compiler that built a program of the course, from a comment in its ELF file."""
    match = re.search(
        rb"(GCC: \([^\0]*|clang version [^\0]*)", program_path("tcpsource").read_bytes()
    )
    return match.group().decode(errors="replace") if match else "an unknown compiler"


if __name__ == "__main__":
    main()
