"""The cost of submissions that mean harm: a class of them with 2 jobs, and the worst of them alone.

The class is the attacks and damages of the tests, handed in to the tests' assignment, and beside
them those that take as long as they can: cells and programs that do not end, texts that take long
to render. The worst is then graded alone, and an honest one: the difference is what one of them
costs the others.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.goals import at_most
from bench.report import Part
from bench.rounds import Rules, say

from tcplab.errors import LabError
from tcplab.grading.generate import generate
from tcplab.tables import Column, Table

ROOT: Final = Path(__file__).resolve().parents[1]
HONEST: Final = ("ada", "mia", "nora", "zoe")
FULL: Final = 5.0
ALL_MINUTES: Final = 10.0
ONE_S: Final = 60.0
COLUMNS: Final = (
    Column("what", ""),
    Column("count", "submissions", "d"),
    Column("took", "wall time, s", ".0f"),
)

Spoil = Callable[[Path], object]


def _slow() -> dict[str, Spoil]:
    """Submissions that use up what time they have, each at another place."""
    from tests.support.grading.damaged import changed, find
    from tests.support.grading.hostile import cell, program

    stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"

    def in_every_cell(source: str) -> Spoil:
        def change(notebook: dict[str, Any]) -> None:
            for name in ("q1-answer", "q2-answer"):
                find(notebook, name)[1]["source"] = source

        return changed(change)

    def both(*spoils: Spoil) -> Spoil:
        return lambda folder: [spoil(folder) for spoil in spoils]

    waits = "for (;;) pause();"
    slow_text: Spoil = changed(
        lambda notebook: find(notebook, "w1-answer")[1].update(source="\\begin{a}" * 100_000)
    )
    return {
        "sleeps": cell("import time", "time.sleep(10**6)"),
        "sleeps-in-every-cell": in_every_cell("import time; time.sleep(10**6)"),
        "stubborn": cell(stubborn),
        "stubborn-in-every-cell": in_every_cell(stubborn),
        "many-cells": changed(
            lambda notebook: notebook["cells"].extend(
                {
                    "cell_type": "code",
                    "id": f"more-{number}",
                    "metadata": {},
                    "source": stubborn,
                    "outputs": [],
                    "execution_count": None,
                }
                for number in range(200)
            )
        ),
        "c-waits": program(waits),
        "c-deaf": program(f"for (int i = 1; i < 64; i++) signal(i, SIG_IGN);\n{waits}", "signal"),
        "c-stops-itself": program("raise(SIGSTOP);", "signal"),
        "c-prints-forever": program('for (;;) puts("42");'),
        "exits-late-in-every-cell": in_every_cell("import os, time; time.sleep(20); os._exit(3)"),
        "cells-and-c": both(in_every_cell(stubborn), program(waits)),
        "compiler": both(
            lambda folder: (folder / "total.c").write_text(
                '__asm__(".rept 400000000\\n.byte 1\\n.endr");\nint main(void) { return 0; }\n'
            ),
            in_every_cell(stubborn),
        ),
        "slow-text": slow_text,
        "slow-everywhere": both(in_every_cell(stubborn), program(waits), slow_text),
    }


def spoils() -> dict[str, Spoil]:
    """All of the class by name, without the honest ones."""
    from tests.slow.grading.test_intake import HOSTILE
    from tests.support.grading.damaged import DAMAGES
    from tests.support.grading.greedy import GREEDY
    from tests.support.grading.hostile import ATTACKS, cell

    return {
        **{f"hostile-{name}": attack.do for name, attack in ATTACKS.items()},
        **{f"damaged-{name}": damage.do for name, damage in DAMAGES.items()},
        **{f"greedy-{name}": cell(greed.source) for name, greed in GREEDY.items()},
        **{
            f"intake-{name}": each.do
            for name, each in HOSTILE.items()
            if each.score is not None and name not in HONEST
        },
        **{f"slow-{name}": spoil for name, spoil in _slow().items()},
    }


def class_in(folder: Path) -> Path:
    """Makes the course with the class's submissions."""
    from tests.support.grading.fixtures import Tiny
    from tests.support.grading.tiny import write_tiny

    course = folder / "course"
    write_tiny(course / "solutions" / "tiny")
    shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course / "solutions")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    generate(course, course / "exercises")
    tiny = Tiny(course)
    for student in HONEST:
        tiny.hand_in(course / "submitted" / student)
    for name, spoil in spoils().items():
        spoil(tiny.hand_in(course / "submitted" / name))
    return course


def measure(_rules: Rules) -> Part:
    """Three rows; the class once, and two of it alone."""
    with tempfile.TemporaryDirectory(prefix="tcplab-bench-") as name:
        course = class_in(Path(name))
        all_s = _graded_in_s(course, "--jobs", "2")
        _insist_on_scores(course)
        worst, count = _worst(course), len(list((course / "submitted").iterdir()))
        alone_s = {
            student: _graded_in_s(course, student, "--again", "--jobs", "1")
            for student in (worst, HONEST[0])
        }
    say(f"hostile: the worst is {worst}")
    return part(count, all_s, worst, *alone_s.values())


def _graded_in_s(course: Path, *words: str) -> float:
    command = [sys.executable, "-m", "tcplab", "grade", "tiny", *words]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, timeout=3600)
    if not (course / "reports" / "tiny" / "grades.csv").is_file():
        raise LabError(f"{' '.join(words)}: {done.stderr[-300:]}")
    return time.perf_counter() - start


def _insist_on_scores(course: Path) -> None:
    """Everybody is in the report, and the honest have all of their points.

    Raises:
        LabError: somebody is not, or has not.
    """
    with (course / "reports" / "tiny" / "grades.csv").open(newline="") as file:
        scores = {row["student"]: row["score"] for row in csv.DictReader(file)}
    lost = {each.name for each in (course / "submitted").iterdir()} - set(scores)
    wrong = {student: scores[student] for student in HONEST if float(scores[student]) != FULL}
    if lost or wrong:
        raise LabError(f"not graded: {sorted(lost)}; honest, and not {FULL} points: {wrong}")


def _worst(course: Path) -> str:
    """Whose cells and questions took longest."""
    records = (course / "reports" / "tiny" / "records").glob("*.json")
    return max(records, key=lambda path: json.loads(path.read_text())["seconds"]).stem


def part(count: int, all_s: float, worst: str, worst_s: float, honest_s: float) -> Part:
    """The section of the document.

    Args:
        count: submissions in the class.
        all_s: for all of them.
        worst: the one that took longest.
        worst_s: for it alone.
        honest_s: for an honest one alone.
    """
    text = (
        f"A class of {count}: {len(HONEST)} honest submissions among attacks, damages and"
        " whatever uses up the time it has, graded with 2 jobs and feedback. The honest ones had"
        " all of their points."
    )
    rows = [
        {"what": "the class, 2 jobs", "count": count, "took": all_s},
        {"what": f"the worst alone ({worst})", "count": 1, "took": worst_s},
        {"what": "an honest one alone", "count": 1, "took": honest_s},
    ]
    goals = [
        at_most("hostile", "the whole class, 2 jobs, in minutes", ALL_MINUTES, all_s / 60),
        at_most("hostile", "one costs the others, in s", ONE_S, worst_s - honest_s),
    ]
    return Part("Submissions that mean harm", text, [Table(COLUMNS, rows)], goals)
