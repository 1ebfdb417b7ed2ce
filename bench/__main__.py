"""Run all benchmarks: `make bench`.

    python -m bench [--only PART]... [--rounds N] [--repeats N] [--seconds S] [--minutes M]
                    [--short] [--output DIR]

The exit status is 0 even if a goal is missed, since the page reports that, and a slow machine is
not an error. Run it on an idle machine. Each part's result is written as soon as it is known, so an
interrupted run loses only the part that it was measuring. The page names the peers that are not
installed.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import capture, explain, lab, peers, programs, report, sources, wire
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
    """Measure each part, and store its result and make the page as soon as it is known."""
    arguments = _arguments()
    repeat_until = time.monotonic() + 60 * arguments.minutes
    rules = Rules(arguments.rounds, arguments.repeats, arguments.seconds, repeat_until)
    if arguments.short:
        rules = Rules(rounds=1, repeats=0, short=True)
    with Others() as others:
        time.sleep(1)
    if others.share > DISTURBED:
        say(f"others use {100 * others.share:.0f} % of the processors: a quiet machine is better")
    # The first part that is written changes docs/, so ask for the commit before.
    commit = sources.commit()
    failed = []
    for name in arguments.only or PARTS:
        start = time.monotonic()
        try:
            origin = _origin(rules) | {"commit": commit, "measured_c": sources.digest(name)}
            part = PARTS[name](rules)
        except LabError as error:
            say(f"bench: {name}: {error}")
            failed.append(name)
            continue
        origin["took_s"] = round(time.monotonic() - start)
        report.keep(name, origin, part, arguments.output)
        say(f"{name}: written to {arguments.output}/benchmarks.json, .md and images/benchmarks.svg")
    if failed:
        sys.exit(f"bench: not measured: {', '.join(failed)}; the other parts are written")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=PARTS,
        help="measure only this part, and keep the others; may be repeated (default: all)",
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
    parser.add_argument(
        "--short",
        action="store_true",
        help="try every part in one round at a small size, which says little; needs --output",
    )
    parser.add_argument("--output", type=Path, default=DOCS, help="directory (docs)")
    arguments = parser.parse_args()
    if arguments.short and arguments.output == DOCS:
        parser.error("--short would replace the results in docs/: give --output DIR")
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
    if not match:
        return "an unknown compiler"
    return match.group().decode(errors="replace").replace(": ", " ")


if __name__ == "__main__":
    main()
