"""Grade on several machines, with a Dask scheduler that hands submissions to workers.

Each thread of a worker grades one submission at a time, in a separate process. All machines share
the course's folder, for example over NFS. A scheduler may give a submission to a second worker, and
a restarted scheduler forgets its tasks. The ledger nevertheless ensures that each submission is
graded only once.
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
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tcplab.errors import LabError, ParameterError
from tcplab.grading.neutral import one_line
from tcplab.grading.processes import Coming, Finished, look_for_interrupt, run_each

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

#: How long to wait for a scheduler that is being restarted, and for a worker if there is none.
PATIENCE_S: Final = 120.0
_CONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Needs:
    """The conditions that a machine must meet to be a worker."""

    course: Path  #: folder of the course
    gradebook_on: str  #: host with the gradebook's file, or empty if a server has the gradebook
    sandbox: bool

    def lacking(self) -> str | None:
        """Return why this machine cannot grade, or None if it can."""
        if multiprocessing.current_process().daemon:
            return "may start no processes: start it with --no-nanny"
        if not (self.course / "nbgrader_config.py").is_file():
            return f"has no {self.course}: the course's folder must be the same on all machines"
        if self.gradebook_on not in ("", socket.gethostname()):
            return (
                f"cannot write to a gradebook that is a file on {self.gradebook_on}: use PostgreSQL"
            )
        return _why_no_sandbox() if self.sandbox else None


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
    coming = Coming(tasks)
    with _Cluster[T](address, work) as cluster:
        while cluster.running or not coming.is_over:
            look_for_interrupt()
            for _ in range(cluster.room()):
                if (following := coming.take()) is None:
                    break
                cluster.submit(following)
            finished, lost = cluster.wait(1.0)
            coming.again.extend(lost)
            yield from finished


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


class _Cluster(Generic[T]):
    def __init__(self, address: str, work: Callable[[T], dict[str, Any]]) -> None:
        self._address = address
        self._work = work
        self._ended: Queue[Future] = Queue()
        self._without_workers_s: float | None = None
        self._last_refusal = ""
        self.running: dict[str, tuple[T, Future]] = {}
        self._client = self._connect()

    def __enter__(self) -> _Cluster[T]:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self._client.close(timeout=_CONNECT_S)

    def room(self) -> int:
        """Return how many more tasks the workers have threads for."""
        try:
            threads: int = sum(self._client.nthreads().values())
        except (OSError, RuntimeError):  # the connection is lost, which wait() handles
            return 0
        if threads:
            self._without_workers_s = None
        elif self._without_workers_s is None:
            self._without_workers_s = time.monotonic()
            _tell(f"no workers at {self._address} yet; waiting for them")
        elif time.monotonic() > self._without_workers_s + PATIENCE_S:
            why = self._last_refusal or f"dask worker {self._address} --no-nanny starts one"
            raise LabError(f"no worker at {self._address}: {why}")
        return threads - len(self.running)

    def submit(self, task: T) -> None:
        future = self._client.submit(self._work, task, pure=False)
        self.running[future.key] = (task, future)
        future.add_done_callback(self._ended.put)

    def wait(self, seconds: float) -> tuple[list[Finished[T]], list[T]]:
        """Wait up to `seconds` for a task to end; return finished tasks, and lost ones to retry."""
        finished: list[Finished[T]] = []
        lost: list[T] = []
        with suppress(Empty):
            future = self._ended.get(timeout=seconds)
            if (ended := self.running.pop(future.key, None)) is not None:
                self._take(ended[0], future, finished, lost)
        if self._client.status != "running":
            lost += [task for task, _ in self.running.values()]
            self.running.clear()
            self.__exit__()
            self._client = self._connect()
        return finished, lost

    def _take(self, task: T, future: Future, finished: list[Finished[T]], lost: list[T]) -> None:
        if future.status in ("cancelled", "lost"):
            lost.append(task)
        elif future.status == "error":
            failure = future.exception()
            finished.append(Finished(task, None, f"{type(failure).__name__}: {one_line(failure)}"))
        else:
            answer = future.result()
            if reason := answer.get("lacking"):
                self._last_refusal = f"the worker {answer['worker']} {one_line(reason)}"
                _tell(f"{self._last_refusal}; it gets no work")
                self._client.retire_workers([answer["worker"]])
                lost.append(task)
            else:
                finished.append(Finished(task, answer["result"], answer["error"]))

    def _connect(self) -> Client:
        """Return a client, after waiting for a scheduler that is being started."""
        try:
            from distributed import Client
        except ImportError:
            raise ParameterError(
                "--scheduler needs Dask's distributed: .venv/bin/pip install -e '.[cluster]'"
            ) from None
        # Silence Dask's loggers, because this module reports the state of the connection. This has
        # no effect before Dask has been imported.
        for logger in ("distributed", "distributed.client"):
            logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
        until_s = time.monotonic() + PATIENCE_S
        reported = False
        while True:
            try:
                return Client(self._address, timeout=_CONNECT_S, set_as_default=False)
            except ValueError as error:
                raise ParameterError(f"scheduler {self._address!r}: {one_line(error)}") from None
            except OSError as error:
                if time.monotonic() > until_s:
                    raise LabError(
                        f"no scheduler at {self._address} ({one_line(error, 100)}); start"
                        " one, and run the same command again to continue"
                    ) from None
            if not reported:
                reported = True
                _tell(f"no scheduler at {self._address}; waiting for it")
            time.sleep(1.0)
            look_for_interrupt()


def _tell(line: str) -> None:
    print(f"tcplab: {line}", file=sys.stderr, flush=True)
