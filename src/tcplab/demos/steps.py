"""Read demos from files, and report mistakes in them."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tcplab.checks import choice, number
from tcplab.errors import ParameterError
from tcplab.widgets.controls import checked
from tcplab.widgets.spec import load

FOLDER: Final = Path(__file__).parent

_Kinds = Mapping[str, type]
_KINDS: Final[Mapping[type, str]] = {str: "a text", list: "a list", dict: "a table"}


@dataclass(frozen=True, slots=True)
class Option:
    """An answer that the audience can vote for."""

    label: str  #: the answer with its unit
    value: float  #: the answer in the unit of the panel's headline


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a demo, with a question to the audience."""

    title: str  #: a few words for the step's button
    ask: str  #: the question
    settings: Mapping[str, Any]  #: all settings of the panel
    #: the answers in ascending order, or empty if the picture is the answer
    options: tuple[Option, ...]
    explain: str  #: an explanation that appears with the picture

    def right(self, measured: float) -> Option | None:
        """Return the option that agrees with a measurement, or None if it is between two options.

        The nearest option agrees if the measurement's distance from it, on a logarithmic scale, is
        at most a third of the distance between this option and its nearest neighbour. The first
        option also covers all smaller values, and the last option all larger values.
        """
        places = [math.log(max(option.value, 1e-6)) for option in self.options]
        place = min(max(math.log(max(measured, 1e-6)), places[0]), places[-1])
        index = min(range(len(places)), key=lambda i: abs(place - places[i]))
        around = places[max(index - 1, 0) : index + 2]
        gap = min(after - before for before, after in pairwise(around))
        return self.options[index] if abs(place - places[index]) <= gap / 3 else None


@dataclass(frozen=True, slots=True)
class Demo:
    """A demonstration for a lecture, with one panel and several steps."""

    name: str  #: name of the file, without ".toml"
    title: str
    lesson: str  #: slug of the lesson
    panel: str  #: name of the demo's panel
    steps: tuple[Step, ...]


def every() -> list[Demo]:
    """Return the demos of the course, ordered by name."""
    return [find(path.stem) for path in sorted(FOLDER.glob("*.toml"))]


def find(name: str) -> Demo:
    """Return the demo with this name, or from this file if the name ends in ".toml"."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        choice("demo", name, sorted(each.stem for each in FOLDER.glob("*.toml")))
    with _named(path.name):
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:  # the file has a wrong encoding, or is not TOML
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
    options = _options(table.get("options", []), table.get("unit", demo.get("unit", "")))
    return Step(
        table["title"],
        " ".join(table["ask"].split()),
        settings,
        options,
        " ".join(table["explain"].split()),
    )


def _options(values: Sequence[Any], unit: str) -> tuple[Option, ...]:
    numbers = [number("options", value, 0) for value in values]
    if numbers != sorted({*numbers}) or len(numbers) == 1:
        raise ParameterError(f"options={values} must be two or more numbers in ascending order")
    labels = [f"≈ {value:g} {unit}".rstrip() for value in numbers]
    if labels:  # the outer options also cover all values beyond them
        labels[0] += " or less"
        labels[-1] += " or more"
    return tuple(map(Option, labels, numbers))


def _check(table: Mapping[str, Any], needed: _Kinds, optional: _Kinds) -> None:
    known = {**needed, **optional}
    for key, value in table.items():
        choice("key", key, known)
        if not isinstance(value, known[key]):
            raise ParameterError(f"{key}={value!r} must be {_KINDS[known[key]]}")
    for key in needed:
        if not table.get(key):
            raise ParameterError(f"{key} is missing")


@contextmanager
def _named(part: str) -> Iterator[None]:
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{part}: {error}") from None
