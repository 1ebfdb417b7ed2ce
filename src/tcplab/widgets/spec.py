"""Describe a panel as data, with its controls, its measurement and its texts.

The measurement runs in a separate process (`tcplab.widgets.worker`), so its result is plain data
(:class:`Shown`).
"""

from __future__ import annotations

import functools
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

from tcplab.checks import choice
from tcplab.errors import MissingError
from tcplab.widgets.controls import Control

if TYPE_CHECKING:
    from tcplab.figures import Picture
    from tcplab.lab import Lab
    from tcplab.tables import Table
    from tcplab.timeline import Timeline

#: The number of runs whose results a panel keeps for comparison.
KEPT_RUNS: Final = 3

#: The names of all panels, from the modules in panels/. Each module defines PANEL.
PANELS: Final = tuple(
    sorted(
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules([str(Path(__file__).parent / "panels")])
    )
)

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a run. All of it is plain data for a line of JSON, except `picture`."""

    label: str  #: the settings in a few words, which name the run in a comparison
    #: the number that represents the run, in the unit of the prediction, or None if it is missing
    headline: float | None
    figure: str  #: the picture as HTML without its script, or empty if there is nothing to draw
    title: str  #: title of the picture, or empty if there is none
    table: str  #: the numbers as HTML
    provenance: Mapping[str, Any]
    notes: Sequence[str] = ()  #: warnings, one line each
    picture: Picture | None = None  #: the picture, for a PNG file

    @classmethod
    def of(
        cls,
        label: str,
        headline: float | None,
        picture: Picture | None,
        table: Table,
        provenance: Mapping[str, Any],
        **more: Any,
    ) -> Shown:
        """Return the result with a picture and a table as the lessons show them."""
        figure = "" if picture is None else picture.markup()
        title = "" if picture is None else picture.title
        if headline is not None and not math.isfinite(headline):
            headline = None
        numbers = table._repr_html_()
        return cls(
            label, headline, figure, title, numbers, dict(provenance), picture=picture, **more
        )


class Job(Protocol):
    """A run in the worker process, as its measurement sees it."""

    #: The checked values of the controls. In a live panel they change during the run.
    values: Values
    stop_asked: bool  #: True once the user wants a live run to end and show its result

    def stage(self, message: str, share: float | None = None) -> None:
        """Report the current stage and, if known, the share of the work that is done, 0 to 1."""

    def sample(self, values: Mapping[str, float]) -> None:
        """Add a reading to the strips of a live panel."""

    def changes(self) -> Iterator[Values]:
        """Yield the settings that the user has chosen since the last call, oldest first."""

    def lab(self, **parameters: Any) -> AbstractContextManager[Lab | None]:
        """Return a context manager that records the packets of a laboratory for "Save capture".

        It yields the laboratory. In modes other than live, or with TCPLAB_RECORD, it yields None,
        and the experiment chooses its own network.
        """

    def explained(self, timelines: Iterable[Timeline]) -> None:
        """Add each reason as a comment to its packet in the recording, if there is one."""


class Measurement(Protocol):
    """The measurement that the Run button starts, and the code that repeats it."""

    @property
    def is_recorded(self) -> bool:
        """True if the packets of a run can be saved for Wireshark."""

    def run(self, job: Job) -> Shown:
        """Measure in the worker process, and return the result."""

    def code(self, values: Values) -> str:
        """Return Python code that repeats a run with these settings."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an experiment's `measure`, which can be made and can be shown as code."""

    module: ModuleType  #: the experiment's module
    arguments: Mapping[str, Any]
    shows: Sequence[str]  #: lines of code that show the call's `result`
    before: Sequence[str] = ()  #: lines between the imports and the call
    #: Source text to show instead of an argument's repr, by the argument's name.
    sources: Mapping[str, str] = field(default_factory=dict)

    def make(self, **more: Any) -> Any:
        """Make the call, with further arguments, and return its result."""
        return self.module.measure(**self.arguments, **more)

    def code(self) -> str:
        """Return the call, and the lines that show its result, as the code of a notebook cell."""
        shown = "\n".join(self.shows)
        sources = {name: repr(value) for name, value in self.arguments.items()} | {**self.sources}
        module = self.module.__name__.removeprefix("tcplab.experiments.")
        names = sorted([module.partition(".")[0], *["table"] * ("table(result)" in shown)])
        lines = [
            *["from tcplab import figures"] * ("figures." in shown),
            f"from tcplab.experiments import {', '.join(names)}",
            *self.before,
            "",
            f"result = {module}.measure(",
            *(f"    {name}={source}," for name, source in sources.items()),
            ")",
            *self.shows,
            "",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ExperimentRun:
    """The measurement of nearly all panels, which is one call of an experiment."""

    call: Callable[[Values], Call]  #: function that returns the call for given settings
    show: Callable[[Any, Job], Shown]  #: function that returns what the panel shows
    #: Function that returns the parameters of the laboratory whose packets are recorded. It is None
    #: if the experiment makes its own laboratory, so that no packets can be saved.
    lab: Callable[[Values], Mapping[str, Any]] | None = None

    @property
    def is_recorded(self) -> bool:
        return self.lab is not None

    def run(self, job: Job) -> Shown:
        """Make the call for the job's settings, and return what the panel shows."""
        call = self.call(job.values)
        job.stage("measuring")
        if self.lab is None:
            result = call.make()
        else:
            try:
                with job.lab(**self.lab(job.values)) as lab:
                    result = call.make(network=lab)
            except MissingError:
                result = call.make()  # without a network, this returns the recording
        job.stage("drawing")
        return self.show(result, job)

    def code(self, values: Values) -> str:
        """Return the code of the call for these settings."""
        return self.call(values).code()


@dataclass(frozen=True, slots=True)
class Lane:
    """A strip of a live run, which shows one quantity."""

    key: str  #: key of the quantity in the readings given to Job.sample
    label: str  #: label with the unit
    top: float  #: smallest upper end of the axis during a run


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """A panel as data: its texts, its controls and what it measures."""

    title: str  #: heading of the panel, and its name for screen readers
    summary: str  #: one sentence below the heading
    controls: Sequence[Control]  #: the controls from top to bottom
    predicts: str  #: the quantity that the user predicts, without its unit
    unit: str  #: unit of the prediction and of the headline
    measurement: Measurement  #: measurement that the Run button starts
    #: function that returns the model's number in the unit of the headline
    forecast: Callable[[Values], float | None] | None = None
    #: function that returns the model's timeline, shown before the first run and below each figure
    timeline: Callable[[Values], Timeline] | None = None
    #: the strips of a live panel, whose controls act on the run and whose Stop button shows the
    #: measurements; empty for any other panel
    lanes: Sequence[Lane] = ()
    #: function that returns the model's level in each lane, by the lane's key
    levels: Callable[[Values], Mapping[str, float | None]] | None = None
    #: settings of the run in a notebook that is executed without a browser
    headless: Values = field(default_factory=dict)
    name: str = ""  #: name of the panel, set by :func:`load`


@functools.cache
def load(name: str) -> PanelSpec:
    """Return the panel with this name."""
    choice("panel", name, PANELS)
    module: Any = importlib.import_module(f"tcplab.widgets.panels.{name.replace('-', '_')}")
    spec: PanelSpec = module.PANEL
    return replace(spec, name=name)
