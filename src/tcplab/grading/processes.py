"""Run functions in separate processes, with limits on their time, memory and output.

A submission is read in a separate process, so that a damaged one makes only this step fail
(:func:`apart`). The grading of a submission runs in another, a few at a time (:func:`run_each`). A
process that is killed, crashes or misses its deadline costs only its own task, because each has its
own pipe. (All workers of pebble share one pipe and its locks. After SIGKILL had killed a worker in
each of ten pools, only seven pools finished.) All processes end with their owner, even if it is
killed.
"""

import errno
import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

from tcplab.errors import StepError, TcplabError
from tcplab.grading.neutral import one_line

_MIB: Final = 1 << 20
#: Errors of a disk or of a machine. A file of a learner cannot cause them.
_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The limits on a step, which is a function that runs in its own process."""

    wall_s: float = 60.0  #: wall-clock time
    cpu_s: int = 20  #: time on the processor
    memory_bytes: int = 1024 * _MIB  #: address space in addition to that of the caller
    file_bytes: int = 256 * _MIB  #: maximum size of a file that the step writes
    result_bytes: int = 64 * _MIB  #: size of the result as JSON


class _OutOfTimeError(BaseException):
    """The processor time of the step is used up."""


class Child:
    """A process that calls a function, sends the result as JSON, and ends with its owner.

    If `scratch` is given, the temporary files of the process are in a new folder there.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        limits: StepLimits | None = None,
        start: str = "fork",
        scratch: Path | None = None,
    ) -> None:
        self._owned = ExitStack()
        folder = None
        if scratch is not None:
            made = tempfile.TemporaryDirectory(prefix="slot-", dir=scratch)
            folder = self._owned.enter_context(made)
        context: Any = multiprocessing.get_context(start)
        self.connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_call, args=(theirs, limits, folder, function, arguments)
        )
        with theirs, warnings.catch_warnings():
            # Python 3.12 warns about fork() in a process with several threads. A grading process
            # has at most one other thread, which waits for its owner to end.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()

    def result(self, most_bytes: int | None = None) -> Any:
        """Wait for the result and return it, or raise StepError."""
        try:
            answer = json.loads(self.connection.recv_bytes(most_bytes))
        except (EOFError, OSError):
            self.process.join(1.0)
            status = self.process.exitcode or 0
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            raise StepError(f"the grading process died ({how})") from None
        if "error" in answer:
            raise StepError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """Kill the process, wait for its end, and remove its folder."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()
        self._owned.close()


def apart(function: Callable[..., Any], *arguments: Any, limits: StepLimits | None = None) -> Any:
    """Run a function in a process that ends with ours; return its JSON data or raise StepError."""
    limits = limits or StepLimits()
    with closing(Child(function, *arguments, limits=limits)) as child:
        if not child.connection.poll(limits.wall_s):
            raise StepError(f"it took more than {limits.wall_s:g} s")
        return child.result(limits.result_bytes)


def is_of_machine(failure: BaseException) -> bool:
    """Return whether an exception is a fault of the machine, such as a full disk."""
    return isinstance(failure, OSError) and failure.errno in _MACHINE


def _await_owner() -> None:
    owner = multiprocessing.parent_process()
    assert owner is not None
    owner.join()
    os._exit(1)


def _call(
    connection: Connection,
    limits: StepLimits | None,
    folder: str | None,
    function: Callable[..., Any],
    arguments: Any,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C, and ends this process
    threading.Thread(target=_await_owner, daemon=True).start()
    gc.freeze()  # a collection would touch, and so copy, the memory that is shared with the owner
    if folder is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
    if limits is not None:
        gc.disable()  # the collector would scan millions of small objects repeatedly
        _limit(limits)
    answer: dict[str, Any]
    try:
        answer = {"result": function(*arguments)}
    except MemoryError:
        most = f"{limits.memory_bytes // _MIB} MiB of memory" if limits else "the machine's memory"
        answer = {"error": f"it took more than {most}"}
    except _OutOfTimeError as failure:
        answer = {"error": str(failure)}
    except (Exception, SystemExit) as failure:
        if not isinstance(failure, TcplabError):
            print_traceback()
        answer = {"error": reason(failure)}
    data = json.dumps(answer).encode()
    if limits is not None and len(data) > limits.result_bytes:
        data = json.dumps({"error": f"it has {len(data)} bytes to say"}).encode()
    connection.send_bytes(data)


def _limit(limits: StepLimits) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + limits.memory_bytes

    def out_of_time(*_: object) -> NoReturn:
        raise _OutOfTimeError(f"it took more than {limits.cpu_s} s of processor time")

    signal.signal(signal.SIGXCPU, out_of_time)
    for resource_id, soft, hard in (
        (resource.RLIMIT_AS, memory, memory),
        # Python handles the signal unless a C library keeps running. In that case the hard limit
        # kills the process.
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 2),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        maximum = resource.getrlimit(resource_id)[1]
        if maximum != resource.RLIM_INFINITY:
            soft, hard = min(soft, maximum), min(hard, maximum)
        resource.setrlimit(resource_id, (soft, hard))


def print_traceback() -> None:
    """Print the traceback of the current exception, with control characters escaped."""
    for line in traceback.format_exc().splitlines():
        print(one_line(line, 1000), file=sys.stderr)


def reason(failure: BaseException) -> str:
    """Return an exception on one line, with its type unless it is an error of tcplab."""
    line = one_line(failure)
    return line if isinstance(failure, TcplabError) else f"{type(failure).__name__}: {line}"


# ---- one process per task ------------------------------------------------------------------------


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

    The tasks are taken whenever one of the `jobs` processes can start. They contain None while no
    task is ready. A task whose process fails is tried again, but not after `deadline_s`, when its
    process is killed. Temporary files are made in `scratch`, and removed after each task. If this
    process has threads, `start` must be "forkserver", and the tasks picklable. Closing the iterator
    kills running processes.
    """
    coming = Coming(None if task is None else (task, ATTEMPTS) for task in tasks)
    running: dict[Any, _Slot[T]] = {}
    try:
        while running or not coming.is_over:
            look_for_interrupt()
            while len(running) < jobs and (following := coming.take()) is not None:
                child = Child(function, following[0], start=start, scratch=scratch)
                end_s = time.monotonic() + deadline_s
                running[child.connection] = _Slot(*following, child, end_s)
            for slot in running.values():
                if time.monotonic() > slot.end_s:
                    slot.child.process.kill()
            for connection in wait(list(running), timeout=1.0):
                slot = running.pop(connection)
                finished = slot.finish()
                is_late = time.monotonic() > slot.end_s
                if finished.error and is_late:
                    yield Finished(slot.task, None, f"not graded within {deadline_s:g} s")
                elif finished.error and slot.attempts > 1:
                    coming.again.append((slot.task, slot.attempts - 1))
                else:
                    yield finished
    finally:
        for slot in running.values():
            slot.child.close()


@dataclass(frozen=True, slots=True)
class _Slot(Generic[T]):
    """A place in the pool with the process that runs a task."""

    task: T
    attempts: int
    child: Child
    end_s: float  #: when the process is killed, by time.monotonic()

    def finish(self) -> Finished[T]:
        with closing(self.child):
            try:
                return Finished(self.task, self.child.result())
            except StepError as error:
                return Finished(self.task, None, str(error))
