"""Keep a panel's settings and results, and run each measurement in a separate process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, Protocol, Self

from tcplab.checks import number as check_number
from tcplab.widgets.controls import checked
from tcplab.widgets.spec import PanelSpec

#: The number of runs whose results a panel keeps for comparison.
KEPT_RUNS: Final = 3

Phase = Literal["ready", "running", "stopping", "done", "stopped", "failed"]


class RunView(Protocol):
    """A view that shows the settings and the runs."""

    def refresh(self) -> None:
        """Show what has changed."""

    def add(self, sample: Mapping[str, float]) -> None:
        """Show another reading of a live run."""


class Runs:
    """The settings of a panel, its last runs, and the process of the present one."""

    def __init__(self, spec: PanelSpec, *, title: str = "", **values: Any) -> None:
        self.spec = spec
        self.title = title or spec.title
        self.values: dict[str, Any] = checked(spec.controls, values)
        self.prediction: float | None = None
        self.phase: Phase = "ready"
        self.message = "Set the controls and press Run."
        self.progress: float | None = None
        self.runs: list[dict[str, Any]] = []
        self.lock = threading.RLock()
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._view: RunView | None = None
        self._finished = threading.Event()
        self._finished.set()

    # ---- actions of the user ----

    def set(self, **values: Any) -> Self:
        """Change settings. A live run uses them immediately."""
        self.values = checked(self.spec.controls, {**self.values, **values})
        if self.spec.lanes and self.phase == "running":
            self._send({"set": self.values})
        self.refresh()
        return self

    def predict(self, value: float | None) -> Self:
        """Store the prediction for the next run, in the panel's unit; None removes it."""
        if value is not None:
            check_number("prediction", value, 0, fix="None is for no prediction")
        self.prediction = value
        self.refresh()
        return self

    def start(self) -> Self:
        """Start a run, as the Run button does. During a run, do nothing."""
        with self.lock:
            if not self._finished.is_set():
                return self
            self._finished.clear()
            self._connection, theirs = Pipe()
            with theirs:
                descriptor = theirs.fileno()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tcplab.widgets.job", str(descriptor)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[descriptor],
                    start_new_session=True,
                )
            self._send((self.spec.name, self.values))
            asked = {"values": dict(self.values), "prediction": self.prediction}
            threading.Thread(target=self._listen, args=[asked], daemon=True).start()
            self._set("running", "Starting …", None)
        return self

    def stop(self) -> Self:
        """End the run and its laboratory, as the Stop button does.

        A live run then shows what it has measured; a second call ends it without a result.
        """
        with self.lock:
            is_first = self.phase == "running"
            if self._finished.is_set():
                return self
            self._set("stopping", "Stopping …", None)
            if self.spec.lanes and is_first:
                self._send({"stop": True})
            else:
                self._kill()
        return self

    def wait(self) -> Self:
        """Wait until the run has ended and its result is in `runs`."""
        self._finished.wait()
        with self.lock:  # _finish holds it until then
            return self

    # ---- the process ----

    def _send(self, message: Any) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):  # the process has ended, which _listen notices
                self._connection.send(message)

    def _kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _listen(self, asked: Mapping[str, Any]) -> None:
        """Receive the messages of a run until its result, an error or the end of its process."""
        assert self._connection is not None
        began = time.perf_counter()
        last: Mapping[str, Any] = {}
        try:
            # A killed process may leave half a message.
            with self._connection as connection, contextlib.suppress(EOFError, OSError):
                while not last.keys() & {"result", "error"}:
                    last = connection.recv()
                    self._show_progress(last)
        finally:
            self._finish(last, asked, time.perf_counter() - began)

    def _show_progress(self, message: Mapping[str, Any]) -> None:
        with self.lock:
            if "sample" in message and self._view is not None:
                self._view.add(message["sample"])
            elif "stage" in message and self.phase == "running":
                self._set("running", f"{message['stage'].capitalize()} …", message["share"])

    def _finish(self, last: Mapping[str, Any], asked: Mapping[str, Any], took_s: float) -> None:
        assert self._process is not None
        with self.lock:
            self._kill()
            status = self._process.wait()
            self._finished.set()  # before the view is refreshed, which may fail
            if self.phase == "stopping" and not (self.spec.lanes and "result" in last):
                self._set("stopped", "Stopped.", None)
            elif "result" in last:
                self._keep(asked, asdict(last["result"]), took_s)
            elif "error" in last:
                self._set("failed", last["error"], None)
            else:
                how = f"by {signal.Signals(-status).name}" if status < 0 else f"with {status}"
                why = f"the process of the experiment ended {how}; press Run to try again"
                self._set("failed", why, None)

    def _keep(self, asked: Mapping[str, Any], result: Mapping[str, Any], took_s: float) -> None:
        self._number += 1
        code = self.spec.measurement.code(asked["values"])
        run = {**result, **asked, "number": self._number, "code": code}
        self.runs = [*self.kept(asked), run]
        notes = [f"Note: {note}." for note in run["notes"]]
        self._set("done", " ".join([f"Done in {took_s:.1f} s.", *notes]), None)

    def kept(self, _asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the runs that a new run, asked for with these values, leaves in the table."""
        return self.runs[-KEPT_RUNS + 1 :]

    def _set(self, phase: Phase, message: str, progress: float | None) -> None:
        self.phase, self.message, self.progress = phase, message, progress
        self.refresh()

    def refresh(self) -> None:
        """Make the view show what has changed."""
        with self.lock:
            if self._view is not None:
                self._view.refresh()

    def forecast(self) -> float | None:
        """Return the model's number for the current settings, or None if there is none."""
        return None if self.spec.forecast is None else self.spec.forecast(self.values)
