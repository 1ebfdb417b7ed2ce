"""Define the controls of a panel as data, with their allowed values, limits and units."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from tcplab import checks
from tcplab.checks.parameters import Parameter
from tcplab.errors import ParameterError
from tcplab.tables import plain


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice among a few values, shown as a drop-down list."""

    name: str  #: name of the setting
    label: str  #: label of the list, also for screen readers
    options: Mapping[str, str]  #: text in the list, by value
    default: str
    help: str = ""  #: tooltip

    def check(self, value: Any) -> str:
        """Return the value if it is one of the options; otherwise raise ParameterError."""
        return checks.choice(self.name, value, self.options)

    def say(self, value: str) -> str:
        """Return a setting in words, such as "Receiver's ACKs: at once"."""
        return f"{self.label}: {self.options[value].partition(':')[0]}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a box with a slider. See Choice for name, label and help."""

    name: str
    label: str
    default: float
    low: float
    high: float
    #: step of the box and of a linear slider; a whole step allows only whole numbers
    step: float = 1
    unit: str = ""  #: unit, or empty for a count
    scale: Literal["linear", "log"] = "linear"  #: scale of the slider
    help: str = ""

    def check(self, value: Any) -> float:
        """Return the value, as int if the step is whole, or raise ParameterError."""
        unit = f" {self.unit}" if self.unit else ""
        if self.step != int(self.step):
            return float(checks.number(self.name, value, self.low, self.high, unit=unit))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return checks.whole(self.name, value, int(self.low), self.high, unit=unit)

    def say(self, value: float) -> str:
        """Return a setting in words, such as "RTT 20 ms"."""
        return f"{self.label} {plain(value)} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text, such as a command. See Choice for name, label and help."""

    name: str
    label: str
    default: str
    help: str = ""

    def check(self, value: Any) -> str:
        """Return the value if it is a text; otherwise raise ParameterError."""
        if not isinstance(value, str):
            raise ParameterError(f"{self.name}={value!r} must be a text")
        return value

    def say(self, value: str) -> str:
        """Return a setting in words, such as "Client: curl …"."""
        return f"{self.label}: {value}"


Control: TypeAlias = Choice | Number | Text


def read_control(
    name: str, entry: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> Control:
    """Return the control that an entry of a panel's file describes.

    What the entry leaves out comes from a parameter of the panel's experiment. It has the control's
    name unless the entry says `of`. If the parameter is a sequence, the entry has a default.
    """
    given = {"name": name, **entry}
    known: dict[str, Any] = {}
    if parameter := parameters.get(given.pop("of", name)):
        known = {"default": parameter.default, "help": parameter.help}
        if limits := parameter.limits:
            known |= {"low": limits.least, "high": limits.most, "unit": limits.unit}
            known["step"] = 1 if parameter.kind is int else 0.5
    is_text = isinstance({**known, **given}["default"], str)
    kind: Any = Choice if "options" in given else Text if is_text else Number
    names = {field.name for field in fields(kind)}
    return kind(**{key: known[key] for key in known.keys() & names} | given)  # type: ignore[no-any-return]


def checked(controls: Sequence[Control], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values by name, with defaults; raise ParameterError for a bad name or value."""
    names = [control.name for control in controls]
    for name in values:
        checks.choice("setting", name, names)
    return {
        control.name: control.check(values.get(control.name, control.default))
        for control in controls
    }


def say_all(controls: Iterable[Control], values: Mapping[str, Any]) -> str:
    """Return the settings of some controls, such as "RTT 20 ms, Writes per message 15"."""
    return ", ".join(control.say(values[control.name]) for control in controls)
