"""A small pool of processes: one new process for each task, a few of them at a time.

A process that is killed, crashes or passes the deadline costs its own task and no other. The
processes are forked from a server that has loaded the heavy modules once (multiprocessing's
"forkserver"), so that a new one starts in a few milliseconds. None outlives the pool's owner, even
when that is killed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from tcplab.grading.apart import end_with_owner, how_it_died

T = TypeVar("T")

#: A process may have died of somebody else's greed, for memory say: its task is tried once more.
ATTEMPTS: Final = 2


class End:
    """In the place of a task, when there are no more."""


END: Final = End()


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
    forkserver.ensure_running()


def run_each(
    function: Callable[[T], Any],
    tasks: Iterable[T | None],
    *,
    jobs: int,
    scratch: Path,
    deadline_s: float,
) -> Generator[Finished[T], None, None]:
    """Calls the function with each task, and yields the results in the order of their ends.

    When the iterator is closed, the processes that still run are killed.

    Args:
        function: of a module; what it returns must be JSON.
        tasks: can be pickled; asked for one by one, when there is room. None says that there is no
            task at the moment, and the next is asked for within a second.
        jobs: how many run at a time.
        scratch: a folder for the temporary files of the processes, removed after each.
        deadline_s: for one task; it is killed then.
    """
    context = multiprocessing.get_context("forkserver")
    coming, ended = iter(tasks), False
    again: deque[tuple[T, int]] = deque()
    running: dict[Any, _Slot[T]] = {}
    try:
        while again or running or not ended:
            while len(running) < jobs and (again or not ended):
                if again:
                    task, attempts = again.popleft()
                elif (following := next(coming, END)) is None:
                    break
                elif isinstance(following, End):
                    ended = True
                    break
                else:
                    task, attempts = following, ATTEMPTS
                slot = _Slot(context, function, task, attempts, scratch, deadline_s)
                running[slot.connection] = slot
            for slot in running.values():
                slot.kill_if_late()
            for connection in wait(list(running), timeout=1.0):
                slot = running.pop(connection)
                finished = slot.finish()
                if finished.error and slot.attempts > 1 and not slot.is_late:
                    again.append((slot.task, slot.attempts - 1))
                else:
                    yield finished
    finally:
        for slot in running.values():
            slot.close()


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
    ) -> None:
        self.task = task
        self.attempts = attempts
        self.is_late = False
        self._deadline_s = deadline_s
        self._started_s = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="slot-", dir=scratch)
        self.connection, theirs = context.Pipe(duplex=False)
        with theirs:
            arguments = (theirs, self._folder.name, function, task)
            self._process = context.Process(target=_call, args=arguments)
            self._process.start()

    def kill_if_late(self) -> None:
        """Kills a process whose time is up: its connection then ends."""
        if time.monotonic() > self._started_s + self._deadline_s:
            self.is_late = True
            self._process.kill()

    def finish(self) -> Finished[T]:
        """Takes the result of a process that sent it, or has ended."""
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
        """Ends the process, if it still runs, and removes its temporary files."""
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()


def _call(connection: Connection, folder: str, function: Callable[[T], Any], task: T) -> None:
    """In the new process: calls the function and sends the result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who ends us
    end_with_owner()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    connection.send_bytes(json.dumps(function(task)).encode())
