"""Grades one submission, in a process of its own: takes it over, judges it, makes its feedback.

Everything that touches what one student handed in happens here, so that whatever it does can cost
this student alone (see tcplab.grading.pool). nbgrader's own converters do the work; how they are
set up is in tcplab.grading.course.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.grading.course import load_course
from tcplab.grading.ledger import Ledger
from tcplab.grading.staging import content_key, stage

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory

#: What a grading process imports: loaded once, before the first of them starts.
PRELOAD: Final = (
    "mistune.plugins",
    "nbgrader.converters",
    "numpy",
    "tcplab.grading.captures",
    "tcplab.grading.nbgrader_plugins",
    "tcplab.grading.programs",
    "tcplab.grading.steps",
)
#: nbgrader's gradebook may be locked by another process for longer than it waits.
ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Task:
    """A submission to be graded."""

    student: str  #: the id, which is the folder's name
    assignment: str  #: such as "ps5"
    course: Path  #: the folder with nbgrader_config.py.
    reports: Path  #: the assignment's folder there, for logs and the ledger
    source_key: str  #: digest of the assignment and of how it is graded
    marks_key: str  #: digest of what persons marked
    again: bool = False  #: grade also what is graded and unchanged
    feedback: bool = True  #: make the feedback page
    unsafe_no_sandbox: bool = False  #: run it without a sandbox


def grade_submission(task: Task) -> dict[str, Any]:
    """Grades a submission, or makes its feedback anew, or finds that both are up to date.

    Returns:
        "did" ("graded", "feedback" or "nothing") and "error" (None, or why there is no grade).
    """
    try:
        return _Grader(task).grade()
    except OSError as error:  # of a file that was handed in and cannot be read, say
        return {"did": "graded", "error": f"{type(error).__name__}: {error}"}


class _Grader:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._config, self._folders = load_course(task.course)
        self._ledger = Ledger(task.reports, self._folders, task.assignment)
        self._errors = _Errors()

    def grade(self) -> dict[str, Any]:
        task, student = self._task, self._task.student
        key = content_key(self._path(self._folders.submitted_directory), task.source_key)
        needs_grade = task.again or not self._ledger.has_grade(student, key)
        needs_feedback = task.feedback and (
            needs_grade or not self._ledger.has_feedback(student, task.marks_key)
        )
        if not (needs_grade or needs_feedback):
            return {"did": "nothing", "error": None}
        self._open_log()
        error = self._try(self._autograde) if needs_grade else None
        if needs_feedback and error is None:
            error = self._try(self._generate_feedback)
        if error is None:
            self._ledger.put(student, key, task.marks_key if task.feedback else "")
        return {"did": "graded" if needs_grade else "feedback", "error": error}

    def _open_log(self) -> None:
        """Sends what libraries print and log into the submission's log file."""
        path = self._task.reports / "logs" / f"{self._task.student}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as log:
            for fd in (1, 2):
                os.dup2(log.fileno(), fd)
        warnings.simplefilter("ignore")
        logging.basicConfig(level=logging.WARNING, handlers=[logging.StreamHandler(), self._errors])

    def _try(self, step: Callable[[], None]) -> str | None:
        """Takes a step; returns None, or why it failed every time."""
        reason = ""
        for attempt in range(ATTEMPTS):
            time.sleep(0.5 * attempt)
            self._errors.reason = ""
            try:
                step()
            except (Exception, SystemExit) as failure:
                traceback.print_exc()
                reason = f"{type(failure).__name__}: {failure}"
            else:
                return None
        return " ".join((self._errors.reason or reason).split())[:300]

    def _autograde(self) -> None:
        """Copies the submission, and lets nbgrader copy, judge and record it."""
        from nbgrader.converters import Autograde

        from tcplab.grading.nbgrader_plugins import report_path

        task = self._task
        report = report_path(Path(self._folders.root), task.assignment, task.student)
        report.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="tcplab-staging-") as staging:
            staged = stage(
                self._path(self._folders.submitted_directory),
                Path(staging) / task.student / task.assignment,
                f"{task.assignment}.ipynb",
            )
            config, folders = self._configured(submitted=staging)
            Autograde(coursedir=folders, config=config, force=True, log=_log()).start()
        found = json.loads(report.read_text())
        found["repairs"] = [*staged.repairs, *found["repairs"]]
        found["flags"] = [*staged.flags, *found["flags"]]
        report.write_text(json.dumps(found, indent=1))

    def _generate_feedback(self) -> None:
        from nbgrader.converters import GenerateFeedback

        config, folders = self._configured()
        GenerateFeedback(coursedir=folders, config=config, force=True, log=_log()).start()

    def _configured(self, submitted: str | None = None) -> tuple[Any, CourseDirectory]:
        """nbgrader's configuration for this submission alone."""
        from nbgrader.coursedir import CourseDirectory

        config = copy.deepcopy(self._config)
        config.CourseDirectory.student_id = self._task.student
        config.CourseDirectory.assignment_id = self._task.assignment
        if submitted is not None:
            config.CourseDirectory.submitted_directory = submitted
        if self._task.unsafe_no_sandbox:
            config.SandboxedExecute.unsafe_no_sandbox = True
        return config, CourseDirectory(config=config)

    def _path(self, directory: str) -> Path:
        task = self._task
        return Path(self._folders.format_path(directory, task.student, task.assignment))


def _log() -> logging.Logger:
    return logging.getLogger("tcplab.grading")


class _Errors(logging.Handler):
    """Keeps the last line of a logged traceback: nbgrader's own exception only points to it."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("Traceback"):
            self.reason = message.strip().splitlines()[-1]
