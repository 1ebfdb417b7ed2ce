"""A step in a process of its own, with limits on time, memory and size.

What strangers handed in is read nowhere else: whatever it does to the process that reads it costs
this step only, and its caller learns why in one line.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
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


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Limits of a step."""

    wall_s: float = 60.0  #: time by the clock
    cpu_s: int = 20  #: processor time
    memory_bytes: int = 1024 * _MIB  #: address space, beside what its caller has
    file_bytes: int = 256 * _MIB  #: the largest file that it writes
    result_bytes: int = 64 * _MIB  #: its result, as JSON


class _OutOfTimeError(BaseException):
    """The processor time is used up."""


def apart(function: Callable[..., Any], *arguments: Any, limits: StepLimits | None = None) -> Any:
    """Calls a function in a process of its own, which does not outlive the caller.

    Args:
        function: what it returns must be JSON.
        arguments: for it.
        limits: what it may use.

    Raises:
        StepError: there is no result; the message says why, in one line.
    """
    limits = limits or StepLimits()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_step, args=(theirs, function, arguments, limits))
    with warnings.catch_warnings():
        # Of Python 3.12 on, where there are threads: ours only waits for the end of the owner.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    try:
        if not ours.poll(limits.wall_s):
            raise StepError(f"it took more than {limits.wall_s:g} s")
        answer = json.loads(ours.recv_bytes(limits.result_bytes))
    except (EOFError, OSError):
        process.join(1.0)
        raise StepError(f"its process died ({how_it_died(process.exitcode)})") from None
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()
    if "error" in answer:
        raise StepError(answer["error"])
    return answer["result"]


def how_it_died(exit_code: int | None) -> str:
    """Names the signal or the exit status of a process of multiprocessing's."""
    status = exit_code or 0
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def end_with_owner() -> None:
    """Lets a process of multiprocessing's end when its owner does, even by SIGKILL."""
    threading.Thread(target=_await_owner, daemon=True).start()


def _await_owner() -> None:
    owner = multiprocessing.parent_process()
    assert owner is not None
    owner.join()
    os._exit(1)


def _step(
    connection: Connection, function: Callable[..., Any], arguments: Any, limits: StepLimits
) -> None:
    """In the new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who ends us
    end_with_owner()
    gc.disable()  # Millions of small objects would be looked through again and again.
    _limit(limits)
    answer: dict[str, Any]
    try:
        answer = {"result": function(*arguments)}
    except MemoryError:
        answer = {"error": f"it took more than {limits.memory_bytes // _MIB} MiB of memory"}
    except _OutOfTimeError:
        answer = {"error": f"it took more than {limits.cpu_s} s of processor time"}
    except (Exception, SystemExit) as failure:
        if not isinstance(failure, TcplabError):
            print_traceback()
        answer = {"error": reason(failure)}
    data = json.dumps(answer).encode()
    if len(data) > limits.result_bytes:
        data = json.dumps({"error": f"it has {len(data)} bytes to say"}).encode()
    connection.send_bytes(data)


def _limit(limits: StepLimits) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + limits.memory_bytes
    signal.signal(signal.SIGXCPU, _raise_out_of_time)
    for what, soft, hard in (
        (resource.RLIMIT_AS, memory, memory),
        # Python sees the signal unless it is in the depths of a library: then it is killed.
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 2),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        most = resource.getrlimit(what)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(what, (soft, hard))


def _raise_out_of_time(*_: object) -> NoReturn:
    raise _OutOfTimeError


def print_traceback() -> None:
    """Prints the exception that is being handled, neutral for a terminal."""
    for line in traceback.format_exc().splitlines():
        print(one_line(line, 1000), file=sys.stderr)


def reason(failure: BaseException) -> str:
    """An exception in one line; one of ours needs no name before it."""
    words = one_line(failure)
    return words if isinstance(failure, TcplabError) else f"{type(failure).__name__}: {words}"
