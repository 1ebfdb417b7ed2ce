"""Run each task in a new process, a few at a time.

A process that is killed, crashes or misses its deadline costs only its own task, because each
process has its own pipe. (All workers of pebble share one pipe and its locks. After SIGKILL had
killed a worker in each of ten pools, only seven pools finished.) The processes end with the pool's
owner, even if it is killed.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from tcplab.errors import StepError
from tcplab.grading.apart import Child

T = TypeVar("T")

#: Maximum number of attempts at a task. Its process may die although the task is not to blame, for
#: example if another process uses all memory.
ATTEMPTS: Final = 2

_is_interrupted = False


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """A task that has ended."""

    task: T  #: the task that was passed in
    result: Any  #: the result of the function, or None if there is an error
    error: str | None = None  #: why there is no result, or None


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


def run_each(
    function: Callable[[T], Any],
    tasks: Iterable[T | None],
    *,
    jobs: int,
    scratch: Path,
    deadline_s: float,
    start: str = "fork",
) -> Generator[Finished[T], None, None]:
    """Call the function with each task in a new process, and yield results as tasks end.

    A task whose process fails is tried again. Closing the iterator kills running processes.

    Args:
        function: a module-level function that returns JSON-serializable data.
        tasks: picklable tasks, taken whenever a process can start. The iterator yields None while
            no task is ready.
        jobs: number of processes that may run at the same time.
        scratch: folder for the temporary files of the processes, removed after each task.
        deadline_s: time after which a process is killed, and its task is not tried again.
        start: how to start a process, "fork" or "forkserver" (needed if this one has threads).
    """
    coming = Coming(None if task is None else (task, ATTEMPTS) for task in tasks)
    running: dict[Any, _Slot[T]] = {}
    try:
        while running or not coming.is_over:
            look_for_interrupt()
            while len(running) < jobs and (following := coming.take()) is not None:
                slot = _Slot(function, *following, scratch, deadline_s, start)
                running[slot.child.connection] = slot
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


class _Slot(Generic[T]):
    """A place in the pool with the process that runs a task."""

    def __init__(
        self,
        function: Callable[[T], Any],
        task: T,
        attempts: int,
        scratch: Path,
        deadline_s: float,
        start: str,
    ) -> None:
        self.task = task
        self.attempts = attempts
        self.is_late = False
        self._deadline_s = deadline_s
        self._started_s = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="slot-", dir=scratch)
        self.child = Child(function, task, start=start, folder=self._folder.name)

    def kill_if_late(self) -> None:
        if time.monotonic() > self._started_s + self._deadline_s:
            self.is_late = True
            self.child.kill()

    def finish(self) -> Finished[T]:
        try:
            return Finished(self.task, self.child.result())
        except StepError as error:
            late = f"not graded within {self._deadline_s:g} s"
            return Finished(self.task, None, late if self.is_late else str(error))
        finally:
            self.close()

    def close(self) -> None:
        self.child.close()
        self._folder.cleanup()
