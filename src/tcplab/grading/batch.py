"""Grade a whole class in parallel, and continue after an interruption (`tcplab grade`).

A ledger records finished work, so that a run after Ctrl-C, SIGKILL or a late submission grades only
what is new, and updates feedback where a person has given marks. nbgrader's own commands work on
the same folders before, between and after such runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.errors import LabError, ParameterError
from tcplab.grading.course import load_course, source_folder
from tcplab.grading.ledger import (
    CLASS_FILE,
    NO_MARKS,
    GradeLedger,
    GradingTask,
    locked,
    marks_by_hand,
    read_class,
)
from tcplab.grading.neutral import same_for_people, unfit_id
from tcplab.grading.processes import Finished, look_for_interrupt, run_each
from tcplab.grading.release import release
from tcplab.grading.staging import content_key

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory


#: The grader gives up on a submission after this time. Other limits should end it earlier.
DEADLINE_S: Final = 480.0


@dataclass(slots=True)
class Batch:
    """The outcome of grading a class."""

    graded: list[str] = field(default_factory=list)  #: students who were graded in this run
    kept: list[str] = field(default_factory=list)  #: students whose grades were up to date
    #: students in `kept` whose feedback page was made or updated
    feedback: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  #: reasons for missing grades, by student
    #: reasons for missing feedback pages of students who have a grade, by student
    no_feedback: dict[str, str] = field(default_factory=dict)
    #: questions that could not be judged, with reasons, by student; the rest of the grade is valid
    not_judged: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False  #: True if Ctrl-C ended the run
    seconds: float = 0.0  #: duration of the run
    report: Path | None = None  #: path of the page with the report

    @property
    def exit_status(self) -> int:
        """0 if all is done, 3 if a grade, page or verdict is missing, and 1 if all grades are."""
        if not (self.failed or self.no_feedback or self.not_judged):
            return 0
        return 3 if self.graded or self.kept else 1

    def lacking(self) -> dict[str, str]:
        """Return what graded submissions lack, by student."""
        lacking = {student: f"not judged: {reason}" for student, reason in self.not_judged.items()}
        for student, reason in self.no_feedback.items():
            earlier = f"{lacking[student]}; " if student in lacking else ""
            lacking[student] = f"{earlier}no feedback page: {reason}"
        return lacking

    def take(self, finished: Finished[GradingTask]) -> None:
        """Record the result of grading one submission."""
        student = finished.task.student
        result = finished.result or {"did": "graded", "error": finished.error}
        if result["did"] != "graded":
            self.kept.append(student)
        if reason := result.get("no_feedback"):
            self.no_feedback[student] = reason
        if reason := result.get("not_judged"):
            self.not_judged[student] = reason
        if result["error"] is not None:
            self.failed[student] = result["error"]
        elif result["did"] == "graded":
            self.graded.append(student)
        elif result["did"] == "feedback":
            self.feedback.append(student)


def grade(
    assignment: str,
    *,
    students: Sequence[str] = (),
    again: bool = False,
    feedback: bool = True,
    **where: Any,
) -> Batch:
    """Grade all submissions, or those of `students`; grade unchanged ones only with `again`."""
    work = prepare(assignment, **where)
    batch = Batch()
    wanted = _submissions(work.folders, assignment, students, batch.failed)
    work.release()
    marks = marks_by_hand(work.folders, assignment)
    batch.kept = [] if again else _up_to_date(work, wanted, marks)
    tasks = [
        work.task(student, marks.get(student, NO_MARKS), again=again, feedback=feedback)
        for student in wanted
        if student not in batch.kept
    ]
    if tasks:
        with work.executor() as executor:
            _run(batch, executor, tasks)
    work.write_report(batch)
    return batch


#: A function that calls grade_submission() with each task, as run_each() does.
Executor = Callable[[Iterable[GradingTask | None]], Generator[Finished[GradingTask]]]


@dataclass(frozen=True, slots=True)
class Work:
    """The settings for grading an assignment, which are the same for all students."""

    assignment: str
    course: Path
    config: Any  #: the configuration of nbgrader
    folders: CourseDirectory
    jobs: int
    scheduler: str  #: address of the Dask scheduler, or empty to grade on this machine
    unsafe_no_sandbox: bool
    source_key: str  #: digest of the assignment and of how it is graded
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def reports(self) -> Path:
        return self.course / "reports" / self.assignment

    def task(self, student: str, marks_key: str, **options: Any) -> GradingTask:
        """Return the task of grading the submission of a student."""
        return GradingTask(
            student,
            self.assignment,
            self.course,
            self.reports,
            self.source_key,
            marks_key,
            unsafe_no_sandbox=self.unsafe_no_sandbox,
            run=self.run,
            **options,
        )

    def release(self) -> None:
        """Make the learners' version and the gradebook's entry unless both exist."""
        # If two graders start at the same time, the first makes them and the second finds them.
        with locked(self.course / "reports" / ".lock"):
            _release(self.config, self.folders, self.assignment)
        look_for_interrupt()

    def write_report(self, batch: Batch) -> None:
        """Write the report on all grades so far."""
        from tcplab.grading.report import write_report

        batch.report = write_report(
            self.config, self.assignment, self.course, batch.failed, batch.lacking()
        )

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """Yield a function that grades tasks, and remove its temporary files at the end."""
        if self.scheduler:
            from tcplab.grading.cluster import Needs, run_each_at

            is_file = self.folders.db_url.startswith("sqlite:")
            needs = Needs(
                self.course, socket.gethostname() if is_file else "", not self.unsafe_no_sandbox
            )
            yield partial(run_each_at, self.scheduler, _grade, needs=needs, deadline_s=DEADLINE_S)
            return
        from tcplab.grading.steps import grade_submission  # slow, and of no use if none has changed

        with scratch_folder(self.reports) as scratch:
            yield partial(
                run_each, grade_submission, jobs=self.jobs, scratch=scratch, deadline_s=DEADLINE_S
            )


def _grade(task: GradingTask) -> Any:
    """Import what grading needs where it happens, not in the event loop of a Dask worker."""
    from tcplab.grading.steps import grade_submission

    return grade_submission(task)


def prepare(
    assignment: str,
    *,
    course: Path = Path(),
    jobs: int = 0,
    scheduler: str = "",
    unsafe_no_sandbox: bool = False,
) -> Work:
    """Check that an assignment can be graded here, and return the settings.

    Raise ParameterError or LabError if it cannot be graded. The folder `course` holds
    nbgrader_config.py. `jobs` submissions are graded in parallel, by default one per processor.
    `scheduler` is the address of a Dask scheduler whose workers grade instead of this machine.
    """
    from tcplab.grading.sandbox import why_no_sandbox

    if not 0 <= jobs <= 256:
        raise ParameterError(f"jobs={jobs} must be from 1 to 256 (or 0: one per processor)")
    if jobs and scheduler:
        raise ParameterError(
            f"jobs={jobs} applies to this machine only; set --nthreads of the workers"
        )
    course = course.resolve()
    config, folders = load_course(course)
    source = source_folder(folders, assignment)
    if not (source / "hidden" / "judge.py").is_file():
        raise ParameterError(f"{source} has no hidden/judge.py; see docs/grading.md")
    if not (unsafe_no_sandbox or scheduler) and (reason := why_no_sandbox()):
        raise LabError(
            f"submissions are not graded without a sandbox. {reason}"
            " (or, if you trust them all: --unsafe-no-sandbox)"
        )
    source_key = content_key(source, "unsafe" if unsafe_no_sandbox else "sandboxed")
    jobs = jobs or os.cpu_count() or 1
    return Work(assignment, course, config, folders, jobs, scheduler, unsafe_no_sandbox, source_key)


def _submissions(
    folders: CourseDirectory, assignment: str, students: Sequence[str], failed: dict[str, str]
) -> list[str]:
    """Return those in `students`, or all who handed in; add unfit folders to `failed`."""
    submitted = Path(folders.format_path(folders.submitted_directory, ".", "."))
    submitters = []
    for folder in sorted(submitted.iterdir()) if submitted.is_dir() else ():
        try:
            is_submission = stat.S_ISDIR((folder / assignment).stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failed[folder.name] = f"{error.strerror}: {folder.name}/{assignment}"
            continue
        if is_submission and (reason := unfit_id(folder.name)):
            failed[folder.name] = f"the folder's name {reason}; it must be the student's id"
        elif is_submission:
            submitters.append(folder.name)
    failed |= _unsure(submitters, read_class(Path(folders.root)))
    submitters = [student for student in submitters if student not in failed]
    if unknown := sorted(set(students) - {*submitters, *failed}):
        raise ParameterError(f"no submission of {', '.join(unknown)} in {submitted}")
    if not submitters and not failed:
        raise ParameterError(f"nothing to grade: no folder {submitted}/STUDENT/{assignment}")
    return [student for student in submitters if not students or student in students]


def _unsure(submitters: Sequence[str], listed: Sequence[str]) -> dict[str, str]:
    """Return those whose grade could be another person's, with the reason."""
    alike = Counter(map(same_for_people, submitters))
    unsure = {}
    for student in submitters:
        if listed and student not in listed:
            unsure[student] = f"not in {CLASS_FILE}; add the id there, or rename the folder"
        elif alike[same_for_people(student)] > 1:
            unsure[student] = "the id of another student differs from this one by case only"
    return unsure


def _up_to_date(work: Work, students: Sequence[str], marks: dict[str, str]) -> list[str]:
    """Return those whose grades and pages are up to date."""
    folders, directory = work.folders, work.folders.submitted_directory
    ledger = GradeLedger(work.reports, folders, work.assignment)

    def is_up_to_date(student: str) -> bool:
        submitted = Path(folders.format_path(directory, student, work.assignment))
        return ledger.has_feedback(student, marks.get(student, NO_MARKS)) and ledger.has_grade(
            student, content_key(submitted, work.source_key)
        )

    return [student for student in students if is_up_to_date(student)]


def _release(config: Any, folders: CourseDirectory, assignment: str) -> None:
    from nbgrader.api import Gradebook, MissingEntry

    released = Path(folders.format_path(folders.release_directory, ".", assignment))
    try:  # nbgrader writes this file last, so a damaged one shows that nbgrader was killed
        whole = bool(json.loads((released / f"{assignment}.ipynb").read_bytes()))
    except (FileNotFoundError, ValueError):
        whole = False
    # For a new gradebook nbgrader runs alembic, which would print a traceback after Ctrl-C.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        gradebook = Gradebook(folders.db_url, folders.course_id)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with gradebook:
        try:
            known = bool(gradebook.find_assignment(assignment).notebooks)
        except MissingEntry:
            known = False
    if not (known and whole):
        release(config, assignment)


@contextmanager
def scratch_folder(reports: Path) -> Iterator[Path]:
    """Yield a temporary folder, after removing the folders of killed runs on this machine."""
    prefix = f".scratch-{socket.gethostname()}-"
    for old in reports.glob(f"{prefix}*"):
        if not Path("/proc", old.name.removeprefix(prefix)).exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = reports / f"{prefix}{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(batch: Batch, executor: Executor, tasks: Sequence[GradingTask]) -> None:
    from tqdm import tqdm

    began_s = time.monotonic()
    try:
        with (
            closing(executor(tasks)) as results,
            tqdm(total=len(tasks), unit="student", disable=None) as bar,
        ):
            for finished in results:
                batch.take(finished)
                bar.update()
    except KeyboardInterrupt:
        batch.interrupted = True
    batch.seconds = round(time.monotonic() - began_s, 3)
