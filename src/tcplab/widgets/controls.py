"""The controls of a panel, as data: the values that may be set, their limits and units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tcplab import checks
from tcplab.errors import ParameterError
from tcplab.experiments.declaration import Parameter

#: Stops of a logarithmic slider between 1 and 10: round, and of nearly equal ratios.
LEADS: Final = (1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)
#: A linear slider has no more; its page would know them all by heart.
MOST_STOPS: Final = 250
#: In a line of text.
MOST_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values, in a drop-down list."""

    name: str  #: of the setting
    label: str  #: text beside it, which a screen reader says too
    options: Mapping[str, str]  #: value -> text in the list
    default: str
    help: str = ""  #: tooltip

    @classmethod
    def of(
        cls,
        parameter: Parameter,
        label: str,
        options: Mapping[str, str],
        default: str = "",
        *,
        name: str = "",
    ) -> Choice:
        """For one value of an experiment's parameter, with all of its choices or some.

        The parameter gives what is left out; it has a default only where that is one value.

        Raises:
            ParameterError: an option is none of the choices.
        """
        for option in options:
            checks.choice(parameter.name, option, parameter.choices)
        return cls(
            name or parameter.name, label, options, default or parameter.default, parameter.help
        )

    def check(self, value: Any) -> str:
        """The value itself.

        Raises:
            ParameterError: it is none of the options.
        """
        return checks.choice(self.name, value, self.options)

    def say(self, value: str) -> str:
        """A setting in words: "Receiver's ACKs: at once"."""
        return f"{self.label}: {self.options[value].partition(':')[0]}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a box, with a slider beside it. Name, label, help: see Choice."""

    name: str
    label: str
    default: float
    low: float
    high: float
    step: float = 1  #: of the box and of a linear slider; whole for whole numbers
    unit: str = ""  #: empty for a count
    scale: Literal["linear", "log"] = "linear"  #: "log" for a slider of equal ratios
    help: str = ""

    @classmethod
    def of(
        cls, parameter: Parameter, label: str, default: float | None = None, **more: Any
    ) -> Number:
        """For one value of an experiment's parameter, within its limits or narrower ones.

        The parameter gives what is left out; it has a default only where that is one value.

        Raises:
            ParameterError: a limit lies outside those of the parameter.
        """
        limits = parameter.limits
        assert limits is not None, f"{parameter.name} is declared without limits"
        for end in more.keys() & {"low", "high"}:
            checks.number(f"{parameter.name}: {end}", more[end], limits.least, limits.most)
        given: dict[str, Any] = {
            "name": parameter.name,
            "default": parameter.default if default is None else default,
            "low": limits.least,
            "high": limits.most,
            "step": 1 if parameter.kind is int else 0.5,
            "unit": limits.unit,
            "help": parameter.help,
        }
        return cls(label=label, **(given | more))

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

    def say(self, value: float) -> str:
        """A setting in words: "RTT 20 ms"."""
        return f"{self.label} {_plain(value)} {self.unit}".rstrip()

    def stops(self) -> list[float]:
        """The values of the slider, in order; the box beside it takes all others."""
        if self.scale == "log":
            values = [lead * 10.0**power for power in range(-3, 10) for lead in LEADS]
        else:
            steps = round((self.high - self.low) / self.step)
            stride = -(-steps // MOST_STOPS)
            values = [self.low + n * self.step for n in range(0, steps + 1, stride)]
        whole = self.step == int(self.step)
        values = [round(value) if whole else round(value, 9) for value in values]
        return sorted(
            {
                each
                for each in (*values, self.low, self.high, self.default)
                if self.low <= each <= self.high
            }
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text, such as a command. Name, label, help: see Choice."""

    name: str
    label: str
    default: str
    help: str = ""
    examine: Callable[[str], object] = str  #: says what is wrong with a line: raises ParameterError

    def check(self, value: Any) -> str:
        """The value without spaces around it.

        Raises:
            ParameterError: it is no text, too long, or what `examine` refuses.
        """
        if not isinstance(value, str):
            raise ParameterError(f"{self.name}={value!r}: give a text")
        if len(value) > MOST_CHARACTERS:
            raise ParameterError(
                f"{self.name} has {len(value)} characters; at most {MOST_CHARACTERS}"
            )
        self.examine(value)
        return value.strip()

    def say(self, value: str) -> str:
        """A setting in words: "Client: curl …"."""
        return f"{self.label}: {value}"


Control: TypeAlias = Choice | Number | Text


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


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
