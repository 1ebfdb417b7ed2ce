"""The controls of a panel, as data: what may be set, between which limits, in which unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Choice", "Control", "Number", "checked"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values, in a drop-down list.

    Attributes:
        name: of the argument that gets the value.
        label: what a reader sees and a screen reader says.
        options: value -> its words.
        default: the value at the start.
    """

    name: str
    label: str
    options: Mapping[str, str]
    default: str

    def check(self, value: Any) -> str:
        """The value itself.

        Raises:
            ValueError: it is none of the options.
        """
        if value not in self.options:
            raise ValueError(f"{self.label}: {value!r} must be one of {', '.join(self.options)}")
        return str(value)

    def spec(self) -> dict[str, Any]:
        """What the front end needs to know."""
        options = [[value, words] for value, words in self.options.items()]
        return {"kind": "choice", "name": self.name, "label": self.label, "options": options}


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a box, with a slider beside it.

    Attributes:
        name: of the argument that gets the value.
        label: what a reader sees and a screen reader says.
        default: the value at the start.
        low: the smallest that may be set.
        high: the largest.
        step: of the box and of a linear slider.
        unit: of the value; empty for a count.
        scale: "log" for a slider of equal ratios.
    """

    name: str
    label: str
    default: float
    low: float
    high: float
    step: float = 1
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"

    def check(self, value: Any) -> float:
        """The value as int where the step is whole, else as float.

        Raises:
            ValueError: it is no number, out of range, or not whole where it must be.
        """
        limits = f"from {self.low:,g} to {self.high:,g}{' ' if self.unit else ''}{self.unit}"
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not self.low <= value <= self.high:
            raise ValueError(f"{self.label}: {value!r} must be a number {limits}")
        if self.step != int(self.step):
            return float(value)
        if value != int(value):
            raise ValueError(f"{self.label}: {value!r} must be a whole number {limits}")
        return int(value)

    def spec(self) -> dict[str, Any]:
        """What the front end needs to know."""
        return {
            "kind": "number",
            "name": self.name,
            "label": self.label,
            "low": self.low,
            "high": self.high,
            "step": self.step,
            "unit": self.unit,
            "scale": self.scale,
        }


Control: TypeAlias = Choice | Number


def checked(controls: Sequence[Control], values: Mapping[str, Any]) -> dict[str, Any]:
    """All values under the controls' names; one that is absent has its default.

    Raises:
        ValueError: a value that no control allows, or a name that no control has. One line.
    """
    names = [control.name for control in controls]
    for name in values:
        if name not in names:
            raise ValueError(f"{name}: no such setting; there are {', '.join(names)}")
    return {each.name: each.check(values.get(each.name, each.default)) for each in controls}
