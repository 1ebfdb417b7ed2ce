"""Submissions a minute: `tcplab grade` beside stock `nbgrader autograde`, on the same submissions.

    python -m tests.benchmarks.bench_grading [SUBMISSIONS]

Both grade the same solved copies of problem set 5, new each time. Ours sandboxes each, compiles its
C program, runs it in a laboratory and judges what the wire saw; stock nbgrader runs the notebook
and nothing else, since its tests have no hidden part that could be compared. Both start from
processes of their own; neither makes feedback pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.quiet import Measured, Rules, summary, tell, undisturbed

ROOT: Final = Path(__file__).resolve().parents[2]
ASSIGNMENT: Final = "ps5"
SUBMISSIONS: Final = 12
#: nbgrader's defaults, but for the names of the folders.
STOCK: Final = """
c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "hidden"]
c.ClearSolutions.code_stub = {"python": "# Your lines go here."}
"""


def _course(folder: Path, submissions: int, *, stock: bool) -> Path:
    course = folder / "course"
    shutil.copytree(ROOT / "solutions" / ASSIGNMENT, course / "solutions" / ASSIGNMENT)
    if stock:
        (course / "nbgrader_config.py").write_text(STOCK)
    else:
        shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course / "solutions")
        shutil.copy(ROOT / "nbgrader_config.py", course)
    _run(course, "nbgrader", "generate_assignment", ASSIGNMENT)
    for number in range(submissions):
        there = course / "submitted" / f"student-{number:03}" / ASSIGNMENT
        shutil.copytree(course / "exercises" / ASSIGNMENT, there)
        _solve(course / "solutions" / ASSIGNMENT, there)
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


def _run(course: Path, *words: str) -> None:
    module = "nbgrader" if words[0] == "nbgrader" else "tcplab.cli"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [sys.executable, "-m", module, *words[1:]],
        cwd=course,
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=True,
        timeout=3600,
    )


def _timed(words: Sequence[str], submissions: int, *, stock: bool) -> Measured:
    with tempfile.TemporaryDirectory(prefix="tcplab-bench-") as name:
        course = _course(Path(name), submissions, stock=stock)
        start = time.perf_counter()
        _run(course, *words)
        minutes = (time.perf_counter() - start) / 60
    return Measured(submissions / minutes)


def measure(rules: Rules, submissions: int = SUBMISSIONS) -> list[dict[str, Any]]:
    """A row an entrant, with submissions a minute."""
    entrants = {
        "nbgrader autograde": (["nbgrader", "autograde", ASSIGNMENT], True),
        "tcplab grade, 1 job": (
            ["tcplab", "grade", ASSIGNMENT, "--jobs=1", "--no-feedback"],
            False,
        ),
        "tcplab grade, 2 jobs": (
            ["tcplab", "grade", ASSIGNMENT, "--jobs=2", "--no-feedback"],
            False,
        ),
    }
    rows = []
    for entrant, (words, stock) in entrants.items():
        samples = [
            undisturbed(lambda w=words, s=stock: _timed(w, submissions, stock=s), rules)  # type: ignore[misc]
            for _ in range(rules.rounds)
        ]
        found = summary(samples)
        tell(f"grading: {entrant}: {found['value']:.0f} submissions a minute")
        rows.append({"entrant": entrant, "submissions_per_min": found["median"]})
    return rows


def goals(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The issue's: with 2 jobs at least twice stock nbgrader."""
    by_name = {row["entrant"]: row["submissions_per_min"] for row in rows}
    factor = by_name["tcplab grade, 2 jobs"] / by_name["nbgrader autograde"]
    return [
        {
            "entrant": "tcplab grade, 2 jobs, submissions a minute",
            "of": "at least 2 x nbgrader autograde",
            "factor": factor,
            "was": by_name["tcplab grade, 2 jobs"],
            "reached": factor >= 2,
        }
    ]


def main() -> None:
    """Prints the rows and whether the goal was reached."""
    rules = Rules(rounds=1, repeats=0, seconds=1, repeat_until=time.monotonic())
    rows = measure(rules, int(sys.argv[1]) if len(sys.argv) > 1 else SUBMISSIONS)
    for row in [*rows, *goals(rows)]:
        print(row)


if __name__ == "__main__":
    main()
