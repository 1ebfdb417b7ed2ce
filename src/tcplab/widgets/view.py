"""Show a panel in a page, with ipywidgets that mirror its runs and control them.

Figures are those of `tcplab.figures`. Some widgets of ipywidgets have no name for a screen reader.
``static/panel.js`` adds the names, as one anywidget in each panel. Neither this script nor
``panel.css`` needs a build or the network.
"""

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

from tcplab.figures import page
from tcplab.widgets import words
from tcplab.widgets.fields import GuessField, make_field
from tcplab.widgets.spec import KEPT_RUNS, load
from tcplab.widgets.strip import live

STATIC: Final = Path(__file__).parent / "static"
BUSY: Final = ("running", "stopping")
#: The strips of a live run are redrawn at this interval.
REDRAWN_S: Final = 0.5
#: Text instead of a figure before the first run.
WAITS: Final = "<p>The figure appears here after Run.</p>"


class Page(anywidget.AnyWidget):
    """The part of a panel that runs the course's JavaScript, panel.js."""

    _esm = page.script() + (STATIC / "panel.js").read_text()
    _css = STATIC / "panel.css"

    title = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode("ready").tag(sync=True)
    number = traitlets.Int(0).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)


class PanelView:
    """The widgets of one panel."""

    heading = "h3"

    def __init__(self, panel: Any) -> None:
        import ipywidgets as w

        spec = panel.spec
        self.panel = panel
        self._pictured: int | None = None
        self._is_answered = False
        self._samples: list[Mapping[str, float]] = []
        self._marks: list[float] = []
        self._drawn_s = 0.0
        made = [make_field(control, partial(self._set, control.name)) for control in spec.controls]
        names = [control.name for control in spec.controls]
        self.fields = {name: field for name, (field, _box) in zip(names, made, strict=True)}
        self.boxes = {name: box for name, (_field, box) in zip(names, made, strict=True)}
        label = f"Your prediction: {words.within_sentence(spec.predicts)} ({spec.unit})"
        guess = GuessField(label, self._predict, typing=True)
        self.prediction, self.refused = guess.box, guess.refused
        self.run = w.Button(description="Run", button_style="primary")
        self.stop = w.Button(description="Stop", disabled=True)
        self.progress = w.FloatProgress(max=1.0)
        self.status = w.HTML().add_class("tcplab-status")
        self.picture, self.timeline = w.HTML(), w.HTML().add_class("tcplab-model")
        self.page = Page(title=panel.title, note=f"tcplab-{uuid4().hex}")
        self.comparison = w.HTML()
        self.numbers = w.HTML().add_class("tcplab-table")
        self.origin = w.HTML().add_class("tcplab-origin")
        self.save = w.Button(description="Save capture (.pcapng)")
        self.save_picture = w.Button(description="Save picture (.png)")
        timeline = [self.timeline] if spec.timeline else []
        self.frame = group("frame", self.picture, *timeline, self.page)
        heading = f"<{self.heading}>{escape(panel.title)}</{self.heading}>"
        self.title = w.HTML(heading)
        self.asked = group("field", self.prediction, self.refused)
        self.actions = [group("actions", self.run, self.stop), self.progress, self.status]
        self.files = group("files", self.save_picture, self.save)
        self.widget = w.Box(self._arranged()).add_class("tcplab-panel")
        self._values: Any = None
        self.refresh()
        self.run.on_click(lambda _button: panel.start())
        self.stop.on_click(lambda _button: panel.stop())
        self.save.on_click(partial(self._save, "capture", "pcapng"))
        self.save_picture.on_click(partial(self._save, "png", "png"))

    def add(self, sample: Mapping[str, float]) -> None:
        """Show another reading of a live run."""
        self._samples.append(sample)
        if time.monotonic() >= self._drawn_s + REDRAWN_S:
            picture = live(self.panel.spec.lanes, self._samples, self._marks)
            self.picture.value = picture.markup()
            self._drawn_s = time.monotonic()

    # ---- layout ----

    def _arranged(self) -> list[Any]:
        import ipywidgets as w

        summary = w.HTML(f"<p>{escape(self.panel.spec.summary)}</p>")
        left = group("controls", *self.fields.values(), self.asked, *self.actions)
        shown = self.comparison, self.numbers, self.origin, self.files
        right = group("output", self.frame, *shown)
        return [self.title, summary, group("body", left, right)]

    # ---- the panel's state ----

    def refresh(self) -> None:
        """Show what has changed in the panel. Any thread may call this."""
        panel = self.panel
        if panel.values != self._values:
            self._values = panel.values
            for name, box in self.boxes.items():
                box.value = panel.values[name]
        is_busy = panel.phase in BUSY
        self._is_answered |= is_busy
        if is_busy and self.page.phase not in BUSY:
            self._samples, self._marks = [], []
        self.run.disabled = is_busy
        self.stop.disabled = not is_busy
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
        return next(reversed(self.panel.runs), None)

    def _show_results(self) -> None:
        panel, now = self.panel, self.shown
        spec = panel.spec
        prediction = panel.prediction
        if prediction is None and now:
            prediction = now["prediction"]
        names = self.row_names(words.names(spec.controls, panel.runs))
        rows = [
            (f"run{run['number'] % KEPT_RUNS}", name, run["headline"])
            for run, name in zip(panel.runs, names, strict=True)
        ]
        forecast = panel.forecast() if self.shows_model else None
        rows += [("mark", "your prediction", prediction), ("mark", "the model", forecast)]
        self.comparison.value = words.comparison(spec, rows)
        if spec.timeline:
            values = tuple(panel.values.items())
            self.timeline.value = _timeline(spec.name, values) if self.shows_model else ""
        number = now["number"] if now else None
        if spec.lanes and panel.phase in BUSY:
            self._pictured = None  # a live run's strip has replaced the picture; see add()
        elif number != self._pictured or not now:
            self._show_run(now)

    @property
    def shows_model(self) -> bool:
        """True once the user has predicted, skipped the question, or started a run."""
        return self._is_answered or bool(self.panel.runs)

    @property
    def waits(self) -> str:
        """The text instead of a figure before the first run. A model waits for a prediction."""
        if self.shows_model or not (self.panel.spec.forecast or self.panel.spec.timeline):
            return WAITS
        return WAITS.replace(".", ", and the model after your prediction or “skip”.")

    def row_names(self, names: list[str]) -> list[str]:
        """Return the names of the runs in the table that compares them."""
        return names

    def _show_run(self, now: dict[str, Any] | None) -> None:
        self._pictured = now["number"] if now else None
        self.numbers.value = now["table"] if now else ""
        self.origin.value = words.origin(now) if now else ""
        self.picture.value = now["figure"] if now else self.waits
        for button, name in ((self.save, "capture"), (self.save_picture, "png")):
            button.layout.display = None if now and now[name] else "none"

    # ---- the user's actions ----

    def _set(self, name: str, value: Any) -> None:
        panel = self.panel
        if value != panel.values[name]:
            if panel.phase == "running" and self._samples:
                self._marks.append(self._samples[-1]["t"])
            panel.set(**{name: value})

    def _predict(self, guess: float | None, is_answer: bool) -> None:
        self._is_answered |= is_answer
        self.panel.predict(guess)

    def _save(self, what: str, ending: str, _button: Any) -> None:
        if now := self.shown:
            name = f"{self.panel.spec.name}-{now['number']}.{ending}"
            self.page.send({"save": name}, buffers=[now[what]])


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
