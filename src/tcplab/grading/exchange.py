"""Collect from nbgrader's exchange, where students with accounts on this machine hand in.

All users may write to the exchange's folder `inbound`. nbgrader's own `collect` follows links, even
into the solutions, only warns of another student's name, and stops at a name that it cannot parse.
Here only the owner's files are copied, and rejected submissions are reported.
"""

import fnmatch
import functools
import os
import pwd
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc

from tcplab.errors import ParameterError, StepError
from tcplab.grading.course import expected_files, folder_of
from tcplab.grading.neutral import one_line, unfit_id
from tcplab.grading.staging import Expected, Staged, copy_files, put_in_place

#: `nbgrader submit` makes a complete folder accessible to all users. A folder that was made by hand
#: is taken once it has not changed for this long.
SETTLED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A submission in the exchange."""

    student: str
    at: datetime  #: time of submission in UTC, according to the name of the folder
    folder: Path
    owner: int | None  #: the user whose files are taken, or None for files of all users
    complete_s: float  #: time at which the folder was complete, in s since the epoch

    @property
    def order(self) -> str:
        """A sort key that grows with the time of arrival."""
        return f"{self.at.isoformat(timespec='microseconds')} {self.folder.name}"


class Inbound:
    """The submissions for one assignment in the exchange's folder `inbound`.

    With `check_owner`, a submission is taken only if the student in its name owns it.
    """

    def __init__(self, folder: Path, assignment: str, check_owner: bool) -> None:
        self._check_owner = check_owner
        self._name = re.compile(
            rf"(?P<student>.+)\+{re.escape(assignment)}\+(?P<at>[^+]+)(\+[^+]*)?"
        )
        self._folder = folder / "inbound"
        if not os.access(self._folder, os.R_OK | os.X_OK):
            raise ParameterError(
                f"no exchange: {self._folder} is missing or not yours to read;"
                f" release the assignment first (nbgrader release_assignment {assignment})"
            )

    def newest(self, due: datetime | None = None) -> tuple[dict[str, Arrival], dict[str, str]]:
        """Return the newest submission of each student, and the reason for each rejected folder.

        A student's last submission before the deadline `due` is preferred to any later one.
        """

        def rank(arrival: Arrival) -> tuple[bool, str]:
            return due is None or arrival.at <= due, arrival.order

        by_student: dict[str, Arrival] = {}
        refused: dict[str, str] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not (match := self._name.fullmatch(entry.name)):
                    continue
                try:
                    arrival = self._arrival(entry, match["student"], match["at"])
                except StepError as error:
                    refused[entry.name] = str(error)
                    continue
                except FileNotFoundError:  # the owner has just removed it
                    continue
                if arrival is not None:
                    known = by_student.get(arrival.student, arrival)
                    by_student[arrival.student] = max(known, arrival, key=rank)
        return by_student, refused

    def _arrival(self, entry: os.DirEntry[str], student: str, at: str) -> Arrival | None:
        """Return a submission, or None while it is being copied. Raise StepError if it is unfit."""
        if reason := unfit_id(student):
            raise StepError(f"its student's id {reason}")
        about = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(about.st_mode):
            raise StepError("it is not a folder")
        if self._check_owner and (login := _login(about.st_uid)) != student:
            raise StepError(f"it belongs to {login}, and not to {student}")
        if (handed_in := _utc(at)) is None:
            raise StepError("its name contains no valid time")
        if handed_in > datetime.now(UTC) + timedelta(days=1):
            raise StepError("its name gives a time in the future")
        if about.st_mode & 0o7 != 0o7 and time.time() < about.st_ctime + SETTLED_S:
            return None
        owner = about.st_uid if self._check_owner else None
        return Arrival(student, handed_in, Path(entry.path), owner, about.st_ctime)


def _login(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"the user {user}"


@functools.lru_cache(100_000)  # the exchange is read every second, and parsing takes time
def _utc(text: str) -> datetime | None:
    try:
        return parse_utc(text).replace(tzinfo=UTC) if len(text) <= 64 else None
    except Exception:  # the parser raises many kinds of errors
        return None


def take_arrival(arrival: Arrival, target: Path, expected: Expected) -> Staged:
    """Copy a submission out of the exchange; return repairs and flags."""
    staged = copy_files(arrival.folder, target, expected, owner=arrival.owner)
    if not any(target.iterdir()):
        raise StepError("; ".join(["it contains no file of its owner", *staged.flags]))
    return staged


class Collect(ExchangeCollect):  # type: ignore[misc]
    """A replacement for `nbgrader collect` and Formgrader's collect button."""

    def init_src(self) -> None:
        """Find the submissions in the exchange."""
        due = None
        if self.before_duedate:
            url, course_id = self.coursedir.db_url, self.coursedir.course_id
            with suppress(MissingEntry), Gradebook(url, course_id) as gradebook:
                due = gradebook.find_assignment(self.coursedir.assignment_id).duedate
        folder = Path(self.root, self.coursedir.course_id)
        try:
            inbound = Inbound(folder, self.coursedir.assignment_id, self.check_owner)
        except ParameterError as error:
            self.fail(str(error))
        self._newest, refused = inbound.newest(due and due.replace(tzinfo=UTC))
        for name, reason in refused.items():
            self.log.warning("%s: not collected: %s", one_line(name), one_line(reason))

    def copy_files(self) -> None:
        """Copy new submissions, and replace earlier ones as the options require."""
        assignment, wanted = self.coursedir.assignment_id, self.coursedir.student_id or "*"
        expected = expected_files(self.coursedir, assignment)
        for student, arrival in sorted(self._newest.items()):
            if not fnmatch.fnmatchcase(student, wanted):
                continue
            target = folder_of(self.coursedir, "submitted", student, assignment)
            if target.is_dir() and not self._is_to_be_replaced(target, arrival):
                self.log.info("%s: there already, and not replaced", student)
                continue
            fresh = target.with_name(f".{assignment}.taken")
            try:
                taken = take_arrival(arrival, fresh, expected)
                put_in_place(fresh, target)
            except (StepError, OSError) as error:
                self.log.warning("%s: not collected: %s", student, one_line(error))
                continue
            if self.coursedir.groupshared:
                self.set_perms(target, fileperms=0o664, dirperms=0o2775)
            notes = "; ".join([*taken.repairs, *taken.flags])
            self.log.info("%s: collected%s", student, notes and f"; {notes}")

    def _is_to_be_replaced(self, target: Path, arrival: Arrival) -> bool:
        try:
            before = self.coursedir.get_existing_timestamp(str(target))
        except Exception:  # the student may have written anything into the file
            before = None
        at = arrival.at.replace(tzinfo=None)
        is_newer = before is None or at > before
        return bool((self.update and is_newer) or (self.before_duedate and at != before))
