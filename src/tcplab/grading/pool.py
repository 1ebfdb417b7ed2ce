"""Workers as the batch sees them: started in no time, told by lines, ended for certain.

The first thing a batch does is to start the process that forks them (tcplab.grading.worker): it
loads nbgrader while the batch does, and no worker loads it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Self

from tcplab.errors import LabError

__all__ = ["Crew", "Worker"]


class Worker:
    """A process that grades: see tcplab.grading.worker.

    Attributes:
        stdin: takes a line a submission.
        stdout: gives one each.
    """

    def __init__(self, handle: int, stdin: IO[str], stdout: IO[str]) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self.stdin = stdin
        self.stdout = stdout

    def kill(self) -> None:
        """Ends it at once, from whatever thread."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """Closes its input, which ends it, and waits for that. May be called again."""
        with self._closing:
            if self._handle < 0:
                return
            for stream in (self.stdin, self.stdout):
                with contextlib.suppress(OSError):  # what it did not read before it died
                    stream.close()
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            waiting.poll()
            with self._lock:
                os.close(self._handle)
                self._handle = -1


class Crew:
    """Starts workers, and ends all that it started. Use it in a with statement.

    Args:
        arguments: of tcplab.grading.worker, for the course and the assignment.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        self._running: set[Worker] = set()
        self._lock = threading.Lock()
        self.ended = False

    def __enter__(self) -> Self:
        # PR_SET_PDEATHSIG is of the *thread* that starts a process, so the main thread starts it.
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tcplab.grading.worker",
                    *self._arguments,
                    f"--parent={os.getpid()}",
                    f"--orders={theirs.fileno()}",
                ],
                # Threads of numpy's would be lost in a fork, and judges compute little.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for us; we tell the workers
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for worker in list(self._running):
            self.dismiss(worker)
        self._orders.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def start(self, log: Path, scratch: Path) -> Worker:
        """A new worker.

        Args:
            log: gets what it complains of.
            scratch: a folder for its temporary files.

        Raises:
            LabError: the batch has ended, or no worker can be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            there, stdin = os.pipe()
            stack.callback(os.close, there)
            stdout, back = os.pipe()
            stack.callback(os.close, back)
            streams = os.fdopen(stdin, "w"), os.fdopen(stdout)
            words = json.dumps({"tmpdir": str(scratch)}).encode()
            handles: list[int] = []
            with log.open("a") as complaints, contextlib.suppress(OSError):
                socket.send_fds(self._orders, [words], [there, back, complaints.fileno()])
                _, handles, _, _ = socket.recv_fds(self._orders, 1 << 10, 1)
        if not handles:
            for stream in streams:
                stream.close()
            raise LabError(f"no process to grade in could be started: {self._complaint()}")
        worker = Worker(handles[0], *streams)
        with self._lock:
            self._running.add(worker)
            ended = self.ended
        if ended:
            self.dismiss(worker, kill=True)
            raise LabError("the batch has ended")
        return worker

    def _complaint(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with status {self._process.returncode}"

    def dismiss(self, worker: Worker, *, kill: bool = False) -> None:
        """Lets a worker end, and waits for it."""
        if kill:
            worker.kill()
        worker.close()
        with self._lock:
            self._running.discard(worker)

    def end(self) -> None:
        """Kills all that run, and starts no more."""
        with self._lock:
            self.ended = True
            running = list(self._running)
        for worker in running:
            worker.kill()
