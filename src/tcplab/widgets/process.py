"""The owner's side of a worker process: start, request, messages, end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any


class Worker:
    """A `tcplab.widgets.worker` that waits for requests.

    It dies with this process, however that ends: its standard input ends then.

    Args:
        on_message: called with each message from it, in a thread of its own; at its end with
            {"ended": exit status}.
    """

    def __init__(self, on_message: Callable[[dict[str, Any]], None]) -> None:
        self._on_message = on_message
        # A file without a name goes away with the last process that has it open.
        self._capture: IO[bytes] = tempfile.TemporaryFile(prefix="tcplab-")  # noqa: SIM115
        fd = self._capture.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tcplab.widgets.worker", str(fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            pass_fds=[fd],
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the process, which leads a process group of its own."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still takes requests."""
        return self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message. One to a worker that has ended is lost; its end was reported."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def capture(self) -> bytes:
        """The recording of the last run, a pcapng file; empty if there is none."""
        size = os.fstat(self._capture.fileno()).st_size
        return os.pread(self._capture.fileno(), size, 0)

    def kill(self) -> None:
        """Ends it and all it has started, the laboratory with its owner. Returns when it is gone.

        May be called again.
        """
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Ends it, and waits for the thread that listens; not to be called from that thread."""
        self.kill()
        self._thread.join(timeout=10)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # one that is killed may leave half a message
                self._on_message(json.loads(line))
        status = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._capture):
            if stream is not None:
                with contextlib.suppress(OSError):  # a request that it did not live to read
                    stream.close()
        self._on_message({"ended": status})
