"""The one frame of all panels: settings, runs in a process of their own, and what they showed.

A :class:`Panel` is whole without a browser: :meth:`Panel.start`, :meth:`Panel.wait`,
:attr:`Panel.runs`. The view in the browser (`tcplab.widgets.view`) mirrors it and adds nothing.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal

from tcplab.widgets.controls import checked
from tcplab.widgets.instrument import Instrument
from tcplab.widgets.process import Worker

if TYPE_CHECKING:
    from tcplab.widgets.view import PanelView

__all__ = ["Panel"]

KEPT_RUNS: Final = 3
#: A live run may draw what it has measured for so long after Stop before it is ended.
DRAWING_S: Final = 10.0
STOP_S: Final = 0.4
#: How long a notebook that runs without a browser waits for the default result.
HEADLESS_S: Final = 120.0
#: How often that time starts anew while others have the instrument.
TURN_S: Final = 1.0

Phase = Literal["ready", "running", "stopping", "done", "stopped", "failed"]


class Panel:
    """An instrument with its settings, its last runs, and a worker that measures.

    The last expression of a notebook cell shows it. Where no browser is at the other end (nbclient,
    nbconvert) it measures once with the settings at hand and shows the result as plain HTML.

    Args:
        instrument: what it measures.
        title: heading; the instrument's unless given.
        steps: of a demo, see `tcplab.demos`.
        **values: settings that differ from the defaults.

    Raises:
        ValueError: a setting is out of range, or there is none of this name.
    """

    def __init__(
        self,
        instrument: Instrument,
        *,
        title: str = "",
        steps: Sequence[Mapping[str, Any]] = (),
        **values: Any,
    ) -> None:
        self.instrument = instrument
        self.title = title or instrument.title
        self.steps = tuple(steps)
        self.values: dict[str, Any] = checked(instrument.controls, values)
        self.prediction: float | None = None
        self.phase: Phase = "ready"
        self.message = "Set the controls and press Run."
        self.progress: float | None = None
        self.runs: list[dict[str, Any]] = []
        self._number = 0
        self._captures: dict[int, bytes] = {}
        self._worker: Worker | None = None
        self._view: PanelView | None = None
        self._lock = threading.RLock()
        self._finished = threading.Event()
        self._finished.set()
        self._drawing = False
        self._waits = False
        self._started_s = 0.0
        self._asked: dict[str, Any] = {}
        self._model: dict[str, Any] = {}
        self._model_of: dict[str, Any] = {}

    # ---- what the user does ----

    def set(self, **values: Any) -> Panel:
        """Changes settings; those of a live run at once.

        Raises:
            ValueError: a setting is out of range, or there is none of this name.
        """
        self.values = checked(self.instrument.controls, {**self.values, **values})
        if self.instrument.live and self.phase == "running" and self._worker is not None:
            self._worker.tell({"set": values})
        self._show()
        return self

    def predict(self, value: float | None) -> Panel:
        """What the next run will show, in the instrument's unit; None for no prediction.

        Raises:
            ValueError: not a number of at least 0.
        """
        if value is not None and not (isinstance(value, int | float) and value >= 0):
            raise ValueError(f"prediction={value!r}: give a number of at least 0, or None")
        self.prediction = value
        self._show()
        return self

    def warm(self) -> None:
        """Starts the worker, if none waits: a first run is then as quick as the next."""
        with self._lock:
            if self._worker is None or not self._worker.is_alive:
                self._worker = self._hire()

    def start(self) -> Panel:
        """What the Run button does. Does nothing while a run goes on."""
        with self._lock:
            if not self._finished.is_set():
                return self
            self.warm()
            assert self._worker is not None
            self._finished.clear()
            self._drawing = self._waits = False
            self._started_s = time.perf_counter()
            self._asked = {"values": dict(self.values), "prediction": self.prediction}
            drawn_there = self._view is not None and self.instrument.figure in ("chart", "stepper")
            request = {"run": self.instrument.name, "values": self.values}
            self._worker.tell({**request, "picture": not drawn_there})
            self._set("running", "Starting …", None)
        return self

    def stop(self) -> Panel:
        """What the Stop button does: the run and its laboratory are gone within half a second.

        A live run then draws what it has measured; any other is thrown away.
        """
        with self._lock:
            if self._finished.is_set() or self._worker is None:
                return self
            self._set("stopping", "Stopping …", None)
            worker = self._worker
            if self.instrument.live:
                worker.tell({"stop": True})
                threading.Thread(target=self._see_it_end, args=[worker], daemon=True).start()
                return self
            worker.kill()
        return self

    def wait(self, timeout_s: float = HEADLESS_S) -> Panel:
        """Waits for the end of the run, for code; a live run without end is stopped then.

        Args:
            timeout_s: how long the run may take, from its turn at the instrument.
        """
        left_s = timeout_s
        while not self._finished.wait(min(left_s, TURN_S)):
            left_s = timeout_s if self._waits else left_s - TURN_S
            if left_s <= 0:
                self.stop()
                self._finished.wait(DRAWING_S)
                break
        return self

    def capture(self, number: int | None = None) -> bytes:
        """The packets of a run (the last unless its number is given), as a pcapng file.

        Raises:
            ValueError: none were recorded, or the run is too long ago.
        """
        number = self._number if number is None else number
        if number not in self._captures:
            raise ValueError(f"run {number} has no capture; the last {KEPT_RUNS} runs are kept")
        return self._captures[number]

    def close(self) -> None:
        """Ends the worker. The panel can be used again; it then starts another."""
        with self._lock:
            worker, self._worker = self._worker, None
            if not self._finished.is_set():
                self._end("stopped", "Stopped.")
        if worker is not None:
            worker.close()

    # ---- what the worker says ----

    def _hire(self) -> Worker:
        # A line of a worker that was replaced must not be taken for one of the next.
        def heard(words: dict[str, Any]) -> None:
            with self._lock:
                if worker is self._worker:
                    self._hear(words)

        worker = Worker(heard)
        return worker

    def _hear(self, words: dict[str, Any]) -> None:
        if "sample" in words:
            if self._view is not None:
                self._view.send({"sample": words["sample"]})
        elif "stage" in words:
            self._drawing = words["stage"] == "drawing"
            self._waits = words.get("waits", False)
            if self.phase == "running":
                self._set("running", f"{words['stage'].capitalize()} …", words["share"])
        elif "result" in words:
            self._keep(words)
        elif "error" in words:
            self._end("failed", words["error"])
        elif "ended" in words:
            self._worker = None
            if not self._finished.is_set():
                stopped = self.phase == "stopping"
                self._end(*(("stopped", "Stopped.") if stopped else _death(words["ended"])))

    def _keep(self, words: dict[str, Any]) -> None:
        self._number += 1
        asked = self._asked
        picture_s = time.perf_counter() - self._started_s
        seconds = {**words["seconds"], "picture": picture_s}
        seconds["overhead"] = picture_s - seconds["experiment"]
        saved = words["capture_bytes"] > 0
        run = {
            **words["result"],
            "number": self._number,
            "values": asked["values"],
            "prediction": asked["prediction"],
            "forecast": self._forecast(asked["values"]),
            "code": self.instrument.code(asked["values"]),
            "seconds": seconds,
            "capture": saved,
        }
        if saved and self._worker is not None:
            self._captures[self._number] = self._worker.capture()
        self._captures.pop(self._number - KEPT_RUNS, None)
        self.runs = [*self.runs, run][-KEPT_RUNS:]
        notes = [f"Note: {note}." for note in words["result"]["notes"]]
        self._end("done", " ".join([f"Done in {picture_s:.1f} s.", *notes]))

    def _forecast(self, values: Mapping[str, Any]) -> float | None:
        if self._model_of == values:
            known: float | None = self._model["forecast"]
            return known
        forecast = self.instrument.forecast
        return None if forecast is None else forecast(values)

    def _see_it_end(self, worker: Worker) -> None:
        """Ends a live run that does not obey; waits for its picture if it does."""
        if self._finished.wait(STOP_S):
            return
        if not self._drawing or not self._finished.wait(DRAWING_S):
            worker.kill()

    def _set(self, phase: Phase, message: str, progress: float | None) -> None:
        self.phase, self.message, self.progress = phase, message, progress
        self._show()

    def _end(self, phase: Phase, message: str) -> None:
        self._set(phase, message, None)
        self._finished.set()

    # ---- what is shown ----

    def _show(self) -> None:
        with self._lock:  # the worker's lines come in a thread of their own
            if self._view is not None:
                self._view.refresh()

    def model(self) -> dict[str, Any]:
        """What the model says of the settings at hand, for the view: chart, steps, forecast."""
        if self._model_of != self.values:
            curve = self.instrument.model
            self._model = {
                "chart": None,
                "steps": None,
                "forecast": self._forecast(self.values),
                **({} if curve is None else curve(self.values)),
            }
            self._model_of = dict(self.values)
        return self._model

    def html(self) -> str:
        """The last run as plain HTML, for a page that no kernel stands behind."""
        title, summary = escape(self.title), escape(self.instrument.summary)
        parts = [f"<h3>{title}</h3>", f"<p>{summary}</p>"]
        if not self.runs:
            failed = self.phase == "failed"
            words = self.message if failed else "Nothing measured yet: run this cell in JupyterLab."
            return "\n".join([*parts, f"<p>{escape(words)}</p>"])
        run = self.runs[-1]
        parts.append(f"<p>{escape(run['label'])}</p>")
        if run["png"]:
            picture = f'<img src="data:image/png;base64,{run["png"]}" alt="{escape(run["alt"])}"'
            parts.append(f'{picture} style="max-width:100%">')
        parts += [run["table"], _fold("As code", run["code"]), _fold("Where from", _lines(run))]
        return "\n".join(parts)

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        if not _somebody_is_there():
            self.set(**self.instrument.headless).start().wait()
            # Nobody will press Run again.
            self.close()
        elif self.steps:
            # A lecturer does not wait for the first run to find its worker.
            self.warm()
        data: dict[str, Any] = {"text/plain": f"{self.title}: {self.message}"}
        try:
            from tcplab.widgets.view import PanelView
        except ImportError as error:
            lacking = f"<p>No controls here: {escape(str(error))}; run 'make setup'.</p>"
            return data | {"text/html": lacking + self.html()}
        if self._view is None:
            self._view = PanelView(self)
        view: dict[str, Any] = self._view.mimebundle()
        return data | {"text/html": self.html()} | view


def _somebody_is_there() -> bool:
    """Whether the front end that runs this cell has a person who could press a button.

    One that cannot answer input() has none: nbclient, nbconvert, papermill.
    """
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


def _death(status: int) -> tuple[Phase, str]:
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return "failed", f"the process of the experiment ended {how}; press Run to try again"


def _fold(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary><pre>{escape(text)}</pre></details>"


def _lines(run: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in run["provenance"].items())
