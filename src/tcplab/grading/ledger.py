"""The ledger of a graded class: what was done for whom, so that a second run does what is new.

For each student two digests, and the run that graded: one digest of what was handed in and what it
was graded with, and one of the marks by hand that the feedback shows (empty where there is no
feedback, or one that is not the last word).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

#: The digest of a student for whom no person has marked anything.
NO_MARKS: Final = "none"


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all, whenever the power goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time, of all on this machine or on others; the lock ends with its process.

    The file is open for writing, without which NFS gives none (flock(2)).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Ledger:
    """The ledger of one assignment.

    Args:
        reports: the assignment's folder of reports.
        folders: nbgrader's directories.
        assignment: its name.
    """

    def __init__(self, reports: Path, folders: CourseDirectory, assignment: str) -> None:
        self._folder = reports / "graded"
        self._reports = reports
        self._folders = folders
        self._assignment = assignment

    def alone(self, student: str) -> AbstractContextManager[None]:
        """One grader at a time works for a student."""
        return locked(self._reports / "locks" / student)

    def has_grade(self, student: str, key: str) -> bool:
        """Whether that submission was graded as it is."""
        graded = self._exists(self._folders.autograded_directory, student)
        return graded and self._keys(student)[0] == key

    def has_feedback(self, student: str, marks_key: str) -> bool:
        """Whether there is a feedback page with these marks."""
        page = self._exists(self._folders.feedback_directory, student)
        return page and self._keys(student)[1] == marks_key

    def run_that_graded(self, student: str) -> str:
        """The run of `tcplab grade` that graded last; empty where there was none."""
        return self._keys(student)[2]

    def put(self, student: str, key: str, marks_key: str, run: str) -> None:
        """Notes what was done."""
        write_whole(self._folder / student, f"{key}\n{marks_key}\n{run}\n")

    def last_arrival(self, student: str) -> str:
        """The order of the submission that was last taken from the exchange; empty without one."""
        path = self._reports / "arrived" / student
        return path.read_text() if path.is_file() else ""

    def put_arrival(self, student: str, order: str) -> None:
        """Notes that a submission was taken from the exchange and graded."""
        write_whole(self._reports / "arrived" / student, order)

    def tries(self, student: str) -> Path:
        """The file that counts for which submissions a student was shown a question's result."""
        return self._reports / "tries" / f"{student}.json"

    def _exists(self, directory: str, student: str) -> bool:
        return Path(self._folders.format_path(directory, student, self._assignment)).is_dir()

    def _keys(self, student: str) -> tuple[str, str, str]:
        path = self._folder / student
        lines = path.read_text().splitlines() if path.is_file() else []
        key, marks_key, run = (*lines, "", "", "")[:3]
        return key, marks_key, run


def marks_by_hand(folders: CourseDirectory, assignment: str) -> dict[str, str]:
    """student -> digest of the scores and comments given by hand; only those who have some."""
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
                if any(each is not None for each in mark[1:]):
                    given.setdefault(student, []).append(repr(mark))
    return {
        student: hashlib.sha256("\n".join(sorted(marks)).encode()).hexdigest()
        for student, marks in given.items()
    }
