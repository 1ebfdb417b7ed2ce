"""Submissions per minute: `tcplab grade` beside stock `nbgrader autograde`, on the same ones.

Both grade the same solved copies of problem set 5, in turn, each time as if for the first time.
Ours sandboxes each, compiles its C program, runs it in a laboratory and judges what the wire saw;
stock nbgrader runs the notebook and nothing else, since its tests have no hidden part that could be
compared. Both start from a process of their own; neither makes feedback pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.goals import times
from bench.report import Part
from bench.rounds import Entrant, Measured, Rules, contest, summary

from tcplab.errors import LabError
from tcplab.tables import Column, Table

ROOT: Final = Path(__file__).resolve().parents[1]
ASSIGNMENT: Final = "ps5"
SUBMISSIONS: Final = 12
STOCK_NAME: Final = "nbgrader autograde"
#: The parts of one job, cells, compiler and programs, run on whatever processor is free.
ALONE: Final = "tcplab grade, 1 job, on 1 processor"
GOALS: Final = {STOCK_NAME: 1.5, ALONE: 1.3}
COLUMNS: Final = (
    Column("entrant", ""),
    Column("median", "submissions per minute", ".1f"),
    Column("range", "lowest–highest"),
    Column("rounds", "rounds", "d"),
)
#: nbgrader's defaults, but for the names of the folders.
STOCK: Final = """
c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "hidden"]
c.ClearSolutions.code_stub = {"python": "# Your lines go here."}
"""


def course_with_submissions(course: Path, submissions: int, *, stock: bool) -> Path:
    """Make a course with that many solved submissions, of nbgrader's settings or ours."""
    shutil.copytree(ROOT / "solutions" / ASSIGNMENT, course / "solutions" / ASSIGNMENT)
    if stock:
        (course / "nbgrader_config.py").write_text(STOCK)
    else:
        shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course / "solutions")
        shutil.copy(ROOT / "nbgrader_config.py", course)
    _run(course, "nbgrader", "generate_assignment", ASSIGNMENT)
    for number in range(submissions):
        target = course / "submitted" / f"student-{number:03}" / ASSIGNMENT
        shutil.copytree(course / "exercises" / ASSIGNMENT, target)
        _solve(course / "solutions" / ASSIGNMENT, target)
    (course / "gradebook.db").rename(course / "gradebook.fresh")
    return course


def _solve(source: Path, submission: Path) -> None:
    import nbformat

    answers = {
        cell.id: cell.source
        for cell in nbformat.read(source / f"{ASSIGNMENT}.ipynb", as_version=4).cells
    }
    notebook = nbformat.read(submission / f"{ASSIGNMENT}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell.id]
    nbformat.write(notebook, submission / f"{ASSIGNMENT}.ipynb")
    for path in (source / "hidden").glob("*.c"):
        shutil.copy(path, submission)


def _run(course: Path, *words: str, processors: int | None = None) -> None:
    """Run a command of nbgrader's or ours on some of the processors; None for all."""
    ours = sorted(os.sched_getaffinity(0))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [sys.executable, "-m", *words],
        cwd=course,
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=True,
        timeout=3600,
        preexec_fn=partial(os.sched_setaffinity, 0, ours[:processors]),
    )


def _measured(
    course: Path, words: Sequence[str], submissions: int, processors: int | None = None
) -> Measured:
    """Submissions per minute, from the command's start to its end, with nothing graded before."""
    for name in ("autograded", "feedback", "reports"):
        shutil.rmtree(course / name, ignore_errors=True)
    shutil.copy(course / "gradebook.fresh", course / "gradebook.db")
    start = time.perf_counter()
    _run(course, *words, processors=processors)
    minutes = (time.perf_counter() - start) / 60
    graded = len(list((course / "autograded").glob(f"*/{ASSIGNMENT}/{ASSIGNMENT}.ipynb")))
    if graded != submissions:
        raise LabError(f"{' '.join(words)}: {graded} of {submissions} graded")
    return Measured(submissions / minutes)


def _jobs() -> list[int]:
    """1, 2 and one per processor."""
    return sorted({1, 2, os.cpu_count() or 1})


def measure(rules: Rules, submissions: int = SUBMISSIONS) -> Part:
    """One row per entrant; the entrants in turn, five times at most."""
    rules = replace(rules, rounds=min(rules.rounds, 5), repeats=min(rules.repeats, 1))
    with tempfile.TemporaryDirectory(prefix="tcplab-bench-") as folder:
        stock, ours = (
            course_with_submissions(Path(folder) / kind, submissions, stock=kind == "stock")
            for kind in ("stock", "ours")
        )
        entrants: dict[str, Entrant] = {
            STOCK_NAME: partial(
                _measured, stock, ["nbgrader", "autograde", ASSIGNMENT], submissions
            )
        }
        for jobs, processors in [(1, 1), *((jobs, None) for jobs in _jobs())]:
            words = ["tcplab", "grade", ASSIGNMENT, f"--jobs={jobs}", "--no-feedback"]
            name = ALONE if processors == 1 else _name(jobs)
            entrants[name] = partial(_measured, ours, words, submissions, processors)
        samples = contest(entrants, rules, "grading, submissions per minute")
    return part([{"entrant": name, **summary(taken)} for name, taken in samples.items()])


def part(rows: Sequence[dict[str, Any]]) -> Part:
    """The section of the document."""
    text = "The same twelve solved submissions of problem set 5, from the command's start to its"
    text += (
        " end. Ours run in sandboxes, each C program in a laboratory; nbgrader runs the notebook"
    )
    text += " and nothing else."
    by_name = {row["entrant"]: row["median"] for row in rows}
    two = _name(2)
    goals = [
        times("grading", f"{two}, submissions per minute", factor, of, by_name[two] / by_name[of])
        for of, factor in GOALS.items()
    ]
    for row in rows:
        row["range"] = f"{row['lowest']:.1f}–{row['highest']:.1f}"
    return Part("Grading", text, [Table(COLUMNS, rows)], goals)


def _name(jobs: int) -> str:
    return f"tcplab grade, {jobs} job{'s' * (jobs > 1)}"
