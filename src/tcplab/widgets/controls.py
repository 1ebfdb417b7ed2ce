"""The controls of a panel, as data: the values that may be set, their limits and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from tcplab import checks
from tcplab.errors import ParameterError

__all__ = ["Choice", "Control", "Number", "checked"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values, in a drop-down list.

    Attributes:
        name: of the setting.
        label: text beside it, which a screen reader says too.
        options: value -> text in the list.
        default: value at the start.
    """

    name: str
    label: str
    options: Mapping[str, str]
    default: str

    def check(self, value: Any) -> str:
        """The value itself.

        Raises:
            ParameterError: it is none of the options.
        """
        return checks.choice(self.name, value, self.options)

    def for_browser(self) -> dict[str, Any]:
        """Plain data for panel.js."""
        return {"kind": "choice", **asdict(self), "options": [*self.options.items()]}


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a box, with a slider beside it.

    Attributes:
        name: of the setting.
        label: text beside it, which a screen reader says too.
        default: value at the start.
        low: the smallest that may be set.
        high: the largest.
        step: of the box and of a linear slider; whole for whole numbers.
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
            ParameterError: it is no number, out of range, or not whole where it must be.
        """
        unit = f" {self.unit}" if self.unit else ""
        if self.step != int(self.step):
            return float(checks.number(self.name, value, self.low, self.high, unit=unit))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return checks.whole(self.name, value, int(self.low), self.high, unit=unit)

    def for_browser(self) -> dict[str, Any]:
        """Plain data for panel.js."""
        return {"kind": "number", **asdict(self)}


Control: TypeAlias = Choice | Number


def checked(controls: Sequence[Control], values: Mapping[str, Any]) -> dict[str, Any]:
    """All values under the controls' names; one that is absent has its default.

    Raises:
        ParameterError: a value that its control does not allow, or a name that no control has.
    """
    names = [control.name for control in controls]
    for name in values:
        if name not in names:
            raise ParameterError(f"{name}: no such setting; there are {', '.join(names)}")
    return {each.name: each.check(values.get(each.name, each.default)) for each in controls}
