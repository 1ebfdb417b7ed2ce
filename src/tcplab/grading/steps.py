"""Grade one submission in a separate process: copy it, judge it, and make its feedback.

The raw notebook is read in another process with limits (tcplab.grading.processes). nbgrader's
converters do the rest; tcplab.grading.course configures them. The grader imports this module before
it forks, so that all processes share what it loads.
"""

import copy
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import ExchangeReleaseFeedback

import tcplab.grading.captures  # judges import this and the next one
import tcplab.grading.programs  # noqa: F401
from tcplab.errors import StepError
from tcplab.grading.course import FEEDBACK_PAGE, expected_files, folder_of, load_course
from tcplab.grading.drawing import questions_by_choice
from tcplab.grading.exchange import Arrival, take_arrival
from tcplab.grading.ledger import GradeLedger, GradingTask
from tcplab.grading.nbgrader_plugins import report_path
from tcplab.grading.neutral import one_line
from tcplab.grading.pages import TooLongError, at_most
from tcplab.grading.processes import print_traceback, reason
from tcplab.grading.staging import content_key, put_in_place, stage

#: Maximum number of attempts at a step of nbgrader. Another process may lock the gradebook for
#: longer than nbgrader waits.
ATTEMPTS: Final = 3
_FAILED: Final = {"did": "graded", "no_feedback": None, "not_judged": None}
#: Limit on the processor time for making a page. Its texts have been rendered once by then.
_PAGE_S: Final = 20.0
_LOG: Final = logging.getLogger("tcplab.grading")


def grade_submission(task: GradingTask) -> dict[str, Any]:
    """Grade a submission, or update its feedback, unless both are up to date.

    The result has "did" ("graded", "feedback" or "nothing"), and "error", "no_feedback" and
    "not_judged", which are reasons or None. If the submission came through the exchange and no
    exception was raised, "waited_s" is the time from its arrival to its page.
    """
    try:
        return _Grader(task).grade()
    except Exception as failure:
        if not isinstance(failure, OSError):  # the log may not have been opened
            print_traceback()
        return _FAILED | {"error": reason(failure)}


class _Grader:
    def __init__(self, task: GradingTask) -> None:
        self._task = task
        self._config, self._folders = load_course(task.course)
        self._reports = task.course / "reports" / task.assignment
        self._ledger = GradeLedger(self._folders, task.assignment)
        self._submitted = folder_of(self._folders, "submitted", task.student, task.assignment)
        self._repairs: list[str] = []
        self._flags: list[str] = []

    def grade(self) -> dict[str, Any]:
        with self._ledger.alone(self._task.student):
            if self._task.arrival is None:
                return self._grade()
            self._open_log()
            try:
                self._take(self._task.arrival)
                result = self._grade()
            finally:
                self._ledger.put_arrival(self._task.student, self._task.arrival.order)
            return result | {"waited_s": round(time.time() - self._task.arrival.complete_s, 3)}

    def _grade(self) -> dict[str, Any]:
        task, student, ledger = self._task, self._task.student, self._ledger
        key = content_key(self._submitted, task.source_key)
        # An earlier attempt in this run may have graded the work, and died while making the page.
        graded = bool(task.run) and ledger.run_that_graded(student) == task.run
        needs_grade = not ledger.has_grade(student, key) or (task.again and not graded)
        needs_page = task.feedback and (
            needs_grade
            or task.arrival is not None
            or not ledger.has_feedback(student, task.marks_key)
        )
        if task.arrival is None and (needs_grade or needs_page):
            self._open_log()
        lacking = no_feedback = None
        if needs_grade:
            self._autograde()
            # The grade is recorded now, so that a failure to make the page does not lose it. If a
            # question was not judged, the next run tries again.
            lacking = self._not_judged()
            key = "" if lacking else key
            ledger.put(student, key, "", task.run)
        if needs_page:
            no_feedback = self._generate_feedback()
            is_last_word = no_feedback is None and task.arrival is None
            run = ledger.run_that_graded(student)
            ledger.put(student, key, task.marks_key if is_last_word else "", run)
        did = "graded" if needs_grade or graded else "feedback" if needs_page else "nothing"
        return {"did": did, "error": None, "no_feedback": no_feedback, "not_judged": lacking}

    def _take(self, arrival: Arrival) -> None:
        """Copy a submission out of the exchange, or raise StepError if there is nothing to copy."""
        fresh = Path(tempfile.gettempdir(), "arrival")
        taken = take_arrival(arrival, fresh, expected_files(self._folders, self._task.assignment))
        self._repairs, self._flags = taken.repairs, taken.flags
        put_in_place(fresh, self._submitted)

    def _open_log(self) -> None:
        """Redirect the output and logs of libraries to the log file of the submission."""
        path = self._reports / "logs" / f"{self._task.student}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        log = path.open("w", buffering=1)
        for fd in (1, 2):
            os.dup2(log.fileno(), fd)
        sys.stdout = sys.stderr = log
        warnings.simplefilter("ignore")
        logging.basicConfig(
            level=logging.WARNING, handlers=[logging.StreamHandler(), _ERRORS], force=True
        )

    def _autograde(self) -> None:
        """Grade a copy of the submission with nbgrader, or raise StepError."""
        task = self._task
        report = report_path(Path(self._folders.root), task.assignment, task.student)
        report.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="tcplab-staging-") as staging:
            target = Path(staging) / task.student / task.assignment
            staged = stage(self._submitted, target, expected_files(self._folders, task.assignment))
            self._repairs += staged.repairs
            self._flags += staged.flags
            for note in (*self._repairs, *self._flags):
                _LOG.warning("%s", note)
            config, folders = self._configured()
            config.SandboxedExecute.update(repairs=self._repairs, flags=self._flags)
            folders.submitted_directory = config.CourseDirectory.submitted_directory = staging
            _attempt(Autograde(coursedir=folders, config=config, force=True, log=_LOG).start)

    def _not_judged(self) -> str | None:
        """Return the questions that could not be judged and that no person has marked, or None."""
        task, folders = self._task, self._folders
        path = report_path(Path(folders.root), task.assignment, task.student)
        notes = json.loads(path.read_text())["not_judged"]
        if not notes:
            return None
        with Gradebook(folders.db_url, folders.course_id) as gradebook:
            submission = gradebook.find_submission(task.assignment, task.student)
            marked = {
                grade.name
                for notebook in submission.notebooks
                for grade in notebook.grades
                if grade.manual_score is not None
            }
        return "; ".join(note for note in notes if note.partition(":")[0] not in marked) or None

    def _generate_feedback(self) -> str | None:
        """Make the page, and release it if it is early. Return why there is none, or None."""
        made = ""
        try:
            try:
                self._convert_to_page(as_typed=False)
            except StepError as error:
                _LOG.warning("the feedback is made with all texts as they were typed: %s", error)
                self._convert_to_page(as_typed=True)
            if self._task.arrival is not None:
                made = "made, but not released: "
                config, folders = self._configured()
                _attempt(ExchangeReleaseFeedback(coursedir=folders, config=config).start)
        except (StepError, OSError) as error:
            return f"{made}{reason(error)}"
        return None

    def _convert_to_page(self, as_typed: bool) -> None:
        """Make the feedback page of a graded submission. `as_typed` shows all texts unrendered."""
        task = self._task
        config, folders = self._configured()
        if task.arrival is not None:
            source = folder_of(folders, "source", assignment=task.assignment)
            config.EarlyPage.update(
                record=f"{self._reports}/tries/{task.student}.json",
                arrival=task.arrival.folder.name,
                by_choice=questions_by_choice(source),
            )
            # EarlyPage comes second, because it needs the grades.
            page = [FEEDBACK_PAGE[0], "tcplab.grading.nbgrader_plugins.EarlyPage"]
            config.GenerateFeedback.preprocessors = page + FEEDBACK_PAGE[1:]
        if as_typed:
            config.HTMLExporter.filters = {"markdown2html": "tcplab.grading.pages.as_typed"}
        target = folder_of(folders, "feedback", task.student, task.assignment)
        try:
            with tempfile.TemporaryDirectory(prefix="tcplab-feedback-") as fresh:
                folders.feedback_directory = config.CourseDirectory.feedback_directory = fresh
                made = GenerateFeedback(coursedir=folders, config=config, force=True, log=_LOG)
                with at_most(_PAGE_S):
                    _attempt(made.start)
                # An earlier page stays until this one is complete.
                put_in_place(folder_of(folders, "feedback", task.student, task.assignment), target)
        except TooLongError:
            raise StepError(f"it took more than {_PAGE_S:g} s of processor time") from None

    def _configured(self) -> tuple[Any, CourseDirectory]:
        config, task = copy.deepcopy(self._config), self._task
        config.CourseDirectory.update(student_id=task.student, assignment_id=task.assignment)
        return config, CourseDirectory(config=config)


def _attempt(step: Callable[[], None]) -> None:
    """Run a step of nbgrader, at most ATTEMPTS times. Raise StepError if all attempts fail."""
    why = ""
    for attempt in range(ATTEMPTS):
        time.sleep(0.5 * attempt)
        _ERRORS.reason = ""
        try:
            step()
        except (Exception, SystemExit) as failure:
            print_traceback()
            why = _ERRORS.reason or reason(failure)
        else:
            return
    raise StepError(why)


class _Errors(logging.Handler):
    """Keep the error of a logged traceback. nbgrader's exception only refers to the log."""

    reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        lines = record.getMessage().strip().splitlines()
        if lines and lines[0].startswith("Traceback"):
            calls = [number for number, line in enumerate(lines) if line.startswith("  ")]
            error = lines[calls[-1] + 1 :] if calls else []
            self.reason = one_line(" ".join(error or lines[-1:]))


_ERRORS: Final = _Errors()
