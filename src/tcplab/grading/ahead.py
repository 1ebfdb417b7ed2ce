"""Judges submissions before their turn at nbgrader comes.

Much of the time that a submission takes is spent waiting: for its own process, for the compiler,
for a laboratory's round trips. So while nbgrader converts one notebook and writes its grades, the
next one is judged already. What was found is kept by a digest of all that the judge was given; if
nbgrader hands anything else to it, the submission is judged then, as if nothing had been done.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcplab.grading.checks import Verdict
from tcplab.grading.judging import Judge, Ran, parts_of
from tcplab.grading.repair import repair
from tcplab.grading.staging import content_key

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

__all__ = ["Judged", "judge", "judge_ahead"]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge found, and how long it took."""

    ran: Ran
    verdicts: dict[str, Verdict]
    seconds: float


_found: dict[str, Judged] = {}
_lock = threading.Lock()


def _key(
    student: str, cells: Sequence[tuple[int, str]], questions: Sequence[str], folder: Path
) -> str:
    return content_key(folder, json.dumps([student, list(cells), list(questions)]))


def judge(
    by: Judge,
    student: str,
    cells: Sequence[tuple[int, str]],
    questions: Sequence[str],
    folder: Path,
    *,
    cell_timeout_s: float,
) -> Judged:
    """As Judge.judge; what was found ahead for the very same submission is taken, once.

    Raises:
        SandboxError: no sandbox can be made here.
    """
    with _lock:
        found = _found.pop(_key(student, cells, questions, folder), None)
    return found or _judge(by, student, cells, questions, folder, cell_timeout_s)


def _judge(
    by: Judge,
    student: str,
    cells: Sequence[tuple[int, str]],
    questions: Sequence[str],
    folder: Path,
    cell_timeout_s: float,
) -> Judged:
    began_s = time.monotonic()
    ran, verdicts = by.judge(student, cells, questions, folder, cell_timeout_s=cell_timeout_s)
    return Judged(ran, verdicts, time.monotonic() - began_s)


def judge_ahead(
    by: Judge, course: CourseDirectory, student: str, staged: Path, *, cell_timeout_s: float
) -> None:
    """Judges a staged submission as nbgrader will hand it over.

    A failure is written to standard error and is no failure: it will come up again when it matters.
    """
    try:
        released = _released(course, by.name)
        repaired = repair((staged / f"{by.name}.ipynb").read_bytes(), released)
        tests, cells = parts_of(repaired.notebook)
        with tempfile.TemporaryDirectory(prefix="tcplab-ahead-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            _as_autograded(course, by.name, staged, folder)
            key = _key(student, cells, list(tests), folder)
            found = _judge(by, student, cells, list(tests), folder, cell_timeout_s)
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return
    with _lock:
        _found[key] = found


def _released(course: CourseDirectory, assignment: str) -> Any:
    import nbformat

    folder = course.format_path(course.release_directory, ".", assignment)
    return nbformat.read(Path(folder) / f"{assignment}.ipynb", as_version=4)


def _as_autograded(course: CourseDirectory, assignment: str, staged: Path, folder: Path) -> None:
    """The files beside the notebook, in nbgrader's way: those of the source on top."""
    from nbgrader.utils import find_all_files

    source = Path(course.format_path(course.source_directory, ".", assignment))
    for top in (staged, source):
        for name in find_all_files(str(top), [*course.ignore, "*.ipynb"]):
            there = folder / Path(name).relative_to(top)
            for parent in reversed(there.relative_to(folder).parents):
                (folder / parent).mkdir(mode=0o755, exist_ok=True)
            shutil.copyfile(name, there)
            there.chmod(0o644)
