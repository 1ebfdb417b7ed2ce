"""Run a function in a separate process, with limits on its time, memory and output.

A submission is read in such a process, so that a damaged one makes only this step fail. The pool
(tcplab.grading.pool) runs the grading of each submission in one.
"""

from __future__ import annotations

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
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NoReturn

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

    Args:
        limits: limits on the process, or None.
        start: how to start the process, "fork" or "forkserver".
        folder: folder for temporary files, or None for that of the owner.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        limits: StepLimits | None = None,
        start: str = "fork",
        folder: str | None = None,
    ) -> None:
        context: Any = multiprocessing.get_context(start)
        self.connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_call, args=(theirs, limits, folder, function, arguments)
        )
        with theirs, warnings.catch_warnings():
            # Python 3.12 warns about fork() in a process with several threads. A grading process
            # has at most one other thread, which waits for its owner to end.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()

    def result(self, most_bytes: int | None = None) -> Any:
        """Wait for the result and return it, or raise StepError."""
        try:
            answer = json.loads(self.connection.recv_bytes(most_bytes))
        except (EOFError, OSError):
            self._process.join(1.0)
            raise StepError(f"the grading process died ({self._how_it_died()})") from None
        if "error" in answer:
            raise StepError(answer["error"])
        return answer["result"]

    def _how_it_died(self) -> str:
        status = self._process.exitcode or 0
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def kill(self) -> None:
        """Kill the process, which closes its end of the connection."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


def apart(function: Callable[..., Any], *arguments: Any, limits: StepLimits | None = None) -> Any:
    """Run a function in a process that ends with ours; return its JSON data or raise StepError."""
    limits = limits or StepLimits()
    child = Child(function, *arguments, limits=limits)
    try:
        if not child.connection.poll(limits.wall_s):
            raise StepError(f"it took more than {limits.wall_s:g} s")
        return child.result(limits.result_bytes)
    finally:
        child.close()


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
