"""Show a panel in a page, with ipywidgets that mirror its runs and control them.

Figures are those of `tcplab.figures`. Some widgets of ipywidgets have no name for a screen reader.
``static/panel.js`` adds the names, as one anywidget in each panel. Neither this script nor
``panel.css`` needs a build or the network.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anywidget
import traitlets

from tcplab.figures import element
from tcplab.widgets import words
from tcplab.widgets.fields import PredictionField, make_field
from tcplab.widgets.runs import Runs
from tcplab.widgets.spec import load
from tcplab.widgets.strip import Strip

STATIC: Final = Path(__file__).parent / "static"
BUSY: Final = ("running", "stopping")
#: The strips of a live run are redrawn at this interval.
REDRAWN_S: Final = 0.5
#: Text instead of a figure before the first run.
WAITS: Final = "<p>The figure appears here after Run.</p>"
#: Text instead of WAITS in a panel with a model, until the learner predicts or skips.
GUESS_FIRST: Final = (
    "<p>The figure appears here after Run, and the model after your prediction or “skip”.</p>"
)


class Page(anywidget.AnyWidget):
    """The part of a panel that runs the course's JavaScript. panel.js describes its messages."""

    _esm = element.script() + (STATIC / "panel.js").read_text()
    _css = STATIC / "panel.css"

    title = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode("ready").tag(sync=True)
    number = traitlets.Int(0).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)


class PanelView:
    """The widgets of one panel."""

    heading = "h3"

    def __init__(self, panel: Runs) -> None:
        import ipywidgets as w

        spec = panel.spec
        self.panel = panel
        self._chosen: int | None = None
        self._pictured: int | None = None
        self._is_filling = self._is_answered = False
        self.fields = {
            control.name: make_field(control, partial(self._set, control))
            for control in spec.controls
        }
        label = f"Your prediction: {words.within_sentence(spec.predicts)} ({spec.unit})"
        self.prediction = PredictionField(label, panel.predict)
        self.run = w.Button(description="Run", button_style="primary")
        self.stop = w.Button(description="Stop", disabled=True)
        self.progress = w.FloatProgress(max=1.0)
        self.status = w.HTML().add_class("tcplab-status")
        self.choice = w.RadioButtons(
            options=[], description="Which run is shown", orientation="horizontal"
        ).add_class("tcplab-runs")
        self.picture, self.timeline = w.HTML(), w.HTML().add_class("tcplab-model")
        self.strip = Strip()
        self._drawn_s = 0.0
        self.page = Page(title=panel.title, note=f"tcplab-{uuid4().hex}")
        self.comparison, self.numbers, self.origin = w.HTML(), w.HTML(), w.HTML()
        self.numbers.add_class("tcplab-table")
        self.origin.add_class("tcplab-origin")
        self.save = w.Button(description="Save capture (.pcapng)")
        self.save_picture = w.Button(description="Save picture (.png)")
        self.widget = w.Box(self._arranged()).add_class("tcplab-panel")
        self._values: Any = None
        self.refresh()
        self.run.on_click(self._start)
        self.stop.on_click(lambda _button: panel.stop())
        self.save.on_click(partial(self._save, "capture", "pcapng"))
        self.save_picture.on_click(partial(self._save, "png", "png"))
        self.choice.observe(self._choose, "index")
        self.page.on_msg(self._on_message)

    def mimebundle(self) -> dict[str, Any]:
        """Return the data with which the front end of a notebook shows the widget."""
        version = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {"application/vnd.jupyter.widget-view+json": version}

    def add(self, sample: Mapping[str, float]) -> None:
        """Show another reading of a live run."""
        with self.panel.lock:
            self.strip.add(sample)
            if time.monotonic() < self._drawn_s + REDRAWN_S:
                return
            picture = self.strip.picture(self.panel.spec.lanes, self.levels())
            self.picture.value = picture.markup()
            self._drawn_s = time.monotonic()

    def levels(self) -> Mapping[str, float | None]:
        """Return the model's level in each lane, or an empty mapping while the model is hidden."""
        levels = self.panel.spec.levels if self.shows_model else None
        return levels(self.panel.values) if levels else {}

    # ---- layout ----

    def _arranged(self) -> list[Any]:
        import ipywidgets as w

        summary = w.HTML(f"<p>{escape(self.panel.spec.summary)}</p>")
        settings = [*(field.widget for field in self.fields.values()), self.prediction.widget]
        left = group("controls", *settings, *self._actions())
        right = group(
            "output",
            self.choice,
            self._frame(),
            self.comparison,
            self.numbers,
            self.origin,
            group("files", self.save_picture, self.save),
        )
        return [self._title(), summary, group("body", left, right)]

    def _title(self) -> Any:
        import ipywidgets as w

        return w.HTML(f"<{self.heading}>{escape(self.panel.title)}</{self.heading}>")

    def _actions(self) -> list[Any]:
        return [group("actions", self.run, self.stop), self.progress, self.status]

    def _frame(self) -> Any:
        timeline = [self.timeline] if self.panel.spec.timeline else []
        self.frame = group("frame", self.picture, *timeline, self.page)
        return self.frame

    # ---- the panel's state ----

    def refresh(self) -> None:
        """Show what has changed in the panel. Any thread may call this."""
        panel = self.panel
        if panel.values != self._values:
            self._values = panel.values
            for name, field in self.fields.items():
                field.show(panel.values[name])
        self.prediction.show(panel.prediction)
        is_busy = panel.phase in BUSY
        self._is_answered |= is_busy or self.prediction.is_answered
        if is_busy and self.page.phase not in BUSY:
            self.strip = Strip()
        refused = [self.prediction, *self.fields.values()]
        self.run.disabled = is_busy or any(field.is_refused for field in refused)
        self.stop.disabled = panel.phase != "running"
        self.progress.value = (panel.progress or 0.0) if is_busy else float(panel.phase == "done")
        failed = "Failed: " if panel.phase == "failed" else ""
        self.status.value = f'<p class="{panel.phase}">{escape(failed + panel.message)}</p>'
        is_empty = not (panel.runs or is_busy)
        (self.frame.add_class if is_empty else self.frame.remove_class)("tcplab-empty")
        self._show_results()
        # These come last, as a signal to the page that everything else is up to date.
        with self.page.hold_sync():
            self.page.number = panel.runs[-1]["number"] if panel.runs else 0
            self.page.phase = panel.phase

    @property
    def shown(self) -> dict[str, Any] | None:
        """The run that is shown, which is the chosen one or the last, or None."""
        runs = self.panel.runs
        chosen = [run for run in runs if run["number"] == self._chosen]
        return next(reversed(chosen or runs), None)

    def _show_results(self) -> None:
        spec, runs, now = self.panel.spec, self.panel.runs, self.shown
        names = words.names(spec.controls, runs)
        self._fill_choice(names, now)
        prediction = self.panel.prediction
        if prediction is None and now:
            prediction = now["prediction"]
        forecast = self.panel.forecast() if self.shows_model else None
        marks = {"your prediction": prediction, "the model": forecast}
        number = now["number"] if now else None
        self.save_picture.layout.display = None if now and "png" in now else "none"
        self.comparison.value = words.comparison(spec, runs, self.row_names(names), number, marks)
        if spec.timeline:
            values = tuple(self.panel.values.items())
            self.timeline.value = _timeline(spec.name, values) if self.shows_model else ""
        if spec.lanes and self.panel.phase in BUSY:
            self._pictured = None  # a live run's strip has replaced the picture; see add()
        elif number != self._pictured or not runs:
            self._show_run(now)

    @property
    def shows_model(self) -> bool:
        """True once the user has predicted, skipped the question, or started a run."""
        return self._is_answered or bool(self.panel.runs)

    @property
    def _waits(self) -> str:
        has_model = self.panel.spec.forecast or self.panel.spec.timeline
        return GUESS_FIRST if has_model and not self.shows_model else WAITS

    def row_names(self, names: list[str]) -> list[str]:
        """Return the names of the runs in the table that compares them."""
        return names

    def _fill_choice(self, names: list[str], now: Any) -> None:
        self._is_filling = True
        with self.choice.hold_sync():
            if self.choice.options != tuple(names):
                self.choice.options = names
            self.choice.index = self.panel.runs.index(now) if now else None
        self._is_filling = False

    def _show_run(self, now: dict[str, Any] | None) -> None:
        spec = self.panel.spec
        self._pictured = now["number"] if now else None
        self.numbers.value = now["table"] if now else ""
        self.origin.value = words.origin(now) if now else ""
        self.save.layout.display = None if now and spec.measurement.is_recorded else "none"
        self.save.disabled = not (now and now["capture"])
        self.picture.value = now["figure"] if now else self._waits

    # ---- the user's actions ----

    def _set(self, control: Any, value: Any) -> None:
        panel = self.panel
        if value is None or value == panel.values[control.name]:
            panel.refresh()
            return
        if panel.spec.lanes and panel.phase == "running":
            self.strip.mark(control.say(value))
        panel.set(**{control.name: value})

    def _start(self, _button: Any) -> None:
        self._chosen = None
        self.panel.start()

    def _save(self, what: str, ending: str, _button: Any) -> None:
        if (now := self.shown) and now.get(what):
            name = f"{self.panel.spec.name}-{now['number']}.{ending}"
            self.page.send({"save": name}, buffers=[now[what]])

    def _choose(self, change: Any) -> None:
        with self.panel.lock:
            if not self._is_filling and change["new"] is not None:
                self._chosen = self.panel.runs[change["new"]]["number"]
                self.panel.refresh()

    def _on_message(self, _widget: Any, message: Any, _buffers: Any) -> None:
        if message == "warm":
            self.panel.warm()
        elif message == "ping":
            self.page.send({"alive": True})


@functools.lru_cache(maxsize=8)
def _timeline(name: str, values: tuple[tuple[str, Any], ...]) -> str:
    from tcplab import figures

    timeline = load(name).timeline
    assert timeline is not None
    picture = figures.timeline(timeline(dict(values)))
    return replace(picture, title=f"The model: {picture.title}").markup()


def group(name: str, *children: Any) -> Any:
    """Put widgets in a box that panel.css arranges by its name."""
    import ipywidgets as w

    return w.Box(children).add_class(f"tcplab-{name}")
