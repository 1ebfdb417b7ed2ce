"""Feedback at submission: the seconds from a submission's arrival to its page, at 300 in an hour.

`tcplab grade ps5 --watch` waits at an exchange, in which solved submissions of problem set 5
arrive as `nbgrader submit` puts them there: at random moments (a Poisson process), on average one
in 12 s. The time of each is that which the grader tells. Whole hours of 300 are simulated with
these times, which are those of a few minutes.
"""

from __future__ import annotations

import heapq
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.goals import at_most
from bench.grading import ASSIGNMENT, course_with_submissions
from bench.report import Part
from bench.rounds import Rules

from tcplab.errors import LabError
from tcplab.tables import Column, Table

SUBMISSIONS: Final = 30
PAUSE_S: Final = 3600 / 300
P95_S: Final = 10.0
COLUMNS: Final = (
    Column("entrant", ""),
    Column("median", "median, s", ".1f"),
    Column("p95", "95th percentile, s", ".1f"),
    Column("worst", "longest, s", ".1f"),
    Column("count", "submissions", "d"),
)
JOBS: Final = 2
NAME: Final = f"tcplab grade --watch, {JOBS} jobs"
SIMULATED: Final = "hours of 300, simulated with these times"
HOURS: Final = 100
_TOLD: Final = re.compile(r"page released ([\d.]+) s after")


def measure(_rules: Rules) -> Part:
    """One row; it takes six minutes, whatever the machine."""
    with tempfile.TemporaryDirectory(prefix="tcplab-bench-") as name:
        course = course_with_submissions(Path(name) / "course", SUBMISSIONS, stock=False)
        exchange = Path(name) / "exchange"
        inbound = exchange / "tcplab" / "inbound"
        inbound.mkdir(parents=True)
        exchange.chmod(0o777)
        with (course / "nbgrader_config.py").open("a") as config:
            config.write(
                f"\nget_config().Exchange.root = {str(exchange)!r}\n"
                "get_config().ExchangeCollect.check_owner = False\n"
            )
        return part(sorted(_watched(course, inbound)))


def _watched(course: Path, inbound: Path) -> list[float]:
    """The times of all, in seconds."""
    command = [sys.executable, "-m", "tcplab", "grade", ASSIGNMENT, "--watch"]
    command += ["--jobs", str(JOBS)]
    log = course / "watch.log"
    chance = random.Random(ASSIGNMENT)
    with log.open("w") as out:
        grader = subprocess.Popen(command, cwd=course, stdout=out, stderr=subprocess.STDOUT)
    try:
        while "Waiting" not in log.read_text() and grader.poll() is None:
            time.sleep(0.1)
        for submission in sorted((course / "submitted").iterdir()):
            time.sleep(chance.expovariate(1 / PAUSE_S))
            at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f %Z")
            folder = inbound / f"{submission.name}+{ASSIGNMENT}+{at}+random"
            shutil.copytree(submission / ASSIGNMENT, folder)
            (folder / "timestamp.txt").write_text(at)
            (folder / "submission_secret.txt").write_text(submission.name)
            folder.chmod(0o777)
        until_s = time.monotonic() + 300
        while len(found := _TOLD.findall(log.read_text())) < SUBMISSIONS:
            if grader.poll() is not None or time.monotonic() > until_s:
                raise LabError(f"{len(found)} of {SUBMISSIONS} pages: {log.read_text()[-300:]}")
            time.sleep(0.2)
        grader.send_signal(signal.SIGTERM)
        grader.wait(timeout=120)
    finally:
        grader.kill()
        grader.wait()
    return [float(each) for each in found]


def simulated(times_s: Sequence[float], hours: int = HOURS) -> list[float]:
    """The times of whole hours of 300 arrivals, when each takes one of the measured times.

    Arrivals are a Poisson process, first come first served, in as many places as there are jobs.

    Returns:
        The times of all, in order of their length, the waiting for a place included.
    """
    chance = random.Random(ASSIGNMENT)
    free_at_s = [0.0] * JOBS
    at_s, found = 0.0, []
    for _ in range(round(hours * 3600 / PAUSE_S)):
        at_s += chance.expovariate(1 / PAUSE_S)
        end_s = max(at_s, heapq.heappop(free_at_s)) + chance.choice(times_s)
        heapq.heappush(free_at_s, end_s)
        found.append(end_s - at_s)
    return sorted(found)


def part(times_s: Sequence[float]) -> Part:
    """The section of the document.

    Args:
        times_s: of each submission, in order of their length.
    """
    text = (
        f"{SUBMISSIONS} solved submissions of problem set 5 arrive in nbgrader's exchange at random"
        f" moments, one in {PAUSE_S:g} s on average: from the arrival to the feedback page."
        f" Below it {HOURS} whole hours of 300 arrivals, not run but simulated: a queue with"
        f" {JOBS} places, in which each takes one of the measured times."
    )
    rows = [_row(NAME, times_s), _row(SIMULATED, simulated(times_s))]
    goals = [
        at_most("feedback", f"{row['entrant']}, 95th percentile in s", P95_S, row["p95"])
        for row in rows
    ]
    return Part("Feedback at submission", text, [Table(COLUMNS, rows)], goals)


def _row(entrant: str, times_s: Sequence[float]) -> dict[str, Any]:
    return {
        "entrant": entrant,
        "median": times_s[len(times_s) // 2],
        "p95": times_s[min(len(times_s) - 1, round(0.95 * len(times_s)))],
        "worst": times_s[-1],
        "count": len(times_s),
    }
