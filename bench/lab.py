"""Measure how long it takes to start and to close a laboratory.

Each round is a new Python process, so that its first laboratory includes the import of the modules.
Twenty more laboratories follow immediately, and all of them stay open together.
"""

import json
import subprocess
import sys
from typing import Final

from bench.goals import at_most
from bench.report import Part
from bench.rounds import Measured, Rules, say, summary, undisturbed

from tcplab.tables import Column, Table

LABORATORIES: Final = 20
SCRIPT: Final = """
import json, sys, time
from tcplab import Lab

def timed(work):
    start = time.perf_counter()
    made = work()
    return made, 1e3 * (time.perf_counter() - start)

lab, first_up_ms = timed(Lab)
_, first_down_ms = timed(lab.close)
made = [timed(Lab) for _ in range(int(sys.argv[1]))]
closed = [timed(lab.close) for lab, _ in made]
up_ms, down_ms = (sorted(ms for _, ms in times) for times in (made, closed))
middle = len(made) // 2
print(json.dumps({"first_up": first_up_ms, "first_down": first_down_ms, "up": up_ms[middle],
                  "down": down_ms[middle], "slowest_up": up_ms[-1], "slowest_down": down_ms[-1]}))
"""
COLUMNS: Final = (
    Column("which", ""),
    Column("up", "up (ms)", ".0f"),
    Column("down", "down (ms)", ".1f"),
)


def measure(rules: Rules) -> Part:
    """Measure the first laboratory of a process, and twenty later ones."""
    times = summary([undisturbed(_round, rules) for _ in range(rules.rounds)])
    say(f"lab: up {times['first_up']:.0f} ms, then {times['up']:.0f} ms")
    kinds = {
        "first_": "the first laboratory of a process",
        "": f"of {LABORATORIES} more, all open at once, the median",
        "slowest_": "the slowest of these",
    }
    rows = [
        {"which": which, "up": times[f"{kind}up"], "down": times[f"{kind}down"]}
        for kind, which in kinds.items()
    ]
    return Part(
        "The laboratory",
        "*Up* is the time that `Lab()` takes. *Down* is the time that `close()` takes to kill"
        " everything in the laboratory. The kernel frees the rings later.",
        [Table(COLUMNS, rows)],
        [
            at_most("the laboratory", "the first laboratory, up, ms", 300, times["first_up"]),
            at_most("the laboratory", "a later one, up, ms", 150, times["up"]),
            at_most("the laboratory", "down, ms", 50, max(times["first_down"], times["down"])),
        ],
    )


def _round() -> Measured:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(LABORATORIES)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    times = json.loads(done.stdout)
    return Measured(times["first_up"], more=times)
