"""Run each task in a new process, a few at a time.

A process that is killed, crashes or misses its deadline costs only its own task, because each
process has its own pipe. (All workers of pebble share one pipe and its locks. After SIGKILL had
killed a worker in each of ten pools, only seven pools finished.) The processes are forked from a
server that has loaded the heavy modules once. They end with the pool's owner, even if it is killed.

A part of a task that is sensitive to load waits for a turn, and there are as many turns as jobs.
Such a part is often idle, for example on a wire with a long round-trip time. Meanwhile, a few more
processes prepare or finish their tasks. A turn is a locked file, which the kernel unlocks when its
process ends.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, Final, Generic, TypeVar

from tcplab.grading.apart import end_with_owner, how_it_died

T = TypeVar("T")

#: Maximum number of attempts at a task. Its process may die although the task is not to blame, for
#: example if another process uses all memory.
ATTEMPTS: Final = 2

#: Environment variable that gives the server the owner's pid and the folder of the server's socket.
#: An orphaned server removes the folder.
SOCKET_FOLDER: Final = "TCPLAB_GRADING_SOCKET"
#: The lock files of the turns, or empty if the pool of this process has no turns.
_turns: Sequence[Path] = ()
_is_interrupted = False


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """A task that has ended."""

    task: T  #: the task that was passed in
    result: Any  #: the result of the function, or None if there is an error
    error: str | None = None  #: why there is no result, or None


def load_ahead() -> None:
    """Start the server that loads what every process needs (tcplab.grading.warm)."""
    # numpy's threads would be lost in a fork, and judges compute little.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tcplab.grading.warm"])
    # Only the owner handles Ctrl-C. By itself, the server ignores it only after loading everything.
    with on_interrupt(signal.SIG_IGN):
        os.environ[SOCKET_FOLDER] = f"{os.getpid()} {util.get_temp_dir()}"
        forkserver.ensure_running()
        del os.environ[SOCKET_FOLDER]


@contextmanager
def on_interrupt(answer: Any) -> Iterator[None]:
    """Set the handler of Ctrl-C in the body. Outside the main thread, this has no effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def note_interrupt(number: int, _frame: object) -> None:
    """Record a signal, since an exception here could be lost. A second one kills the process."""
    global _is_interrupted
    _is_interrupted = True
    signal.signal(number, signal.SIG_DFL)


def look_for_interrupt() -> None:
    """Raise KeyboardInterrupt if Ctrl-C has been recorded."""
    global _is_interrupted
    if _is_interrupted:
        _is_interrupted = False
        raise KeyboardInterrupt


def run_each(
    function: Callable[[T], Any],
    tasks: Iterable[T | None],
    *,
    jobs: int,
    scratch: Path,
    deadline_s: float,
    ahead: int = 0,
) -> Generator[Finished[T], None, None]:
    """Call the function with each task in a new process, and yield results as tasks end.

    A task whose process dies is tried again. Closing the iterator kills running processes.

    Args:
        function: a module-level function that returns JSON-serializable data.
        tasks: picklable tasks, taken whenever a process can start. The iterator yields None while
            no task is ready.
        jobs: number of processes that may do load-sensitive work at the same time (see `turn`).
        scratch: folder for the temporary files of the processes, removed after each task.
        deadline_s: time after which a process is killed, and its task is not tried again.
        ahead: number of additional processes, which prepare or finish tasks without a turn. If 0,
            at most `jobs` processes run, so turn() never waits.
    """
    context = multiprocessing.get_context("forkserver")
    coming = Coming(None if task is None else (task, ATTEMPTS) for task in tasks)
    running: dict[Any, _Slot[T]] = {}
    with tempfile.TemporaryDirectory(prefix="turns-", dir=scratch) as folder:
        turns = [Path(folder, str(number)) for number in range(jobs)] if ahead else []
        try:
            while running or not coming.is_over:
                look_for_interrupt()
                while len(running) < jobs + ahead and (following := coming.take()) is not None:
                    slot = _Slot(context, function, *following, scratch, deadline_s, turns)
                    running[slot.connection] = slot
                for slot in running.values():
                    slot.kill_if_late()
                for connection in wait(list(running), timeout=1.0):
                    slot = running.pop(connection)
                    finished = slot.finish()
                    if finished.error and slot.attempts > 1 and not slot.is_late:
                        coming.again.append((slot.task, slot.attempts - 1))
                    else:
                        yield finished
        finally:
            for slot in running.values():
                slot.close()


class Coming(Generic[T]):
    """Pending tasks; retries come first."""

    def __init__(self, tasks: Iterable[T | None]) -> None:
        self.again: deque[T] = deque()
        self._tasks = iter(tasks)
        self._ended = False

    @property
    def is_over(self) -> bool:
        return self._ended and not self.again

    def take(self) -> T | None:
        """Return the next task, or None if there is none at present."""
        if self.again:
            return self.again.popleft()
        try:
            return next(self._tasks)
        except StopIteration:
            self._ended = True
            return None


@contextmanager
def turn() -> Iterator[float]:
    """Hold one of the pool's turns, if it has any, and yield the seconds spent waiting for it."""
    asked_s = time.monotonic()
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("w")) for path in _turns]
        while files and not any(map(_lock, files)):
            time.sleep(0.05)
        yield time.monotonic() - asked_s if files else 0.0


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Slot(Generic[T]):
    """A place in the pool with the process that runs a task."""

    def __init__(
        self,
        context: Any,
        function: Callable[[T], Any],
        task: T,
        attempts: int,
        scratch: Path,
        deadline_s: float,
        turns: Sequence[Path],
    ) -> None:
        self.task = task
        self.attempts = attempts
        self.is_late = False
        self._deadline_s = deadline_s
        self._started_s = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="slot-", dir=scratch)
        self.connection, theirs = context.Pipe()
        with theirs:
            arguments = (theirs, turns, self._folder.name, function, task)
            self._process = context.Process(target=_call, args=arguments)
            self._process.start()

    def kill_if_late(self) -> None:
        """Kill the process if it has missed its deadline, which closes its connection."""
        if time.monotonic() > self._started_s + self._deadline_s:
            self.is_late = True
            self._process.kill()

    def finish(self) -> Finished[T]:
        try:
            return Finished(self.task, json.loads(self.connection.recv_bytes()))
        except (EOFError, OSError):
            self._process.join()
            died = f"the grading process died ({how_it_died(self._process.exitcode)})"
            late = f"not graded within {self._deadline_s:g} s"
            return Finished(self.task, None, late if self.is_late else died)
        finally:
            self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()


def _call(
    connection: Connection,
    turns: Sequence[Path],
    folder: str,
    function: Callable[[T], Any],
    task: T,
) -> None:
    global _turns
    _turns = turns
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C, and ends this process
    end_with_owner()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    connection.send_bytes(json.dumps(function(task)).encode())
