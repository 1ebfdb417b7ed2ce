"""Start a worker process, send it requests, pass on its messages, and end it."""

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
    """A `tcplab.widgets.worker` process that waits for requests.

    However this process ends, the worker ends too, because its standard input is then closed. A
    separate thread calls on_message with each message, and finally with {"ended": exit status}.
    """

    def __init__(self, on_message: Callable[[dict[str, Any]], None]) -> None:
        self._on_message = on_message
        # A file without a name disappears when the last process that has it open ends.
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
        """The number of the process, which is also that of its process group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """True if the worker still accepts requests."""
        return self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. It is lost if the worker has ended, which on_message reports."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def capture(self) -> bytes:
        """Return the last run's recording as a pcapng file, or b"" if there is none."""
        size = os.fstat(self._capture.fileno()).st_size
        return os.pread(self._capture.fileno(), size, 0)

    def kill(self) -> None:
        """End the worker with all its processes and its laboratory, and wait for its end.

        Calling it again does nothing.
        """
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the worker, and wait for the listening thread, which must not call this."""
        self.kill()
        self._thread.join(timeout=10)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # a killed worker may leave half a message
                self._on_message(json.loads(line))
        status = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._capture):
            if stream is not None:
                with contextlib.suppress(OSError):  # the worker may have died early
                    stream.close()
        self._on_message({"ended": status})
