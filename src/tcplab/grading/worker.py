"""Grades submissions one after the other in one process: nbgrader is loaded once, not 300 times.

    python -m tcplab.grading.worker COURSE ASSIGNMENT [--unsafe-no-sandbox] [--no-feedback]

A line of JSON comes in, {"student": "ada", "grade": true, "then": "bob"}, a line with what came of
it goes out. Where "grade" is false only the feedback is made anew; "then" is who will probably be
next, and is judged already meanwhile. The worker ends with the process that started it, in whatever
way that ends, and so does every sandbox.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tcplab.grading.course import load_course
from tcplab.grading.staging import Staged, stage

__all__ = ["main"]

#: The gradebook may be locked by another worker for a moment.
ATTEMPTS: Final = 3
#: So many submissions are judged at a time: the one whose turn it is, and the next.
AHEAD: Final = 2
_PR_SET_PDEATHSIG: Final = 1


def main(argv: list[str] | None = None) -> int:
    """Grades whom standard input names until it ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("course", type=Path)
    parser.add_argument("assignment")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--unsafe-no-sandbox", action="store_true")
    parser.add_argument("--no-feedback", action="store_true")
    arguments = parser.parse_args(argv)
    _die_with(arguments.parent)
    warnings.simplefilter("ignore")  # of the libraries; our own words go into the records
    # What a library prints must not be taken for a result.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # nbgrader calls alembic by its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # nbgrader sets and unsets NBGRADER_EXECUTION around each notebook, and by a slip looks for the
    # old value under the new value's name. Found there it stays, since another thread may just be
    # copying the environment.
    os.environ["NBGRADER_EXECUTION"] = os.environ["autograde"] = "autograde"  # noqa: SIM112
    with (
        tempfile.TemporaryDirectory(prefix="tcplab-staging-") as staging,
        ThreadPoolExecutor(AHEAD, thread_name_prefix="ahead") as pool,
    ):
        grader = _Grader(arguments, Path(staging), pool)
        for line in sys.stdin:
            out.write(json.dumps(grader.do(**json.loads(line))) + "\n")
    return 0


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("worker: the process that started it has ended")


class _Grader:
    def __init__(
        self, arguments: argparse.Namespace, staging: Path, pool: ThreadPoolExecutor
    ) -> None:
        self._assignment = arguments.assignment
        self._feedback = not arguments.no_feedback
        self._staging = staging
        self._pool = pool
        self._ahead: dict[str, Future[Staged]] = {}
        self._config, course = load_course(arguments.course)
        self._root = Path(course.root)
        self._submitted = Path(course.format_path(course.submitted_directory, ".", "."))
        if arguments.unsafe_no_sandbox:
            self._config.SandboxedExecute.unsafe_no_sandbox = True
        self._log = logging.getLogger("tcplab.worker")
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)

    def do(self, student: str, grade: bool, then: str | None = None) -> dict[str, Any]:
        """What came of one student: the request, "error" (None if all went well), "seconds"."""
        began_s = time.monotonic()
        print(f"---- {student}", file=sys.stderr)
        for each in (student if grade else None, then):
            if each is not None and each not in self._ahead:
                self._ahead[each] = self._pool.submit(self._begin, each)
        error = self._try(self._autograde, student) if grade else None
        if error is None and self._feedback:
            error = self._try(self._give_feedback, student)
        seconds = round(time.monotonic() - began_s, 3)
        return {"student": student, "grade": grade, "error": error, "seconds": seconds}

    def _try(self, step: Callable[[str], None], student: str) -> str | None:
        """None, or why the step failed every time."""
        error: BaseException | None = None
        for attempt in range(ATTEMPTS):
            time.sleep(0.5 * attempt)
            try:
                step(student)
            except (Exception, SystemExit) as failure:
                traceback.print_exc()
                error = failure
            else:
                return None
        words = " ".join(str(error).split())
        return f"{type(error).__name__}: {words}"[:300]

    def _begin(self, student: str) -> Staged:
        """Takes a submission over and judges it, in whatever thread."""
        from tcplab.grading.ahead import judge_ahead
        from tcplab.grading.parts import SandboxedExecute

        staged = stage(
            self._submitted / student / self._assignment,
            self._staging / student / self._assignment,
            f"{self._assignment}.ipynb",
        )
        config, course = self._course_for(student)
        source = Path(course.format_path(course.source_directory, ".", self._assignment)).resolve()
        if (source / "hidden" / "judge.py").is_file():
            execute = SandboxedExecute(config=config)
            judge_ahead(
                execute.judge_of(source),
                course,
                student,
                self._staging / student / self._assignment,
                cell_timeout_s=execute.cell_timeout_s,
            )
        return staged

    def _autograde(self, student: str) -> None:
        from nbgrader.converters import Autograde

        from tcplab.grading.parts import record_path

        begun = self._ahead.pop(student, None)
        staged = begun.result() if begun else self._begin(student)
        record = record_path(self._root, self._assignment, student)
        record.unlink(missing_ok=True)
        config, course = self._course_for(student, submitted=str(self._staging))
        Autograde(coursedir=course, config=config, force=True).start()
        told = json.loads(record.read_text())
        told["repairs"] = [*staged.repairs, *told["repairs"]]
        told["flags"] = [*staged.flags, *told["flags"]]
        record.write_text(json.dumps(told, indent=1))

    def _give_feedback(self, student: str) -> None:
        from nbgrader.converters import GenerateFeedback

        config, course = self._course_for(student)
        with contextlib.redirect_stdout(sys.stderr):
            GenerateFeedback(coursedir=course, config=config, force=True).start()

    def _course_for(self, student: str, submitted: str | None = None) -> tuple[Any, Any]:
        import copy

        from nbgrader.coursedir import CourseDirectory

        config = copy.deepcopy(self._config)
        config.CourseDirectory.student_id = student
        config.CourseDirectory.assignment_id = self._assignment
        if submitted:
            config.CourseDirectory.submitted_directory = submitted
        return config, CourseDirectory(config=config)


if __name__ == "__main__":
    sys.exit(main())
