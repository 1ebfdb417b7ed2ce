"""`tcplab handout`: the exercise as each student gets it, with their own captures and no others."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError
from tcplab.grading.archive import ARCHIVE_FILE, named_in, read_archive, write_archive
from tcplab.grading.assignment import Task

#: What running the exercise in place has left there, and the archive of all captures.
_LEFT_OUT: Final = (".ipynb_checkpoints", "__pycache__", "captures", ARCHIVE_FILE)


def students_in(path: Path) -> list[str]:
    """The ids in a file, one per line; empty lines and what follows a "#" are left out.

    Raises:
        ParameterError: no such file, an id twice or none, or one that is no folder's name.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} cannot be read: {error}") from None
    ids = [word for line in lines if (word := line.partition("#")[0].strip())]
    if not ids:
        raise ParameterError(f"{path} names no student; write one id per line")
    for number, each in enumerate(ids):
        if "/" in each or each.startswith("."):
            raise ParameterError(f"{path}: {each!r} is no id: it must be the name of a folder")
        if each in ids[:number]:
            raise ParameterError(f"{path}: {each!r} is there twice")
    return ids


def hand_out(released: Path, students: Iterable[str], into: str) -> Iterator[Path]:
    """Copies a released exercise for each student, without the captures of others.

    Args:
        released: the exercise's folder, such as exercises/small-writes.
        students: their ids.
        into: where each goes: {student} and {assignment} are replaced; a name that ends in .zip
            becomes an archive, any other a folder.

    Yields:
        Each file or folder that was made.

    Raises:
        ParameterError: there is no such exercise, `into` is the same for all, or a folder exists
            already (in which somebody may have worked).
    """
    if not (released / f"{released.name}.ipynb").is_file():
        raise ParameterError(
            f"{released} holds no exercise; make it: nbgrader generate_assignment {released.name}"
        )
    if "{student}" not in into:
        raise ParameterError(f"into {into!r} must contain {{student}}, a place for each")
    task = Task(released / "task.py", released.name)
    for student in students:
        target = Path(into.format(student=student, assignment=released.name))
        own = named_in(task.numbers(student))
        if target.suffix == ".zip":
            _zip(released, target, own)
        elif target.exists():
            raise ParameterError(f"{target} exists already; move it away, or leave {student} out")
        else:
            _copy(released, target, own)
        yield target


def _copy(released: Path, target: Path, own: list[str]) -> None:
    shutil.copytree(released, target, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    if own:
        write_archive(target, read_archive(released, own))


def _zip(released: Path, target: Path, own: list[str]) -> None:
    """An archive that holds the exercise's folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcplab-handout-") as name:
        folder = Path(name) / released.name
        _copy(released, folder, own)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(name))
