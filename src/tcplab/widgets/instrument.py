"""What a panel is made of: an instrument is its controls, its measurement and its words, as data.

The measurement runs in a process of its own (`tcplab.widgets.worker`), and so hands over plain
data: :class:`Shown`.
"""

from __future__ import annotations

import base64
import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from tcplab.widgets.controls import Control

if TYPE_CHECKING:
    from tcplab.figures import Picture
    from tcplab.lab import Lab
    from tcplab.tables import Table

__all__ = ["INSTRUMENTS", "Instrument", "Job", "Lane", "Shown", "load"]

#: Name of an instrument -> its module, which has it under the name INSTRUMENT.
INSTRUMENTS: Final[Mapping[str, str]] = {
    "buffers": "tcplab.widgets.panels.buffers",
    "copies": "tcplab.widgets.panels.copies",
    "cork": "tcplab.widgets.panels.cork",
    "diagnosis": "tcplab.widgets.panels.diagnosis",
    "mtu": "tcplab.widgets.panels.mtu",
    "send-file": "tcplab.widgets.panels.send_file",
    "small-writes": "tcplab.widgets.panels.small_writes",
    "tcp-vs-udp": "tcplab.widgets.panels.tcp_vs_udp",
    "stepper": "tcplab.widgets.panels.stepper",
    "wire": "tcplab.widgets.panels.wire",
}

Values = Mapping[str, Any]
Say = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a run shows, as plain data that fits in a line of JSON.

    Attributes:
        label: the settings in a few words, for the comparison of runs.
        headline: the one number that stands for the run, in the unit of the prediction; None where
            it was not seen.
        png: the picture, base64 of a PNG file; empty where the front end draws its own.
        alt: the picture in words; empty with it.
        table: the numbers, as HTML.
        text: the same for a terminal of 80 columns.
        provenance: what the numbers depend on.
        points: of a chart over the instrument's axis.
        steps: of the stepper.
        notes: warnings, a line each.
    """

    label: str
    headline: float | None
    png: str
    alt: str
    table: str
    text: str
    provenance: Mapping[str, Any]
    points: Sequence[tuple[float, float]] = ()
    steps: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

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
        png = "" if picture is None else base64.b64encode(picture.png()).decode()
        alt = "" if picture is None else picture.alt
        if headline is not None and not math.isfinite(headline):
            headline = None
        shown = (alt, table._repr_html_(), table.narrow(), dict(provenance))
        return cls(label, headline, png, *shown, **more)

    def as_data(self) -> dict[str, Any]:
        """Names and plain values."""
        return asdict(self)


class Job(Protocol):
    """One run as its measurement sees it, in the worker process."""

    @property
    def values(self) -> Values:
        """The checked values of the controls. Those of a live instrument change meanwhile."""

    @property
    def wants_picture(self) -> bool:
        """Whether a picture is needed though the front end draws its own chart or stepper."""

    def stage(self, words: str, share: float | None = None) -> None:
        """Says what happens now, and which share of the whole is done, 0 to 1, if it is known."""

    def sample(self, values: Mapping[str, float]) -> None:
        """Hands a reading to the strip chart of a live instrument."""

    def changes(self) -> Iterator[Values]:
        """The settings that the user has made since the last call, the oldest first."""

    @property
    def stop_asked(self) -> bool:
        """Whether the user wants a live run to end and show what it has."""

    def lab(self, **parameters: Any) -> AbstractContextManager[Lab | None]:
        """A laboratory whose packets are recorded for "save capture".

        None on the lower rungs of the ladder, where the experiment finds its own place.
        """


@dataclass(frozen=True, slots=True)
class Lane:
    """One strip of a strip chart.

    Attributes:
        key: of the readings that are handed to Job.sample.
        label: with the unit.
        top: the least that the axis reaches up to.
    """

    key: str
    label: str
    top: float


@dataclass(frozen=True, slots=True)
class Instrument:
    """A panel as data.

    Attributes:
        name: as in INSTRUMENTS.
        title: heading of the panel, and its name for screen readers.
        summary: one sentence below it.
        controls: from top to bottom.
        predicts: what is predicted, without the unit.
        unit: of the prediction and of the headline.
        run: the measurement, in the worker.
        code: the Python that repeats a run.
        model: what the model says of these settings before anything is measured: {"chart": axes
            and curves} or {"steps": the stepper's events}.
        forecast: the model's number in the unit of the headline.
        live: the controls act on the run while it lasts, and Stop shows what was measured.
        lanes: of the strip chart of a live instrument.
        figure: what stands in the place of the figure.
        saves_capture: whether a run can be saved for Wireshark.
        headless: settings of the run that stands in a notebook executed without a browser.
    """

    name: str
    title: str
    summary: str
    controls: Sequence[Control]
    predicts: str
    unit: str
    run: Callable[[Job], Shown]
    code: Callable[[Values], str]
    model: Callable[[Values], dict[str, Any]] | None = None
    forecast: Callable[[Values], float | None] | None = None
    live: bool = False
    lanes: Sequence[Lane] = ()
    figure: Literal["picture", "chart", "strip", "stepper"] = "picture"
    saves_capture: bool = True
    headless: Values = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        """What the front end needs to know."""
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "controls": [control.spec() for control in self.controls],
            "predicts": self.predicts,
            "unit": self.unit,
            "live": self.live,
            "lanes": [asdict(lane) for lane in self.lanes],
            "figure": self.figure,
            "saves_capture": self.saves_capture,
        }


def load(name: str) -> Instrument:
    """The instrument of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in INSTRUMENTS:
        raise ValueError(f"instrument {name!r}: there are {', '.join(INSTRUMENTS)}")
    module: Any = importlib.import_module(INSTRUMENTS[name])
    instrument: Instrument = module.INSTRUMENT
    return instrument
