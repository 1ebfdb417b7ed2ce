"""Grades submissions one after the other in one process: nbgrader is loaded once, not 300 times.

    python -m tcplab.grading.worker COURSE ASSIGNMENT --orders=FD [--unsafe-no-sandbox] …

loads nbgrader, and then forks a worker for each message on the socket FD: {"tmpdir": …} with the
worker's standard input, output and error. A descriptor of the worker's process comes back
(pidfd_open(2)). tcplab.grading.crew is the other end.

To a worker a line of JSON comes in, {"student": "ada", "grade": true, "then": "bob"}, a line with
what came of it goes out. Where "grade" is false only the feedback is made anew; "then" is who will
probably be next, and is judged already meanwhile. Everything here ends with the process that
started it, in whatever way that ends, and so does every sandbox.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from tcplab.grading.course import import_nbgrader, load_course
from tcplab.grading.staging import Staged, stage

__all__ = ["main"]

#: The gradebook may be locked by another worker for a moment.
ATTEMPTS: Final = 3
#: So many submissions are judged at a time: the one whose turn it is, and the next.
AHEAD: Final = 2
_PR_SET_PDEATHSIG: Final = 1


def main(argv: list[str] | None = None) -> int:
    """Forks workers until nobody is there to want one; in a worker, grades until its input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("course", type=Path)
    parser.add_argument("assignment")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--unsafe-no-sandbox", action="store_true")
    parser.add_argument("--no-feedback", action="store_true")
    arguments = parser.parse_args(argv)
    _die_with(arguments.parent)
    warnings.simplefilter("ignore")  # of the libraries; our own words go into the records
    with socket.socket(fileno=arguments.orders) as orders:
        _load()
        return _fork_workers(orders, arguments)


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("worker: the process that started it has ended")


def _load() -> None:
    """All that grading imports, so that no worker has to. No thread is left: they don't fork."""
    import_nbgrader()
    import nbgrader.converters  # noqa: F401

    import tcplab.grading.captures
    import tcplab.grading.parts  # noqa: F401
    from tcplab.lab.interfaces import import_early

    import_early()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


def _fork_workers(orders: socket.socket, arguments: argparse.Namespace) -> int:
    me = os.getpid()
    while True:
        words, fds, _, _ = socket.recv_fds(orders, 1 << 16, 3)
        if not words:
            return 0
        pid = os.fork()
        if pid == 0:
            _die_with(me)
            orders.close()
            return _work(arguments, fds, **json.loads(words))
        for fd in fds:
            os.close(fd)
        handle = os.pidfd_open(pid)
        socket.send_fds(orders, [str(pid).encode()], [handle])
        os.close(handle)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _work(arguments: argparse.Namespace, fds: list[int], tmpdir: str) -> int:
    """Grades whom standard input names until it ends."""
    os.setsid()  # Ctrl-C is for who started us, and tells us
    lines, answers, complaints = fds
    os.dup2(lines, 0)
    # What a library prints must not be taken for a result.
    os.dup2(complaints, 1)
    os.dup2(complaints, 2)
    os.close(lines)
    os.close(complaints)
    os.set_inheritable(answers, False)
    out = os.fdopen(answers, "w", buffering=1)
    os.environ["TMPDIR"] = tempfile.tempdir = tmpdir
    # nbgrader calls alembic by its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # nbgrader sets and unsets NBGRADER_EXECUTION around each notebook, and by a slip looks for the
    # old value under the new value's name. Found there it stays, since another thread may just be
    # copying the environment.
    os.environ["NBGRADER_EXECUTION"] = os.environ["autograde"] = "autograde"  # noqa: SIM112
    keep_engines()
    with (
        tempfile.TemporaryDirectory(prefix="tcplab-staging-") as staging,
        ThreadPoolExecutor(AHEAD, thread_name_prefix="ahead") as pool,
    ):
        grader = _Grader(arguments, Path(staging), pool)
        for line in sys.stdin:
            out.write(json.dumps(grader.do(**json.loads(line))) + "\n")
    return 0


def keep_engines() -> None:
    """Lets nbgrader use one database engine for all the gradebooks that it opens in this process.

    It opens ten a submission, each with an engine of its own that knows no statement yet: their
    compiling would be a third of a conversion. An engine may be used again after its dispose().
    """
    from nbgrader import api

    api.create_engine = cache(api.create_engine)


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
