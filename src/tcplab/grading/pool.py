"""A small pool of processes: one new process for each task, a few of them at a time.

A process that is killed, crashes or passes the deadline costs its own task and no other. The
processes are forked from a server that has loaded the heavy modules once (multiprocessing's
"forkserver"), so that a new one starts in a few milliseconds. None outlives the pool's owner, even
when that is killed.

The part of a task that must not be disturbed by too many others takes its turn: as many turns are
given at a time as there are jobs. Since such a part waits much, for a wire with a long round trip
say, a few more processes prepare their tasks, or finish them, meanwhile. Where there are no more
processes than turns, nobody asks: a task goes on when its owner stalls, and keeps no lock for it.
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

#: A process may have died of somebody else's greed, for memory say: its task is tried once more.
ATTEMPTS: Final = 2

# A process sends these over its connection, before its result; the answer to the first is _GO.
_WANTS_TURN: Final = b"wants a turn"
_ENDS_TURN: Final = b"ends its turn"
_GO: Final = b"go"
#: Tells the server its owner's pid and the folder of its socket, which it removes when orphaned.
SOCKET_FOLDER: Final = "TCPLAB_GRADING_SOCKET"
#: In a process of a pool that gives turns: the connection to its owner.
_owner: Connection | None = None
_is_interrupted = False


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """A task that came to an end."""

    task: T  #: as it was given
    result: Any  #: what the function returned; None when there is an error
    error: str | None = None  #: why there is no result


def load_ahead(preload: Sequence[str]) -> None:
    """Start loading the modules that every process will have imported, and return at once."""
    # numpy's threads would be lost in a fork, and judges compute little.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
    # The server would ignore Ctrl-C, which is for the owner alone, only when it has loaded all.
    with on_interrupt(signal.SIG_IGN):
        os.environ[SOCKET_FOLDER] = f"{os.getpid()} {util.get_temp_dir()}"
        forkserver.ensure_running()
        del os.environ[SOCKET_FOLDER]


@contextmanager
def on_interrupt(answer: Any) -> Iterator[None]:
    """Gives Ctrl-C this handler for a while; of the main thread, which alone may do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def note_interrupt(number: int, _frame: object) -> None:
    """A handler of signals that ends what next looks for an interrupt; a second signal kills.

    An exception could come up where it is lost, such as in a weak reference.
    """
    global _is_interrupted
    _is_interrupted = True
    signal.signal(number, signal.SIG_DFL)


def look_for_interrupt() -> None:
    """Raises the KeyboardInterrupt of a Ctrl-C that was noted."""
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
    """Calls the function with each task, and yields the results in the order of their ends.

    When the iterator is closed, the processes that still run are killed.

    Args:
        function: of a module; what it returns must be JSON.
        tasks: can be pickled; asked for one by one, when there is room. None says that there is no
            task at the moment, and the next is asked for within a second.
        jobs: how many have a turn at a time; see :func:`turn`.
        scratch: a folder for the temporary files of the processes, removed after each.
        deadline_s: for one task, without the time that it waits for its turn; it is killed then.
        ahead: how many more have a process at a time.
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
    """The tasks that nobody works on; first those to be tried again."""

    def __init__(self, tasks: Iterable[T | None]) -> None:
        self.again: deque[T] = deque()
        self._tasks = iter(tasks)
        self._ended = False

    @property
    def is_over(self) -> bool:
        """Whether there are no more, now and later."""
        return self._ended and not self.again

    def take(self) -> T | None:
        """Takes the next; None when there is none at the moment."""
        if self.again:
            return self.again.popleft()
        try:
            return next(self._tasks)
        except StopIteration:
            self._ended = True
            return None


@contextmanager
def turn() -> Iterator[float]:
    """Waits until this process of a pool has its turn; where none are given it has it at once.

    Yields:
        The time that it waited, in seconds.
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
    """Gives the turns that are free to those that have waited longest."""
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
        self.asked_s: float | None = None  #: since when it waits for its turn
        self._deadline_s = deadline_s
        self._started_s = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="slot-", dir=scratch)
        self.connection, theirs = context.Pipe()
        with theirs:
            arguments = (theirs, asks, self._folder.name, function, task)
            self._process = context.Process(target=_call, args=arguments)
            self._process.start()

    def kill_if_late(self) -> None:
        """Kills a process whose time is up: its connection then ends."""
        if self.asked_s is None and time.monotonic() > self._started_s + self._deadline_s:
            self.is_late = True
            self._process.kill()

    def give_turn(self) -> None:
        """Tells a process that waits that it has its turn."""
        assert self.asked_s is not None
        self._started_s += time.monotonic() - self.asked_s
        self.asked_s, self.has_turn = None, True
        with suppress(OSError):  # it has ended: hear() notices
            self.connection.send_bytes(_GO)

    def hear(self) -> Finished[T] | None:
        """Takes the result of a process that sent it, or has ended; None while it goes on."""
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
        """Ends the process, if it still runs, and removes its temporary files."""
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()


def _call(
    connection: Connection, asks: bool, folder: str, function: Callable[[T], Any], task: T
) -> None:
    """In the new process: calls the function and sends the result."""
    global _owner
    _owner = connection if asks else None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who ends us
    end_with_owner()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    connection.send_bytes(json.dumps(function(task)).encode())
