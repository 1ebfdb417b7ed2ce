"""Define the class of all panels, with their settings, their results and the process of a run."""

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
from html import escape
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tcplab.checks import number as check_number
from tcplab.checks.guesses import frontend_is_interactive
from tcplab.figures import page
from tcplab.widgets.controls import checked, say_all
from tcplab.widgets.spec import KEPT_RUNS, PanelSpec
from tcplab.widgets.words import origin

if TYPE_CHECKING:
    from tcplab.widgets.view import PanelView

#: Text above a panel in a saved notebook whose kernel has ended; panel.js hides it otherwise.
ASLEEP: Final = (
    "This panel belongs to an earlier session. To use it, click the cell above and press"
    " Shift+Enter."
)

Phase = Literal["ready", "running", "stopping", "done", "stopped", "failed"]


class Panel:
    """A panel that a notebook shows if it is the last expression of a cell.

    Without a browser (nbclient, nbconvert), it measures once with the current settings, adjusted by
    those in `PanelSpec.headless`, and shows the result as plain HTML.
    """

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
        self._view: PanelView | None = None
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
            headlines = [run["headline"] or 0 for run in self.runs]
            self._send((self.spec.name, self.values, max(headlines, default=0)))
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

    # ---- output ----

    def make_view(self) -> PanelView:
        """Return the view of the panel in a page."""
        from tcplab.widgets.view import PanelView

        return PanelView(self)

    def html(self) -> str:
        """Return the last run, or a message if there is none, as HTML that needs no kernel."""
        title, summary = escape(self.title), escape(self.spec.summary)
        parts = [f"<h3>{title}</h3>", f"<p>{summary}</p>"]
        if not self.runs:
            message = "Nothing measured yet: run this cell in JupyterLab."
            if self.phase == "failed":
                message = self.message
            return "\n".join([*parts, f"<p>{escape(message)}</p>"])
        run = self.runs[-1]
        settings = say_all(self.spec.controls, run["values"])
        script = [f"<script>{page.script()}</script>"] if run["figure"] else []
        parts += [f"<p>{escape(settings)}</p>", run["figure"], *script, run["table"], origin(run)]
        return "\n".join(parts)

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        if not (is_interactive := frontend_is_interactive()):
            self.set(**self.spec.headless).start().wait()
        self._view = self._view or self.make_view()
        if is_interactive:
            from IPython.display import publish_display_data

            note = f'<p class="{self._view.page.note}">{ASLEEP}</p>'
            publish_display_data(  # type: ignore[no-untyped-call]
                {"text/html": note, "text/plain": ASLEEP}
            )
        texts = {"text/plain": f"{self.title}: {self.message}", "text/html": self.html()}
        return {**self._view.widget._repr_mimebundle_(), **texts}
