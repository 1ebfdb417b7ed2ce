"""Keep the list of the class, `class.txt` in the course's folder, which all commands know.

`tcplab handout --students` and `tcplab collect --students` write it. Without it, all
learners who hand in belong to the class.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError
from tcplab.grading.ledger import write_whole

CLASS_FILE: Final = "class.txt"
#: The columns of the CSV files of Canvas, Moodle and nbgrader that hold the login.
_COLUMNS: Final = ("sis login id", "username", "login", "login id", "student_id", "id")


def students_in(path: Path) -> list[str]:
    """Read the logins in a file, one per line with comments after "#", or in a column of a CSV."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} cannot be read: {error}") from None
    if lines and "," in lines[0]:
        lines = _column(path, lines)
    ids = [word for line in lines if (word := line.partition("#")[0].strip())]
    if not ids:
        raise ParameterError(f"{path} names no student; write one id per line")
    for number, student in enumerate(ids):
        if "/" in student or student.startswith("."):
            raise ParameterError(
                f"{path}: {student!r} is not an id; it must be the name of a folder"
            )
        if student in ids[:number]:
            raise ParameterError(f"{path}: {student!r} appears twice")
    return ids


def _column(path: Path, lines: list[str]) -> list[str]:
    header, *rows = csv.reader(lines)
    names = [name.strip().casefold() for name in header]
    at = next((names.index(name) for name in _COLUMNS if name in names), None)
    if at is None:
        raise ParameterError(f"{path} has no column named one of {', '.join(_COLUMNS)}")
    return [row[at] for row in rows if len(row) > at]


def keep_class(course: Path, logins: list[str]) -> None:
    """Make these logins the course's class."""
    write_whole(course / CLASS_FILE, "".join(f"{login}\n" for login in logins))


def read_class(course: Path) -> list[str]:
    """Return the logins of the class, or an empty list if there is no class list."""
    path = course / CLASS_FILE
    return students_in(path) if path.is_file() else []
