"""Grade on several machines, with a Dask scheduler that hands submissions to workers.

Each thread of a worker grades one submission at a time, in a separate process. All machines share
the course's folder, for example over NFS. A scheduler may give a submission to a second worker, and
the ledger ensures that it is graded only once. The command ends with the scheduler.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tcplab.errors import LabError, ParameterError
from tcplab.grading.neutral import one_line
from tcplab.grading.processes import Coming, Finished, look_for_interrupt, run_each
from tcplab.machine import require_modules

if TYPE_CHECKING:
    from distributed import Future

T = TypeVar("T")

#: How long to wait for a worker if there is none.
PATIENCE_S: Final = 120.0
_CONNECT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Needs:
    """The conditions that a machine must meet to be a worker."""

    course: Path  #: folder of the course
    gradebook_on: str  #: host with the gradebook's file, or empty if a server has the gradebook

    def lacking(self) -> str | None:
        """Return why this machine cannot grade, or None if it can."""
        if multiprocessing.current_process().daemon:
            return "may start no processes: start it with --no-nanny"
        if not (self.course / "nbgrader_config.py").is_file():
            return f"has no {self.course}: the course's folder must be the same on all machines"
        if self.gradebook_on not in ("", socket.gethostname()):
            return f"cannot write to a gradebook file on {self.gradebook_on}: use PostgreSQL"
        return _why_no_sandbox()


@functools.cache
def _why_no_sandbox() -> str | None:
    from tcplab.grading.sandbox import why_no_sandbox

    return why_no_sandbox()


def run_each_at(
    address: str,
    function: Callable[[T], Any],
    tasks: Iterable[T | None],
    *,
    needs: Needs,
    deadline_s: float,
) -> Generator[Finished[T]]:
    """Call the function with each task on the workers; see tcplab.grading.processes.run_each.

    A worker that does not meet `needs` is retired, and its task is given to another worker. When
    the iterator is closed, running tasks continue and no further tasks start.
    """
    work = functools.partial(_work, function, needs, deadline_s)
    coming, ended = Coming(tasks), Queue[Any]()
    running: dict[str, tuple[T, Future]] = {}
    workers = _Workers(address)
    try:
        while running or not coming.is_over:
            look_for_interrupt()
            threads = workers.threads()
            while len(running) < threads and (task := coming.take()) is not None:
                future = workers.client.submit(work, task, pure=False)
                running[future.key] = (task, future)
                future.add_done_callback(ended.put)
            with suppress(Empty):
                future = ended.get(timeout=1.0)
                task, _ = running.pop(future.key)
                if (finished := workers.result(task, future)) is None:
                    coming.again.append(task)
                else:
                    yield finished
    finally:
        with suppress(Exception):
            workers.client.close(timeout=_CONNECT_S)


def _work(function: Callable[[T], Any], needs: Needs, deadline_s: float, task: T) -> dict[str, Any]:
    from distributed import get_worker

    worker = get_worker()
    if reason := needs.lacking():
        return {"lacking": reason, "worker": worker.address}
    # Dask removes this folder, even if the worker is killed. It gets the server's socket, too.
    tempfile.tempdir = _short(worker.local_directory)
    scratch = Path(worker.local_directory)
    # A worker has threads, so a server without any forks the process.
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tcplab.grading.steps"])
    (done,) = run_each(
        function, [task], jobs=1, scratch=scratch, deadline_s=deadline_s, start="forkserver"
    )
    return {"result": done.result, "error": done.error}


@functools.cache
def _short(folder: str) -> str:
    """Return a short path of a folder, since the path of a socket has at most 107 bytes."""
    return f"/proc/{os.getpid()}/fd/{os.open(folder, os.O_PATH | os.O_CLOEXEC)}"


class _Workers:
    """The workers of a scheduler."""

    def __init__(self, address: str) -> None:
        require_modules("distributed")
        from distributed import Client

        # Silence Dask's loggers, because this module reports the state of the connection. This has
        # no effect before Dask has been imported.
        for logger in ("distributed", "distributed.client"):
            logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
        self._address = address
        self._seen_s: float | None = None  # time at which there was a worker
        self._last_refusal = f"dask worker {address} --no-nanny starts one"
        try:
            self.client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except ValueError as error:
            raise ParameterError(f"scheduler {address!r}: {one_line(error)}") from None
        except OSError as error:
            raise self._lost(error) from None

    def threads(self) -> int:
        """Return the number of threads of all workers. Raise LabError if there is none for long."""
        if self.client.status != "running":
            raise self._lost("the connection is closed")
        try:
            threads: int = sum(self.client.nthreads().values())
        except (OSError, RuntimeError) as error:
            raise self._lost(error) from None
        if self._seen_s is None or threads:
            self._seen_s = time.monotonic()
        elif time.monotonic() > self._seen_s + PATIENCE_S:
            raise LabError(f"no worker at {self._address}: {self._last_refusal}")
        return threads

    def result(self, task: T, future: Future) -> Finished[T] | None:
        """Return the result of a task, or None if another worker must take the task."""
        if future.status in ("cancelled", "lost"):
            return None
        if future.status == "error":
            failure = future.exception()
            return Finished(task, None, f"{type(failure).__name__}: {one_line(failure)}")
        answer = future.result()
        if reason := answer.get("lacking"):
            self._last_refusal = f"the worker {answer['worker']} {one_line(reason)}"
            print(f"tcplab: {self._last_refusal}; it gets no work", file=sys.stderr, flush=True)
            self.client.retire_workers([answer["worker"]])
            return None
        return Finished(task, answer["result"], answer["error"])

    def _lost(self, why: object) -> LabError:
        return LabError(
            f"no scheduler at {self._address} ({one_line(why, 100)}); start one, and run the same"
            " command again to continue"
        )
