"""Record what has been graded, so that a second run only does new work.

The ledger stores two digests per student, and the id of the grading run. The first covers the
submission and everything that determined its grade. The second covers the marks given by hand that
the final feedback page shows, if there is one.

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
    reports: Path  #: folder of the assignment's logs and ledger
    source_key: str  #: digest of the assignment and of how it is graded
    marks_key: str  #: digest of the marks given by hand
    again: bool = False  #: True to grade an unchanged submission again
    feedback: bool = True  #: True to make the feedback page
    unsafe_no_sandbox: bool = False  #: True to run the submission without a sandbox
    run: str = ""  #: id of this run of the command, in which no submission is graded twice
    #: the submission in the exchange to which the page is returned, or None
    arrival: Arrival | None = None
    #: number of submissions without full points for which a question's result is shown, if the page
    #: is returned at once
    tries: int = 0


class GradeLedger:
    """The records of what has been graded in one assignment."""

    def __init__(self, reports: Path, folders: CourseDirectory, assignment: str) -> None:
        self._reports = reports
        self._folders = folders
        self._assignment = assignment

    def alone(self, student: str) -> AbstractContextManager[None]:
        """Return a student's lock, which only one grader at a time can hold."""
        return locked(self._reports / "locks" / student)

    def has_grade(self, student: str, key: str) -> bool:
        """Return whether the submission with this digest has been graded."""
        graded = self._exists(self._folders.autograded_directory, student)
        return graded and self._keys(student)[0] == key

    def has_feedback(self, student: str, marks_key: str) -> bool:
        """Return whether there is a feedback page with these marks."""
        page = self._exists(self._folders.feedback_directory, student)
        return page and self._keys(student)[1] == marks_key

    def run_that_graded(self, student: str) -> str:
        """Return the run of `tcplab grade` that graded a student last, or "" if there was none."""
        return self._keys(student)[2]

    def put(self, student: str, key: str, marks_key: str, run: str) -> None:
        """Record that a submission has been graded, with these digests, by this run."""
        write_whole(self._reports / "graded" / student, f"{key}\n{marks_key}\n{run}\n")

    def last_arrival(self, student: str) -> str:
        """Return the sort key of the submission taken last from the exchange, or "" if none was."""
        path = self._reports / "arrived" / student
        return path.read_text() if path.is_file() else ""

    def put_arrival(self, student: str, order: str) -> None:
        """Record the sort key of a submission taken from the exchange, whether graded or not."""
        write_whole(self._reports / "arrived" / student, order)

    def tries(self, student: str) -> Path:
        """Return the path of the record of submissions that lacked points, by question."""
        return self._reports / "tries" / f"{student}.json"

    def _exists(self, directory: str, student: str) -> bool:
        return Path(self._folders.format_path(directory, student, self._assignment)).is_dir()

    def _keys(self, student: str) -> tuple[str, str, str]:
        path = self._reports / "graded" / student
        lines = path.read_text().splitlines() if path.is_file() else []
        key, marks_key, run = (*lines, "", "", "")[:3]
        return key, marks_key, run


def marks_by_hand(folders: CourseDirectory, assignment: str) -> dict[str, str]:
    """Map each student who has scores or comments given by hand to a digest of them."""
    from nbgrader.api import Comment, Grade, Gradebook, SubmittedAssignment, SubmittedNotebook

    given: dict[str, list[str]] = {}
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        known = gradebook.find_assignment(assignment).id
        for table, columns in (
            (Grade, (Grade.manual_score, Grade.extra_credit)),
            (Comment, (Comment.manual_comment,)),
        ):
            rows = (
                gradebook.db.query(SubmittedAssignment.student_id, table.cell_id, *columns)
                .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
                .join(table, table.notebook_id == SubmittedNotebook.id)
                .filter(SubmittedAssignment.assignment_id == known)
            )
            for student, *mark in rows:
                if any(value is not None for value in mark[1:]):
                    given.setdefault(student, []).append(repr(mark))
    return {
        student: hashlib.sha256("\n".join(sorted(marks)).encode()).hexdigest()
        for student, marks in given.items()
    }


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


def keep_class(course: Path, logins: list[str]) -> None:
    """Make these logins the course's class."""
    write_whole(course / CLASS_FILE, "".join(f"{login}\n" for login in logins))


def read_class(course: Path) -> list[str]:
    """Return the logins of the class, or an empty list if there is no class list."""
    path = course / CLASS_FILE
    return students_in(path) if path.is_file() else []
