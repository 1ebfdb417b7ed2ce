"""Grade a whole class in parallel, and continue after an interruption (`tcplab grade`).

A ledger records finished work, so that a run after Ctrl-C, SIGKILL or a late submission grades only
what is new, and updates feedback where a person has given marks.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.errors import LabError, ParameterError
from tcplab.grading.course import folder_of, load_assignment
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
from tcplab.lab.scratch import temporary_folder

if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory


_LACKING: Final = {"not_judged": "not judged", "no_feedback": "no feedback page"}
#: The grader gives up on a submission after this time. Other limits should end it earlier.
DEADLINE_S: Final = 480.0


@dataclass(slots=True)
class Batch:
    """The outcome of grading a class."""

    graded: list[str] = field(default_factory=list)  #: students who were graded in this run
    kept: list[str] = field(default_factory=list)  #: students whose grades were up to date
    feedback: list[str] = field(default_factory=list)  #: students in `kept` with a new page
    failed: dict[str, str] = field(default_factory=dict)  #: reasons for missing grades, by student
    #: what submissions with a grade lack, which is a verdict or a feedback page, by student
    lacking: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False  #: True if Ctrl-C ended the run
    seconds: float = 0.0  #: duration of the run
    report: Path | None = None  #: path of the page with the report

    @property
    def exit_status(self) -> int:
        """0 if all is done, 3 if a grade, page or verdict is missing, and 1 if all grades are."""
        if not (self.failed or self.lacking):
            return 0
        return 3 if self.graded or self.kept else 1

    def take(self, finished: Finished[GradingTask]) -> None:
        """Record the result of grading one submission, which replaces that of an earlier one."""
        student = finished.task.student
        result = finished.result or {"did": "graded", "error": finished.error}
        for reasons in (self.failed, self.lacking):
            reasons.pop(student, None)
        lacking = [f"{what}: {result[key]}" for key, what in _LACKING.items() if result.get(key)]
        if lacking:
            self.lacking[student] = "; ".join(lacking)
        if result["error"] is not None:
            self.failed[student] = result["error"]
        elif result["did"] == "graded":
            self.graded.append(student)
        if result["did"] != "graded":
            self.kept.append(student)
        if result["did"] == "feedback":
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
    ledger = GradeLedger(work.folders, assignment)
    for student in () if again else wanted:
        if ledger.has_feedback(student, marks.get(student, NO_MARKS)):
            submitted = folder_of(work.folders, "submitted", student, assignment)
            if ledger.has_grade(student, content_key(submitted, work.source_key)):
                batch.kept.append(student)
    tasks = [
        work.task(student, marks_key=marks.get(student, NO_MARKS), again=again, feedback=feedback)
        for student in wanted
        if student not in batch.kept
    ]
    if tasks:
        with work.executor() as executor:
            _run(batch, executor, tasks)
    work.write_report(batch)
    return batch


@dataclass(frozen=True, slots=True)
class Work:
    """The settings for grading an assignment, which are the same for all students."""

    assignment: str
    course: Path
    config: Any  #: the configuration of nbgrader
    folders: CourseDirectory
    jobs: int
    scheduler: str  #: address of the Dask scheduler, or empty to grade on this machine
    source_key: str  #: digest of the assignment
    task: Callable[..., GradingTask]  #: make the task of grading the submission of a student

    def release(self) -> None:
        """Make the learners' version and the gradebook's entry unless both exist."""
        # If two graders start at the same time, the first makes them and the second finds them.
        with locked(self.course / "reports" / ".lock"):
            if not _is_released(self.folders, self.assignment):
                release(self.config, self.assignment)
        look_for_interrupt()

    def write_report(self, batch: Batch) -> None:
        """Write the report on all grades so far."""
        from tcplab.grading.report import write_report

        batch.report = write_report(
            self.config, self.assignment, self.course, batch.failed, batch.lacking
        )

    @contextmanager
    def executor(self) -> Iterator[Any]:
        """Yield a function that grades tasks like run_each, and remove its temporary files."""
        if self.scheduler:
            from tcplab.grading.cluster import Needs, run_each_at

            is_file = self.folders.db_url.startswith("sqlite:")
            needs = Needs(self.course, socket.gethostname() if is_file else "")
            yield partial(run_each_at, self.scheduler, _grade, needs=needs, deadline_s=DEADLINE_S)
            return
        import tcplab.grading.steps  # noqa: F401  # before the processes fork, since it is slow

        with temporary_folder(f"{self.course}/reports/{self.assignment}") as name:
            options: dict[str, Any] = {"scratch": Path(name), "deadline_s": DEADLINE_S}
            yield partial(run_each, _grade, jobs=self.jobs, **options)


def _grade(task: GradingTask) -> Any:
    """Import what grading needs where it happens, not in the event loop of a Dask worker."""
    from tcplab.grading.steps import grade_submission

    return grade_submission(task)


def prepare(assignment: str, *, course: Path = Path(), jobs: int = 0, scheduler: str = "") -> Work:
    """Check that an assignment can be graded here, and return the settings.

    Raise ParameterError or LabError if it cannot be graded. `jobs` submissions are graded in
    parallel, by default one per processor, or `scheduler` is the address of a Dask scheduler.
    """
    from tcplab.grading.sandbox import why_no_sandbox

    if not 0 <= jobs <= 256:
        raise ParameterError(f"jobs={jobs} must be from 1 to 256 (or 0: one per processor)")
    if jobs and scheduler:
        raise ParameterError(
            f"jobs={jobs} applies to this machine only; set --nthreads of the workers"
        )
    course = course.resolve()
    config, folders, source = load_assignment(course, assignment)
    if not (source / "hidden" / "judge.py").is_file():
        raise ParameterError(f"{source} has no hidden/judge.py; see docs/grading.md")
    if not scheduler and (reason := why_no_sandbox()):
        raise LabError(f"submissions are not graded without a sandbox. {reason}")
    jobs, key = jobs or os.cpu_count() or 1, content_key(source)
    about: dict[str, Any] = {"assignment": assignment, "course": course, "source_key": key}
    task = partial(GradingTask, **about, run=uuid.uuid4().hex)
    return Work(assignment, course, config, folders, jobs, scheduler, key, task)


def _submissions(
    folders: CourseDirectory, assignment: str, students: Sequence[str], failed: dict[str, str]
) -> list[str]:
    """Return those in `students`, or all who handed in; add unfit folders to `failed`."""
    submitted, listed = folder_of(folders, "submitted"), read_class(Path(folders.root))
    names = []
    for folder in sorted(submitted.iterdir()) if submitted.is_dir() else ():
        try:
            if stat.S_ISDIR((folder / assignment).stat().st_mode):
                names.append(folder.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failed[folder.name] = f"{error.strerror}: {folder.name}/{assignment}"
    alike = Counter(map(same_for_people, names))
    for name in names:
        if reason := _why_unfit(name, listed, alike):
            failed[name] = reason
    submitters = [name for name in names if name not in failed]
    if unknown := sorted(set(students) - {*submitters, *failed}):
        raise ParameterError(f"no submission of {', '.join(unknown)} in {submitted}")
    if not submitters and not failed:
        raise ParameterError(f"nothing to grade: no folder {submitted}/STUDENT/{assignment}")
    return [student for student in submitters if not students or student in students]


def _why_unfit(student: str, listed: Sequence[str], alike: Mapping[str, int]) -> str | None:
    if reason := unfit_id(student):
        return f"the folder's name {reason}; it must be the student's id"
    if listed and student not in listed:
        return f"not in {CLASS_FILE}; add the id there, or rename the folder"
    if alike[same_for_people(student)] > 1:
        return "the id of another student differs from this one by case only"
    return None


def _is_released(folders: CourseDirectory, assignment: str) -> bool:
    from nbgrader.api import Gradebook, MissingEntry

    released = folder_of(folders, "release", assignment=assignment)
    # For a new gradebook nbgrader runs alembic, which would print a traceback after Ctrl-C.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        gradebook = Gradebook(folders.db_url, folders.course_id)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:  # nbgrader writes the notebook last, so a damaged one shows that nbgrader was killed
        with gradebook:
            notebook = json.loads((released / f"{assignment}.ipynb").read_bytes())
            return bool(notebook and gradebook.find_assignment(assignment).notebooks)
    except (FileNotFoundError, ValueError, MissingEntry):
        return False


def _run(batch: Batch, executor: Any, tasks: Sequence[GradingTask]) -> None:
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
