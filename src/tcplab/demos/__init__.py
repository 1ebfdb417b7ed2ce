"""Demonstrations for a lecture: one panel, a few prepared steps, a question to the room for each.

In a notebook, such as the one that ``make demo NAME=small-writes`` opens::

    from tcplab import demos
    demos.show("small-writes")

In a terminal: ``tcplab demo small-writes``. A step is at most five seconds from the click to the
picture. The room votes before the lecturer presses Run; its votes stand beside the measurement.

A demo is a file ``NAME.toml`` in this folder. A path in the place of a name, ``my-lecture.toml``,
is a demo of one's own.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.checks import number
from tcplab.errors import ParameterError
from tcplab.widgets.controls import checked
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load

if TYPE_CHECKING:
    from tcplab.widgets.view import PanelView

__all__ = ["Demo", "DemoPanel", "Option", "Step", "every", "find", "show"]

FOLDER: Final = Path(__file__).parent

_Kinds = Mapping[str, type]
_KINDS: Final[Mapping[type, str]] = {str: "a text", list: "a list", dict: "a table"}


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that the room may vote for."""

    #: With its unit.
    label: str
    #: In the unit of the panel's headline.
    value: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a demo."""

    #: A few words for its button.
    title: str
    #: Question to the room.
    ask: str
    #: Of the panel, all of them.
    settings: Mapping[str, Any]
    #: The answers, of which the one nearest to the measurement, as a ratio, is right; none where
    #: the picture is the answer.
    options: tuple[Option, ...]
    #: Said when the picture is there.
    explain: str

    def nearest(self, measured: float) -> Option | None:
        """The right answer."""

        def distance(option: Option) -> float:
            return abs(math.log(max(option.value, 1e-6) / max(measured, 1e-6)))

        return min(self.options, key=distance, default=None)


@dataclass(frozen=True, slots=True)
class Demo:
    """The steps of a lecture's demonstration, with one panel."""

    #: Of its file, and of its notebook in lessons/demos.
    name: str
    title: str
    #: Two digits.
    lesson: str
    #: Name of the panel.
    panel: str
    steps: tuple[Step, ...]


def every() -> list[Demo]:
    """All demos of the course in the order of their lessons.

    Raises:
        ParameterError: see :func:`find`.
    """
    return sorted((find(path.stem) for path in FOLDER.glob("*.toml")), key=lambda it: it.lesson)


def find(name: str) -> Demo:
    """The demo of this name, or in the file of this path.

    Raises:
        ParameterError: there is none, or its file is not what it should be; one line names the
            file, the step and the key.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.toml")))
        raise ParameterError(f"demo {name!r}: there are {known}")
    with _named(path.name):
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:  # of the encoding, or of TOML
            raise ParameterError(f"not a TOML file: {error}") from None
        _check(data, {"title": str, "lesson": str, "panel": str, "steps": list}, {"unit": str})
        load(data["panel"])
    steps = []
    for count, table in enumerate(data["steps"], 1):
        with _named(f"{path.name}, step {count}"):
            steps.append(_step(table, data))
    return Demo(path.stem, data["title"], data["lesson"], data["panel"], tuple(steps))


def _step(table: dict[str, Any], demo: Mapping[str, Any]) -> Step:
    optional = {"settings": dict, "unit": str, "options": list}
    _check(table, {"title": str, "ask": str, "explain": str}, optional)
    with _named("settings"):
        settings = checked(load(demo["panel"]).controls, table.get("settings", {}))
    options = [number("options", each, 0) for each in table.get("options", [])]
    unit = table.get("unit", demo.get("unit", ""))
    return Step(
        table["title"],
        " ".join(table["ask"].split()),
        settings,
        tuple(Option(f"{value:g} {unit}".rstrip(), value) for value in options),
        " ".join(table["explain"].split()),
    )


def _check(table: Mapping[str, Any], needed: _Kinds, optional: _Kinds) -> None:
    known = {**needed, **optional}
    for key, value in table.items():
        if key not in known:
            raise ParameterError(f"{key}: no such key; there are {', '.join(known)}")
        if not isinstance(value, known[key]):
            raise ParameterError(f"{key}={value!r} must be {_KINDS[known[key]]}")
    for key in needed:
        if not table.get(key):
            raise ParameterError(f"{key} is missing")


@contextmanager
def _named(part: str) -> Iterator[None]:
    """Puts the part of the file before the message of an error in it."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{part}: {error}") from None


class DemoPanel(Panel):
    """The panel of a demo, set to its first step."""

    def __init__(self, demo: Demo) -> None:
        super().__init__(load(demo.panel), title=demo.title, **demo.steps[0].settings)
        self.steps = demo.steps

    def make_view(self) -> PanelView:
        """See Panel."""
        from tcplab.demos.view import DemoView

        return DemoView(self)


def show(name: str) -> DemoPanel:
    """The panel of a demo, with its steps; for the last line of a notebook's cell.

    Raises:
        ParameterError: see :func:`find`.
    """
    return DemoPanel(find(name))
