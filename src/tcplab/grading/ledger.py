"""Record what has been graded, so that a second run only does new work.

The ledger stores two digests per student, and the id of the grading run. The first covers the
submission and the assignment, and the second the marks by hand that the final page shows.

The list of the class is `class.txt` in the course's folder. `tcplab handout --students` and `tcplab
collect --students` write it. Without it, all learners who hand in belong to the class.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcplab.errors import ParameterError
from tcplab.grading.archive import write_whole
from tcplab.grading.course import folder_of

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

    from tcplab.grading.exchange import Arrival

#: The value that replaces the digest if a student has no marks given by hand.
NO_MARKS: Final = "none"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock against processes on this and other machines, even over NFS."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class GradingTask:
    """A submission to be graded."""

    student: str  #: id of the student, which is the folder's name
    assignment: str  #: name of the assignment, such as "small-writes"
    course: Path  #: folder with nbgrader_config.py
    source_key: str  #: digest of the assignment
    marks_key: str  #: digest of the marks given by hand
    again: bool = False  #: True to grade an unchanged submission again
    feedback: bool = True  #: True to make the feedback page
    run: str = ""  #: id of this run of the command, in which no submission is graded twice
    #: the submission in the exchange to which the page is returned, or None
    arrival: Arrival | None = None


class GradeLedger:
    """The records of what has been graded in one assignment."""

    def __init__(self, folders: CourseDirectory, assignment: str) -> None:
        self._reports = Path(folders.root, "reports", assignment)
        self._folders = folders
        self._assignment = assignment

    def alone(self, student: str) -> AbstractContextManager[None]:
        """Return a student's lock, which only one grader at a time can hold."""
        return locked(self._reports / "locks" / student)

    def has_grade(self, student: str, key: str) -> bool:
        """Return whether the submission with this digest has been graded."""
        graded = folder_of(self._folders, "autograded", student, self._assignment)
        return graded.is_dir() and self._keys(student)[0] == key

    def has_feedback(self, student: str, marks_key: str) -> bool:
        """Return whether there is a feedback page with these marks."""
        page = folder_of(self._folders, "feedback", student, self._assignment)
        return page.is_dir() and self._keys(student)[1] == marks_key

    def run_that_graded(self, student: str) -> str:
        """Return the run of `tcplab grade` that graded a student last, or "" if there was none."""
        return self._keys(student)[2]

    def put(self, student: str, key: str, marks_key: str, run: str) -> None:
        """Record that a submission has been graded, with these digests, by this run."""
        write_whole(self._reports / "graded" / student, f"{key}\n{marks_key}\n{run}\n")

    def last_arrival(self, student: str) -> str:
        """Return the sort key of the submission taken last from the exchange, or "" if none was."""
        return self._read("arrived", student)

    def put_arrival(self, student: str, order: str) -> None:
        """Record the sort key of a submission taken from the exchange, whether graded or not."""
        write_whole(self._reports / "arrived" / student, order)

    def _keys(self, student: str) -> list[str]:
        return [*self._read("graded", student).splitlines(), "", "", ""]

    def _read(self, kind: str, student: str) -> str:
        path = self._reports / kind / student
        return path.read_text() if path.is_file() else ""


def marks_by_hand(folders: CourseDirectory, assignment: str) -> dict[str, str]:
    """Map each student who has scores or comments given by hand to a digest of them."""
    from nbgrader.api import Gradebook

    given: dict[str, str] = {}
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        for submission in gradebook.assignment_submissions(assignment):
            given_by_hand = (
                mark
                for notebook in submission.notebooks
                for mark in (
                    *((one.cell_id, one.manual_score, one.extra_credit) for one in notebook.grades),
                    *((one.cell_id, one.manual_comment) for one in notebook.comments),
                )
                if set(mark[1:]) != {None}
            )
            marks = sorted(map(repr, given_by_hand))
            if marks:
                digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()
                given[submission.student_id] = digest
    return given


# ---- the class -----------------------------------------------------------------------------------


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


def keep_class(course: Path, students: Path) -> list[str]:
    """Make the logins in a file the course's class, and return them."""
    logins = students_in(students)
    write_whole(course / CLASS_FILE, "".join(f"{login}\n" for login in logins))
    return logins


def read_class(course: Path) -> list[str]:
    """Return the logins of the class, or an empty list if there is no class list."""
    path = course / CLASS_FILE
    return students_in(path) if path.is_file() else []
