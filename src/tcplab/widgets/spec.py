"""A panel as data: its controls, its measurement and its texts.

The measurement runs in a process of its own (`tcplab.widgets.worker`), and so it returns plain
data: :class:`Shown`.
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

#: A panel keeps the results of its last runs, for comparison.
KEPT_RUNS: Final = 3

#: Names of all panels: those of the modules in panels/, each of which has a PANEL.
PANELS: Final = tuple(
    sorted(
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules([str(Path(__file__).parent / "panels")])
    )
)

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a run, as plain data that fits in a line of JSON."""

    label: str  #: the settings in a few words, for the comparison of runs
    #: The number that stands for the run, in the unit of the prediction; None where not seen.
    headline: float | None
    figure: str  #: the picture as HTML, without its script; empty if there is nothing to draw
    title: str  #: of the picture; empty with it
    table: str  #: the numbers, as HTML
    text: str  #: the same for a terminal of 80 columns
    provenance: Mapping[str, Any]
    steps: Mapping[str, Any] = field(default_factory=dict)  #: of the stepper
    notes: Sequence[str] = ()  #: warnings, one line each
    picture: Picture | None = None  #: for a PNG file of it; not plain data

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
        """From a picture and a table as the lessons show them."""
        figure = "" if picture is None else picture.markup()
        title = "" if picture is None else picture.title
        if headline is not None and not math.isfinite(headline):
            headline = None
        numbers = (table._repr_html_(), table.narrow())
        seen = (label, headline, figure, title, *numbers, dict(provenance))
        return cls(*seen, picture=picture, **more)


class Job(Protocol):
    """One run as its measurement sees it, in the worker process."""

    #: The checked values of the controls. Those of a live panel change during the run.
    values: Values
    stop_asked: bool  #: the user wants a live run to end and show what it has

    def stage(self, message: str, share: float | None = None) -> None:
        """Reports the work at hand, and the share of the whole that is done, 0 to 1, if known."""

    def sample(self, values: Mapping[str, float]) -> None:
        """Sends a reading to the strips of a live panel."""

    def changes(self) -> Iterator[Values]:
        """The settings that the user has made since the last call, the oldest first."""

    def lab(self, **parameters: Any) -> AbstractContextManager[Lab | None]:
        """A laboratory whose packets are recorded for "save capture".

        None in all modes but live: the experiment then chooses its own network.
        """

    def explained(self, timelines: Iterable[Timeline]) -> None:
        """Each reason becomes a comment of its packet in the recording, if there is one."""


class Measurement(Protocol):
    """The work of the Run button, and the code with which a reader repeats it."""

    @property
    def is_recorded(self) -> bool:
        """Whether the packets of a run can be saved for Wireshark."""

    def run(self, job: Job) -> Shown:
        """Measures, in the worker."""

    def code(self, values: Values) -> str:
        """Python that repeats a run with these settings."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an experiment's `measure`, to be made and to be shown as code."""

    module: ModuleType  #: of the experiment
    arguments: Mapping[str, Any]
    shows: Sequence[str]  #: lines of code that show the result, which is called `result` there
    before: Sequence[str] = ()  #: lines between the imports and the call
    #: Arguments whose text in the code is not their repr.
    sources: Mapping[str, str] = field(default_factory=dict)

    def make(self, **more: Any) -> Any:
        """The result of the call."""
        return self.module.measure(**self.arguments, **more)

    def code(self) -> str:
        """The call and what shows its result, as a cell of a notebook."""
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
    """The measurement of nearly all panels: one call of an experiment."""

    call: Callable[[Values], Call]  #: from the settings to the call
    show: Callable[[Any, Job], Shown]  #: from its result to what is shown
    #: From the settings to the parameters of the laboratory whose packets are recorded; None where
    #: the experiment makes its own and nothing can be saved.
    lab: Callable[[Values], Mapping[str, Any]] | None = None

    @property
    def is_recorded(self) -> bool:
        return self.lab is not None

    def run(self, job: Job) -> Shown:
        """See Measurement."""
        call = self.call(job.values)
        job.stage("measuring")
        if self.lab is None:
            result = call.make()
        else:
            try:
                with job.lab(**self.lab(job.values)) as lab:
                    result = call.make(network=lab)
            except MissingError:
                result = call.make()  # without a network of ours: its recording
        job.stage("drawing")
        return self.show(result, job)

    def code(self, values: Values) -> str:
        """See Measurement."""
        return self.call(values).code()


@dataclass(frozen=True, slots=True)
class Lane:
    """One strip of a live run."""

    key: str  #: of the readings that are handed to Job.sample
    label: str  #: with the unit
    top: float  #: the least that the axis reaches up to


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """A panel as data."""

    title: str  #: heading of the panel, and its name for screen readers
    summary: str  #: one sentence below it
    controls: Sequence[Control]  #: from top to bottom
    predicts: str  #: the predicted quantity, without the unit
    unit: str  #: of the prediction and of the headline
    measurement: Measurement  #: made by Run
    #: The model's number in the unit of the headline.
    forecast: Callable[[Values], float | None] | None = None
    #: The model's timeline, shown before anything is measured and below the figure of a run.
    timeline: Callable[[Values], Timeline] | None = None
    #: The model's events, of a stepper, which takes the place of the figure.
    steps: Callable[[Values], Sequence[Mapping[str, Any]]] | None = None
    #: Strips of a live panel: its controls act on the run while it lasts, and Stop shows what was
    #: measured. None for any other panel.
    lanes: Sequence[Lane] = ()
    #: The model's level in each lane, by its key.
    levels: Callable[[Values], Mapping[str, float | None]] | None = None
    #: Settings of the run that stands in a notebook executed without a browser.
    headless: Values = field(default_factory=dict)
    name: str = ""  #: given by :func:`load`


@functools.cache
def load(name: str) -> PanelSpec:
    """The panel of this name.

    Raises:
        ParameterError: there is none.
    """
    choice("panel", name, PANELS)
    module: Any = importlib.import_module(f"tcplab.widgets.panels.{name.replace('-', '_')}")
    spec: PanelSpec = module.PANEL
    return replace(spec, name=name)
