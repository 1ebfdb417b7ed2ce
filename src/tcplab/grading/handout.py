"""Copy an exercise for each student, with that student's captures only (`tcplab handout`)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError
from tcplab.grading.archive import ARCHIVE_FILE, named_in, read_archive, write_archive
from tcplab.grading.assignment import Task

#: Files that are not copied: those that a run of the exercise creates, and all captures.
_LEFT_OUT: Final = (".ipynb_checkpoints", "__pycache__", "captures", ARCHIVE_FILE)


def hand_out(released: Path, students: Iterable[str], into: str) -> Iterator[Path]:
    """Copy a released exercise for each student, without the captures of others; yield each copy.

    In `into`, {student} and {assignment} are replaced. A name that ends in .zip becomes an archive.
    Any other name becomes a folder, which must not exist yet, because it may contain someone's
    work.
    """
    if not (released / f"{released.name}.ipynb").is_file():
        raise ParameterError(
            f"{released} holds no exercise; make it with: nbgrader generate_assignment"
            f" {released.name}"
        )
    if "{student}" not in into:
        raise ParameterError(
            f"into={into!r} must contain {{student}}, so that each student has a different target"
        )
    task = Task(released / "task.py", released.name)
    for student in students:
        target = Path(into.format(student=student, assignment=released.name))
        captures = named_in(task.numbers(student))
        if target.suffix == ".zip":
            _zip(released, target, captures)
        elif target.exists():
            raise ParameterError(f"{target} exists already; move it away, or leave {student} out")
        else:
            _copy(released, target, captures)
        yield target


def _copy(released: Path, target: Path, captures: list[str]) -> None:
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)  # left by a run that was killed
    shutil.copytree(released, fresh, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    if captures:
        write_archive(fresh, read_archive(released, captures))
    fresh.rename(target)


def _zip(released: Path, target: Path, captures: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="tcplab-handout-") as name:
        _copy(released, Path(name, released.name), captures)
        made = shutil.make_archive(str(target.with_name(f".{target.stem}.new")), "zip", name)
        Path(made).replace(target)
