"""A small pool of processes that runs each task in a new process, a few at a time.

A process that is killed, crashes or misses its deadline costs only its own task. The processes are
forked from a server that has loaded the heavy modules once (multiprocessing's "forkserver"), so
that a new one starts in a few milliseconds. No process outlives the pool's owner, even if the owner
is killed.

A part of a task that is sensitive to load waits for a turn, and there are as many turns as jobs.
Such a part often waits, for example for a wire with a long round-trip time. So a few more processes
prepare or finish their tasks meanwhile. With as many turns as processes no turn is requested, so a
stalled owner cannot block a task that holds a lock.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from tcplab.grading.apart import end_with_owner, how_it_died

T = TypeVar("T")

#: Another process may have caused the death, for example by using all memory, so try a task twice.
ATTEMPTS: Final = 2

# A process sends these over its connection before its result; the owner answers the first with _GO.
_WANTS_TURN: Final = b"wants a turn"
_ENDS_TURN: Final = b"ends its turn"
_GO: Final = b"go"
#: Variable with the owner's pid and the folder of the server's socket. An orphaned server removes
#: it.
SOCKET_FOLDER: Final = "TCPLAB_GRADING_SOCKET"
#: The connection to the owner, in a process of a pool that gives turns.
_owner: Connection | None = None
_is_interrupted = False


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """A task that has ended."""

    task: T  #: the task as passed in
    result: Any  #: the function's result; None if there is an error
    error: str | None = None  #: why there is no result


def load_ahead(preload: Sequence[str]) -> None:
    """Start to load the modules that every process will have imported; return immediately."""
    # numpy's threads would be lost in a fork, and judges compute little.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
    # Only the owner handles Ctrl-C. The server itself would ignore it only after loading
    # everything.
    with on_interrupt(signal.SIG_IGN):
        os.environ[SOCKET_FOLDER] = f"{os.getpid()} {util.get_temp_dir()}"
        forkserver.ensure_running()
        del os.environ[SOCKET_FOLDER]


@contextmanager
def on_interrupt(answer: Any) -> Iterator[None]:
    """Set the handler of Ctrl-C temporarily, if in the main thread; no other thread may do it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def note_interrupt(number: int, _frame: object) -> None:
    """Handle a signal by noting it for look_for_interrupt(); a second signal kills.

    An exception could be raised where it is lost, such as in a weak reference's callback.
    """
    global _is_interrupted
    _is_interrupted = True
    signal.signal(number, signal.SIG_DFL)


def look_for_interrupt() -> None:
    """Raise KeyboardInterrupt if a Ctrl-C was noted."""
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
    """Call the function with each task; yield the results as the tasks end.

    When the iterator is closed, processes that still run are killed.

    Args:
        function: a module's function that returns data for JSON.
        tasks: picklable tasks, taken one by one when there is room. None means that there is no
            task at the moment; the next one is taken within a second.
        jobs: number of turns at a time; see :func:`turn`.
        scratch: folder for the processes' temporary files, which are removed after each task.
        deadline_s: time limit for one task, without its wait for a turn; the task is then killed.
        ahead: number of further processes at a time.
    """
    context = multiprocessing.get_context("forkserver")
    coming = Coming(None if task is None else (task, ATTEMPTS) for task in tasks)
    running: dict[Any, _Slot[T]] = {}
    try:
        while running or not coming.is_over:
            look_for_interrupt()
            while len(running) < jobs + ahead and (following := coming.take()) is not None:
                slot = _Slot(context, function, *following, scratch, deadline_s, ahead > 0)
                running[slot.connection] = slot
            for slot in running.values():
                slot.kill_if_late()
            for connection in wait(list(running), timeout=1.0):
                slot = running[connection]
                if (finished := slot.hear()) is None:
                    continue
                del running[connection]
                if finished.error and slot.attempts > 1 and not slot.is_late:
                    coming.again.append((slot.task, slot.attempts - 1))
                else:
                    yield finished
            _give_turns(running.values(), jobs)
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
        """Whether no more tasks will come."""
        return self._ended and not self.again

    def take(self) -> T | None:
        """Return the next task, or None if there is none at the moment."""
        if self.again:
            return self.again.popleft()
        try:
            return next(self._tasks)
        except StopIteration:
            self._ended = True
            return None


@contextmanager
def turn() -> Iterator[float]:
    """Wait for this process's turn; return immediately if the pool gives no turns.

    Yields:
        The time spent waiting, in seconds.
    """
    if _owner is None:
        yield 0.0
        return
    asked_s = time.monotonic()
    _owner.send_bytes(_WANTS_TURN)
    _owner.recv_bytes()
    try:
        yield time.monotonic() - asked_s
    finally:
        _owner.send_bytes(_ENDS_TURN)


def _give_turns(slots: Iterable[_Slot[Any]], jobs: int) -> None:
    """Give free turns to the slots that have waited longest."""
    slots = list(slots)
    waiting = sorted(
        (slot for slot in slots if slot.asked_s is not None), key=lambda slot: slot.asked_s or 0.0
    )
    for slot in waiting[: jobs - sum(slot.has_turn for slot in slots)]:
        slot.give_turn()


class _Slot(Generic[T]):
    """A place in the pool while a task runs in it."""

    def __init__(
        self,
        context: Any,
        function: Callable[[T], Any],
        task: T,
        attempts: int,
        scratch: Path,
        deadline_s: float,
        asks: bool,
    ) -> None:
        self.task = task
        self.attempts = attempts
        self.is_late = False
        self.has_turn = False
        self.asked_s: float | None = None  #: time since which it waits for its turn
        self._deadline_s = deadline_s
        self._started_s = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="slot-", dir=scratch)
        self.connection, theirs = context.Pipe()
        with theirs:
            arguments = (theirs, asks, self._folder.name, function, task)
            self._process = context.Process(target=_call, args=arguments)
            self._process.start()

    def kill_if_late(self) -> None:
        """Kill a process that has missed its deadline, which ends its connection."""
        if self.asked_s is None and time.monotonic() > self._started_s + self._deadline_s:
            self.is_late = True
            self._process.kill()

    def give_turn(self) -> None:
        """Give a waiting process its turn."""
        assert self.asked_s is not None
        self._started_s += time.monotonic() - self.asked_s
        self.asked_s, self.has_turn = None, True
        with suppress(OSError):  # the process has ended, which hear() notices
            self.connection.send_bytes(_GO)

    def hear(self) -> Finished[T] | None:
        """Return the result of a process that sent one or died, or None while it continues."""
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError):
            self._process.join()
            died = f"the grading process died ({how_it_died(self._process.exitcode)})"
            late = f"not graded within {self._deadline_s:g} s"
            self.close()
            return Finished(self.task, None, late if self.is_late else died)
        if message == _WANTS_TURN:
            self.asked_s = time.monotonic()
            return None
        if message == _ENDS_TURN:
            self.has_turn = False
            return None
        self.close()
        return Finished(self.task, json.loads(message))

    def close(self) -> None:
        """End the process if it still runs, and remove its temporary files."""
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()


def _call(
    connection: Connection, asks: bool, folder: str, function: Callable[[T], Any], task: T
) -> None:
    """Call the function in the new process and send the result."""
    global _owner
    _owner = connection if asks else None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C and ends us
    end_with_owner()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    connection.send_bytes(json.dumps(function(task)).encode())
