"""`tcplab grade`: a whole class, in parallel, resumable, with nobody lost.

Workers grade one submission each at a time (tcplab.grading.worker). What was graded is remembered
with a digest of the submission and of the assignment, so that a second run after Ctrl-C, SIGKILL or
a late submission does only what is new. What a person marked meanwhile is known by a second digest,
and gives new feedback pages. nbgrader's own commands work on the same folders before, between and
after.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tcplab.errors import LabError, ParameterError
from tcplab.grading.course import load_course
from tcplab.grading.crew import Crew, Worker
from tcplab.grading.generate import release
from tcplab.grading.staging import content_key

__all__ = ["Batch", "grade"]

#: A submission that takes longer than this is given up; its own limits should have ended it before.
PATIENCE_S: Final = 900.0


class _Task(NamedTuple):
    """What a worker is asked for: grading and feedback, or feedback alone."""

    student: str
    grade: bool


#: Called with each task that succeeded.
Done = Callable[[_Task], None]
#: Gives a worker to the desk of that number.
Hire = Callable[[int], Worker]


@dataclass(slots=True)
class Batch:
    """What a run over a class did.

    Attributes:
        graded: students graded in this run.
        kept: students whose grades were there already.
        told: those of them whose feedback was made anew, since a person marked something.
        failed: student -> why no grade could be given.
        interrupted: whether Ctrl-C ended it.
        seconds: it took.
        report: the report's page.
    """

    graded: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    seconds: float = 0.0
    report: Path | None = None


def grade(
    assignment: str,
    *,
    course: Path = Path(),
    jobs: int = 0,
    students: Sequence[str] = (),
    again: bool = False,
    feedback: bool = True,
    unsafe_no_sandbox: bool = False,
) -> Batch:
    """Grades all submissions of an assignment and writes the report.

    Args:
        assignment: its name, such as "ps5".
        course: the folder with nbgrader_config.py.
        jobs: how many at a time; one a processor unless given.
        students: only these.
        again: also those that are graded and unchanged.
        feedback: make the feedback pages.
        unsafe_no_sandbox: run submissions without walls.

    Raises:
        ParameterError: no such assignment, course or student, or jobs is out of range.
        LabError: submissions cannot be sandboxed here.
    """
    from tcplab.grading.sandbox import why_no_sandbox

    if not 0 <= jobs <= 256:
        raise ParameterError(f"jobs={jobs} must be from 1 to 256 (or 0: one a processor)")
    course = course.resolve()
    options = ["--unsafe-no-sandbox"] * unsafe_no_sandbox + ["--no-feedback"] * (not feedback)
    with Crew([str(course), assignment, *options]) as crew:
        config, folders = load_course(course)
        source = Path(folders.format_path(folders.source_directory, ".", assignment))
        if not source.is_dir():
            raise ParameterError(f"no assignment {assignment!r}: {source} does not exist")
        if not unsafe_no_sandbox and (reason := why_no_sandbox()):
            raise LabError(
                f"submissions are not graded without a sandbox. {reason}"
                " (or, if you trust them all: --unsafe-no-sandbox)"
            )
        submitted = Path(folders.format_path(folders.submitted_directory, ".", "."))
        everybody = sorted(
            path.parent.name for path in submitted.glob(f"*/{assignment}") if path.is_dir()
        )
        todo = [each for each in everybody if not students or each in students]
        if unknown := sorted(set(students) - set(everybody)):
            raise ParameterError(f"no submission of {', '.join(unknown)} in {submitted}")
        if not todo:
            raise ParameterError(f"nothing to grade: no folder {submitted}/STUDENT/{assignment}")
        _release(config, folders, assignment)
        reports = course / "reports" / assignment
        key_of_source = content_key(source, "unsafe" if unsafe_no_sandbox else "sandboxed")
        ledger = _Ledger(reports / "graded", folders, assignment, key_of_source)
        run = Batch()
        keys = {each: ledger.key(submitted / each / assignment) for each in todo}
        run.kept = [each for each in todo if not again and ledger.holds(each, keys[each])]
        marks = _marks_by_hand(folders, assignment)
        left = [
            _Task(each, each not in run.kept)
            for each in todo
            if each not in run.kept
            or (feedback and not ledger.tells(each, marks.get(each, NO_MARKS)))
        ]

        def done(task: _Task) -> None:
            (run.graded if task.grade else run.told).append(task.student)
            ledger.put(
                task.student, keys[task.student], marks.get(task.student, NO_MARKS) * feedback
            )

        with _scratch(reports) as scratch:

            def hire(number: int) -> Worker:
                return crew.start(reports / "logs" / f"worker-{number}.log", scratch)

            _work(run, crew, hire, left, jobs or os.cpu_count() or 1, done)
    from tcplab.grading.report import write_report

    run.report = write_report(config, assignment, course, run.failed)
    return run


def _release(config: Any, folders: Any, assignment: str) -> None:
    """Makes the learners' version and the gradebook's entry, where they are not there yet."""
    from nbgrader.api import Gradebook, MissingEntry

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    released = Path(folders.format_path(folders.release_directory, ".", assignment))
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        try:
            known = bool(gradebook.find_assignment(assignment).notebooks)
        except MissingEntry:
            known = False
    if known and released.is_dir():
        return
    release(config, assignment)


@contextmanager
def _scratch(reports: Path) -> Iterator[Path]:
    """A folder for the workers' temporary files, which go with it even when a worker is killed.

    That of a run that was killed itself goes now.
    """
    for old in reports.glob(".scratch-*"):
        if not Path("/proc", old.name.rpartition("-")[2]).exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = reports / f".scratch-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


#: The digest of a student for whom no person has marked anything.
NO_MARKS: Final = "none"


def _marks_by_hand(folders: Any, assignment: str) -> dict[str, str]:
    """student -> digest of the scores and comments that persons gave; nobody else is in it."""
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


class _Ledger:
    """What was done for whom: a digest of what was handed in and what it was graded with, and one
    of the marks by hand that the feedback tells (empty: there is none)."""

    def __init__(self, folder: Path, folders: Any, assignment: str, key_of_source: str) -> None:
        self._folder = folder
        self._folders = folders
        self._assignment = assignment
        self._key_of_source = key_of_source

    def key(self, submission: Path) -> str:
        return content_key(submission, self._key_of_source)

    def holds(self, student: str, key: str) -> bool:
        graded = self._folders.format_path(
            self._folders.autograded_directory, student, self._assignment
        )
        return self._lines(student)[0] == key and Path(graded).is_dir()

    def tells(self, student: str, marks: str) -> bool:
        page = self._folders.format_path(
            self._folders.feedback_directory, student, self._assignment
        )
        return self._lines(student)[1] == marks and Path(page).is_dir()

    def put(self, student: str, key: str, marks: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{student}.{os.getpid()}"
        draft.write_text(f"{key}\n{marks}\n")
        draft.replace(self._folder / student)

    def _lines(self, student: str) -> tuple[str, str]:
        path = self._folder / student
        lines = path.read_text().splitlines() if path.is_file() else []
        return (lines[0], lines[1]) if len(lines) == 2 else ("", "")


# ---- handing out ---------------------------------------------------------------------------------


def _work(
    run: Batch, crew: Crew, hire: Hire, tasks: Sequence[_Task], jobs: int, done: Done
) -> None:
    """Hands the tasks out to threads with a worker each; takes the results in."""
    from tqdm import tqdm

    began_s = time.monotonic()
    waiting: queue.SimpleQueue[_Task] = queue.SimpleQueue()
    results: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    for each in tasks:
        waiting.put(each)
    jobs = min(jobs, len(tasks))
    # The main thread hires them all: whoever asks for one gets the next one's handle.
    desks = [_Desk(crew, number, waiting, results, hire(number)) for number in range(jobs)]
    threads = [threading.Thread(target=desk.sit, daemon=True) for desk in desks]
    for thread in threads:
        thread.start()
    busy = jobs
    there = len(run.kept) - sum(not task.grade for task in tasks)
    bar = tqdm(total=len(tasks) + there, initial=there, unit="student", disable=None)
    try:
        while busy:
            result = results.get()
            if result is None:
                busy -= 1
            elif "replace" in result:
                desks[result["replace"]].replacement.put(hire(result["replace"]))
            else:
                _note(run, result, done)
                bar.update()
    except KeyboardInterrupt:
        run.interrupted = True
    finally:
        crew.end()
        for thread in threads:
            thread.join(timeout=20)
        bar.close()
    run.seconds = round(time.monotonic() - began_s, 3)


def _note(run: Batch, result: dict[str, Any], done: Done) -> None:
    if result["error"] is None:
        done(_Task(result["student"], result["grade"]))
    else:
        run.failed[result["student"]] = result["error"]


class _Desk:
    """One worker and the thread that talks with it. A worker that dies is replaced."""

    def __init__(
        self,
        crew: Crew,
        number: int,
        waiting: queue.SimpleQueue[_Task],
        results: queue.SimpleQueue[dict[str, Any] | None],
        worker: Worker,
    ) -> None:
        self._crew = crew
        self._number = number
        self._waiting = waiting
        self._results = results
        self._worker = worker
        self.replacement: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def sit(self) -> None:
        try:
            task = self._take()
            while task is not None:
                then = self._take()
                self._results.put(self._do(task, then))
                task = then
        except LabError:  # the batch has ended
            pass
        finally:
            self._crew.dismiss(self._worker)
            self._results.put(None)

    def _take(self) -> _Task | None:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None

    def _do(self, task: _Task, then: _Task | None) -> dict[str, Any]:
        """What came of the task. A worker that dies may have died of the next one's submission, so
        the second attempt knows of no next one."""
        words = {**task._asdict(), "then": then.student if then and then.grade else None}
        for attempt in (words, task._asdict()):
            result = self._ask(attempt)
            if result is not None:
                return result
            self._crew.dismiss(self._worker, kill=True)
            if self._crew.ended:
                raise LabError("the batch has ended")
            self._results.put({"replace": self._number})
            try:
                self._worker = self.replacement.get(timeout=30)
            except queue.Empty:
                raise LabError("the batch has ended") from None
        return {**task._asdict(), "error": "the grading process died twice", "seconds": 0.0}

    def _ask(self, words: dict[str, Any]) -> dict[str, Any] | None:
        """None when the worker died, or had to be given up."""
        worker = self._worker
        watch = threading.Timer(PATIENCE_S, worker.kill)
        watch.start()
        try:
            worker.stdin.write(json.dumps(words) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except (OSError, ValueError):
            line = ""
        finally:
            watch.cancel()
        if not line:
            return None
        result: dict[str, Any] = json.loads(line)
        return result
