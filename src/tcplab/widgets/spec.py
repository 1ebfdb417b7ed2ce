"""Describe a panel as data, with its controls, its measurement and its texts."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import queue
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tcplab.checks import choice
from tcplab.errors import MissingError
from tcplab.experiments import declared
from tcplab.widgets.controls import Control, checked, read_control

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tcplab.checks.parameters import Parameter
    from tcplab.figures import Picture
    from tcplab.lab import Lab
    from tcplab.timeline import Timeline

_FOLDER: Final = Path(__file__).parent / "panels"
#: The names of all panels. Each has a file NAME.toml and a module in panels/.
PANELS: Final = tuple(sorted(file.stem.replace("_", "-") for file in _FOLDER.glob("*.toml")))

#: The number of runs whose results a panel keeps for comparison.
KEPT_RUNS: Final = 3

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a run, which the process that measures sends to the notebook."""

    #: the number that represents the run, in the unit of the prediction, or None if it is missing
    headline: float | None
    figure: str  #: the picture as HTML without its script, or empty if there is nothing to draw
    title: str  #: title of the picture, or empty if there is none
    png: bytes  #: the picture as a PNG file, or empty if there is none
    table: str  #: the numbers as HTML
    provenance: Mapping[str, Any]
    notes: Sequence[str] = ()  #: warnings, one line each
    capture: bytes = b""  #: the run's packets as a pcapng file, or empty if they are not recorded

    @classmethod
    def of(
        cls,
        headline: float | None,
        picture: Picture | None,
        tables: Iterable[Any],
        provenance: Mapping[str, Any],
        **more: Any,
    ) -> Shown:
        """Return the result with a picture and tables (or texts) as the lessons show them."""
        figure, title, png = "", "", b""
        if picture is not None:
            figure, title, png = picture.markup(), picture.title, picture.png()
        numbers = "\n".join(
            f"<pre>{escape(table)}</pre>" if isinstance(table, str) else table._repr_html_()
            for table in tables
        )
        return cls(headline, figure, title, png, numbers, dict(provenance), **more)


class Job:
    """A run, as its measurement sees it."""

    longest_ms: float = 0.0  #: the largest headline of the panel's other runs

    def __init__(self, spec: PanelSpec, values: Values, owner: Connection) -> None:
        self.spec = spec
        #: The checked values of the controls. In a live panel they change during the run.
        self.values: Values = checked(spec.controls, values)
        self.stop_asked = False  #: True once the user wants a live run to end and show its result
        self._owner = owner
        self._changed: queue.SimpleQueue[Values] = queue.SimpleQueue()

    def stage(self, message: str, share: float | None = None) -> None:
        """Report the current stage and, if known, the share of the work that is done, 0 to 1."""
        self._owner.send({"stage": message, "share": share})

    def sample(self, values: Mapping[str, float]) -> None:
        """Add a reading to the strips of a live panel."""
        self._owner.send({"sample": values})

    def changes(self) -> Iterator[Values]:
        """Yield the settings that the user has chosen since the last call, oldest first."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.values = self._changed.get_nowait()
                yield self.values

    @contextmanager
    def lab(self, **parameters: Any) -> Iterator[Lab]:
        """Create a laboratory. If another measurement has this machine, wait for its end."""
        from tcplab.experiments.exclusive import exclusive
        from tcplab.lab import Lab

        waiting = "waiting for another measurement on this machine"
        with exclusive(lambda: self.stage(waiting)), Lab(**parameters) as lab:
            self.stage("measuring")
            yield lab

    def listen(self) -> None:
        """Receive the owner's messages, and end this process when the owner has ended."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = self._owner.recv()
                self.stop_asked |= "stop" in message
                if "set" in message:
                    self._changed.put(message["set"])
        os._exit(0)  # without waiting for the main thread


@dataclass(frozen=True, slots=True)
class PanelCall:
    """A call of an experiment, which can be made and can be shown as code."""

    module: ModuleType  #: the experiment's module
    arguments: Mapping[str, Any]
    figure: str = "figures.draw(result)"  #: the expression that draws the call's `result`
    tables: Sequence[str] = ("table(result)",)  #: the expressions of its tables
    #: Source text to show instead of an argument's repr, by the argument's name.
    sources: Mapping[str, str] = field(default_factory=dict)
    function: str = "measure"  #: name of the experiment's function in its module

    def make(self, **more: Any) -> Any:
        """Make the call, with further arguments, and return its result."""
        return getattr(self.module, self.function)(**self.arguments, **more)

    def evaluate(self, expression: str, result: Any) -> Any:
        """Return the value of one of the expressions."""
        from tcplab import figures
        from tcplab.experiments import table

        module = self.module.__name__.removeprefix("tcplab.experiments.")
        names = {"figures": figures, "table": table, "result": result, module: self.module}
        return eval(expression, names)  # safe, because the panel is ours

    def code(self) -> str:
        """Return the call, and the lines that show its result, as the code of a notebook cell."""
        sources = {name: repr(value) for name, value in self.arguments.items()} | {**self.sources}
        module = self.module.__name__.removeprefix("tcplab.experiments.")
        names = sorted([module, *["table"] * ("table(result)" in self.tables)])
        lines = [
            "from tcplab import figures",
            f"from tcplab.experiments import {', '.join(names)}",
            "",
            f"result = {module}.{self.function}(",
            *(f"    {name}={source}," for name, source in sources.items()),
            ")",
            *(f"print({table})" for table in self.tables),
            self.figure.replace(", compare_ms=longest_ms", ""),
            "",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ExperimentRun:
    """The measurement of nearly all panels, which is one call of an experiment."""

    call: Callable[[Values], PanelCall]  #: function that returns the call for given settings
    #: function that returns the number that represents a run, from the result and the settings
    headline: Callable[[Any, Values], float | None]
    #: Function that returns the parameters of the laboratory whose packets are recorded. It is None
    #: if the experiment makes its own laboratory, so that no packets can be saved.
    lab: Callable[[Values], Mapping[str, Any]] | None = None
    #: function that returns the timelines whose reasons become comments of the recorded packets
    timelines: Callable[[Any], Iterable[Timeline]] = lambda _result: ()
    #: function that returns warnings about the result, one line each
    notes: Callable[[Any], Iterable[str]] = lambda _result: ()

    def run(self, job: Job) -> Shown:
        """Make the call for the job's settings, and return what the panel shows."""
        from tcplab.experiments.mode import mode

        call, capture = self.call(job.values), b""
        job.stage("measuring")
        # With TCPLAB_RECORD, the experiment must choose its own network, or nothing is recorded.
        if self.lab is None or mode() != "live" or "TCPLAB_RECORD" in os.environ:
            result = call.make()
        else:
            try:
                with job.lab(**self.lab(job.values)) as lab:
                    result, capture = self._recorded(call, lab)
            except MissingError:
                result = call.make()  # without a network, this returns the recording
        job.stage("drawing")
        notes, picture = [*self.notes(result)], None
        try:
            picture = call.evaluate(call.figure.replace("longest_ms", str(job.longest_ms)), result)
        except ValueError as error:
            notes.append(str(error))
        return Shown.of(
            self.headline(result, job.values),
            picture,
            [call.evaluate(table, result) for table in call.tables],
            result.provenance,
            notes=notes,
            capture=capture,
        )

    def _recorded(self, call: PanelCall, lab: Lab) -> tuple[Any, bytes]:
        from tcplab.explain.comments import with_reasons

        with lab.client.capture() as recording:
            result = call.make(network=lab)
        with recording as capture:
            return result, with_reasons(capture, self.timelines(result))

    def code(self, values: Values) -> str:
        """Return the code of the call for these settings."""
        return self.call(values).code()


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """A panel as data: its texts, its controls and what it measures."""

    title: str  #: heading of the panel, and its name for screen readers
    summary: str  #: one sentence below the heading
    controls: Sequence[Control]  #: the controls from top to bottom
    predicts: str  #: the quantity that the user predicts, without its unit
    unit: str  #: unit of the prediction and of the headline
    #: The measurement that the Run button starts: an ExperimentRun, or an object with its methods
    #: run(), which returns the result, and code(), which returns Python code that repeats the run.
    measurement: Any
    #: function that returns the model's number in the unit of the headline
    forecast: Callable[[Values], float | None] | None = None
    #: function that returns the model's timeline, shown before the first run and below each figure
    timeline: Callable[[Values], Timeline] | None = None
    #: the label of each strip of a live panel, by its key in the readings given to Job.sample; such
    #: a panel's controls act on the run, and its Stop button shows the measurements
    lanes: Mapping[str, str] = field(default_factory=dict)
    #: settings of the run in a notebook that is executed without a browser
    headless: Values = field(default_factory=dict)
    name: str = ""  #: name of the panel, set by :func:`load`


@functools.cache
def load(name: str) -> PanelSpec:
    """Return the panel with this name, as its file and the functions of its module describe it."""
    choice("panel", name, PANELS)
    file = _FOLDER / f"{name.replace('-', '_')}.toml"
    data = tomllib.loads(file.read_text())
    module: Any = importlib.import_module(f"tcplab.widgets.panels.{file.stem}")
    parameters: Mapping[str, Parameter] = {}
    if experiment := data.pop("experiment", ""):
        measure = importlib.import_module(f"tcplab.experiments.{experiment}").measure
        parameters = declared(measure).parameters
    entries = data.pop("controls").items()
    controls = [read_control(control, entry, parameters) for control, entry in entries]
    known = vars(module)
    measurement = known.get("MEASUREMENT")
    if measurement is None:
        optional = {key: known[key] for key in ("lab", "timelines", "notes") if key in known}
        measurement = ExperimentRun(module.call, module.headline, **optional)
    return PanelSpec(
        **data,
        controls=controls,
        measurement=measurement,
        forecast=known.get("forecast"),
        timeline=known.get("timeline"),
        lanes=known.get("LANES", {}),
        name=name,
    )
