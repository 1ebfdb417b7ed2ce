"""Keep a panel's settings and results, and control its runs, which are in a separate process."""

from __future__ import annotations

import base64
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, Self

from tcplab.checks import number as check_number
from tcplab.errors import ParameterError
from tcplab.widgets.controls import checked
from tcplab.widgets.process import Worker
from tcplab.widgets.spec import KEPT_RUNS, PanelSpec

#: How long to wait for a picture, such as that of a live run after Stop.
DRAWING_S: Final = 10.0
#: A live run that has not begun to draw within this time after Stop is ended without a result.
STOP_S: Final = 5.0
#: Time limit of a run in a notebook that is executed without a browser.
HEADLESS_S: Final = 120.0
#: While a run waits for its turn, its time limit starts again at this interval.
TURN_S: Final = 1.0

Phase = Literal["ready", "running", "stopping", "done", "stopped", "failed"]


class View(Protocol):
    """A view that shows the settings and the runs."""

    def refresh(self) -> None:
        """Show what has changed."""

    def add(self, sample: Mapping[str, float]) -> None:
        """Show another reading of a live run."""


class Runs:
    """The settings of a panel, its last runs, and the worker that measures."""

    def __init__(self, spec: PanelSpec, *, title: str = "", **values: Any) -> None:
        self.spec = spec
        self.title = title or spec.title
        self.values: dict[str, Any] = checked(spec.controls, values)
        self.prediction: float | None = None
        self.phase: Phase = "ready"
        self.message = "Set the controls and press Run."
        self.progress: float | None = None
        self.runs: list[dict[str, Any]] = []
        self._number = 0
        self._worker: Worker | None = None
        self._view: View | None = None
        self.lock = threading.RLock()
        self._finished = threading.Event()
        self._finished.set()
        self._drawing = False
        self._is_queued = False
        self._started_s = 0.0
        self._asked: dict[str, Any] = {}

    # ---- actions of the user ----

    def set(self, **values: Any) -> Self:
        """Change settings. A live run uses them immediately."""
        self.values = checked(self.spec.controls, {**self.values, **values})
        if self.spec.lanes and self.phase == "running" and self._worker is not None:
            self._worker.send({"set": self.values})
        self.refresh()
        return self

    def predict(self, value: float | None) -> Self:
        """Store the prediction for the next run, in the panel's unit; None removes it."""
        if value is not None:
            check_number("prediction", value, 0, fix="None is for no prediction")
        self.prediction = value
        self.refresh()
        return self

    def warm(self) -> None:
        """Start a worker if none is waiting, so that the first run is as quick as later ones."""
        with self.lock:
            if self._worker is None or not self._worker.is_alive:
                self._worker = self._start_worker()

    def start(self) -> Self:
        """Start a run, as the Run button does. During a run, do nothing."""
        with self.lock:
            if not self._finished.is_set():
                return self
            self.warm()
            assert self._worker is not None
            self._finished.clear()
            self._drawing = self._is_queued = False
            self._started_s = time.perf_counter()
            self._asked = {"values": dict(self.values), "prediction": self.prediction}
            self._worker.send({"run": self.spec.name, "values": self.values})
            self._set("running", "Starting …", None)
        return self

    def stop(self) -> Self:
        """End the run and its laboratory, as the Stop button does.

        A live run then draws what it has measured, unless it does not respond for a few seconds.
        Any other run is discarded immediately.
        """
        with self.lock:
            if self._finished.is_set() or self._worker is None:
                return self
            self._set("stopping", "Stopping …", None)
            worker = self._worker
            if self.spec.lanes:
                worker.send({"stop": True})
                threading.Thread(target=self._enforce_stop, args=[worker], daemon=True).start()
                return self
            worker.kill()
        return self

    def wait(self, timeout_s: float = HEADLESS_S) -> Self:
        """Wait for the run to end. After its turn has come, stop it if it exceeds the limit."""
        left_s = timeout_s
        while not self._finished.wait(min(left_s, TURN_S)):
            left_s = timeout_s if self._is_queued else left_s - TURN_S
            if left_s <= 0:
                self.stop()
                self._finished.wait(DRAWING_S)
                break
        return self

    def png(self) -> bytes:
        """Return the last run's picture as PNG. Raise ParameterError if there is none in time."""
        end_s = time.monotonic() + DRAWING_S
        while time.monotonic() < end_s:
            if self.runs and "png" in self.runs[-1]:
                return bytes(self.runs[-1]["png"])
            time.sleep(0.05)
        raise ParameterError("the last run has no picture")

    def close(self) -> None:
        """End the worker. If the panel is used again, it starts another."""
        with self.lock:
            worker, self._worker = self._worker, None
            if not self._finished.is_set():
                self._end("stopped", "Stopped.")
        if worker is not None:
            worker.close()

    # ---- messages of the worker ----

    def _start_worker(self) -> Worker:
        # Messages from a worker that has been replaced are ignored.
        def on_message(message: dict[str, Any]) -> None:
            with self.lock:
                if worker is self._worker:
                    try:
                        self._on_message(message)
                    except Exception as error:  # a defect is reported at once
                        self._give_up(worker, error)

        worker = Worker(on_message)
        return worker

    def _on_message(self, message: dict[str, Any]) -> None:
        if "sample" in message:
            if self._view is not None:
                self._view.add(message["sample"])
        elif "stage" in message:
            self._drawing = message["stage"] == "drawing"
            self._is_queued = message.get("waits", False)
            if self.phase == "running":
                self._set("running", f"{message['stage'].capitalize()} …", message["share"])
        elif "result" in message:
            self._keep(message)
        elif "png" in message:
            self.runs[-1]["png"] = base64.b64decode(message["png"])
            self.refresh()
        elif "error" in message:
            self._end("failed", message["error"])
        elif "ended" in message:
            self._lose_worker(message["ended"])

    def _give_up(self, worker: Worker, error: Exception) -> None:
        self._worker = None
        worker.kill()
        self.phase, self.progress = "failed", None
        self.message = f"The panel failed ({type(error).__name__}: {error}); press Run to try again"
        self._finished.set()  # before refresh(), because the view may be the cause
        self.refresh()

    def _lose_worker(self, status: int) -> None:
        self._worker = None
        if self._finished.is_set():
            return
        if self.phase == "stopping":
            self._end("stopped", "Stopped.")
        else:
            self._end("failed", _unexpected_end(status))

    def _keep(self, message: dict[str, Any]) -> None:
        self._number += 1
        picture_s = time.perf_counter() - self._started_s
        seconds = {**message["seconds"], "picture": picture_s}
        seconds["overhead"] = picture_s - seconds["experiment"]
        worker = self._worker
        values = self._asked["values"]
        run = {
            **message["result"],
            "number": self._number,
            **self._asked,
            "forecast": self.forecast(values),
            "code": self.spec.measurement.code(values),
            "seconds": seconds,
            "capture": worker.capture() if worker and message["capture_bytes"] else b"",
        }
        self.runs = [*self.runs, run][-KEPT_RUNS:]
        notes = [f"Note: {note}." for note in message["result"]["notes"]]
        self._end("done", " ".join([f"Done in {picture_s:.1f} s.", *notes]))

    def _enforce_stop(self, worker: Worker) -> None:
        """Kill a live run that does not stop in time. If it stops, wait for its picture."""
        if self._finished.wait(STOP_S):
            return
        if not self._drawing or not self._finished.wait(DRAWING_S):
            worker.kill()

    def _set(self, phase: Phase, message: str, progress: float | None) -> None:
        self.phase, self.message, self.progress = phase, message, progress
        self.refresh()

    def _end(self, phase: Phase, message: str) -> None:
        self._set(phase, message, None)
        self._finished.set()

    def refresh(self) -> None:
        """Make the view show what has changed."""
        with self.lock:  # the worker's messages arrive in another thread
            if self._view is not None:
                self._view.refresh()

    def forecast(self, values: Mapping[str, Any] | None = None) -> float | None:
        """Return the model's number for these or the current settings, or None if there is none."""
        forecast = self.spec.forecast
        return None if forecast is None else forecast(self.values if values is None else values)


def _unexpected_end(status: int) -> str:
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return f"the process of the experiment ended {how}; press Run to try again"
