"""An experiment declared once: its name, parameters, limits and help are those of one function.

::

    @experiment("path-mtu")
    def measure(
        path_mtu: Annotated[int, Between(576, 1499, "bytes")] = 1200,
        network: Network | None = None,
    ) -> PathMtu:
        \"\"\"A narrower hop: discovery, the black hole, and its cures.

        Args:
            path_mtu: of the hop in the middle.
        \"\"\"

The decorator checks the arguments, chooses the mode, runs, records or replays. The command line
(`tcplab run path-mtu --path-mtu 1280`), its help and the controls of panels read the same
declaration.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast, get_args, get_origin

from tcplab import checks, machine
from tcplab.errors import MissingError, ParameterError
from tcplab.experiments import recordings
from tcplab.experiments.exclusive import exclusive
from tcplab.experiments.mode import announce, mode, recorded

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Between:
    """Limits of a number, or of each number of a sequence; for `Annotated`."""

    least: float
    most: float
    unit: str = ""

    def check(self, name: str, value: float, *, whole: bool) -> None:
        """Passes a number within the limits.

        Raises:
            ParameterError: it is not.
        """
        test = checks.whole if whole else checks.number
        test(name, value, self.least, self.most, unit=f" {self.unit}" if self.unit else "")  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.least:.12g} to {self.most:.12g}" + (f" {self.unit}" if self.unit else "")


@dataclass(frozen=True, slots=True)
class Spelled:
    """The spelling on the command line of a value that is no plain word or number."""

    #: from the word to the value; raises ValueError for what it does not understand
    parse: Callable[[str], Any]
    metavar: str  #: an example for the help, such as "4+100"


@dataclass(frozen=True, slots=True)
class PythonOnly:
    """A parameter that the command line does not offer."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an experiment, as its function declares it."""

    name: str
    default: Any
    help: str
    kind: type  #: int, float, bool or str: of the value, or of each value of a sequence
    many: bool = False  #: it takes a sequence
    optional: bool = False  #: None is a value, also within a sequence; "auto" on the command line
    choices: tuple[str, ...] = ()  #: the words that are allowed; empty where others are
    limits: Between | None = None  #: of a number
    spelled: Spelled | None = None  #: how the command line spells it
    hidden: bool = False  #: the command line does not offer it

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def distinct(self) -> bool:
        """It takes a sequence of cases, each once; writes of a message may repeat."""
        return self.many and len(set(self.default)) == len(self.default)

    def check(self, value: Any) -> None:
        """Passes a value that the declaration allows.

        Raises:
            ParameterError: it does not; one line names the value and the limits.
        """
        if self.many and not len(value):
            fix = ", ".join(self.choices) or (f"{self.limits}" if self.limits else "one value")
            raise ParameterError(f"{self.name} is empty; give at least one of {fix}")
        for each in value if self.many else (value,):
            if self.distinct and list(value).count(each) > 1:
                raise ParameterError(f"{self.name}: {each!r} is given twice; once is enough")
            if each is None and self.optional:
                continue
            if self.choices:
                checks.choice(self.name, each, self.choices)
            elif self.limits:
                self.limits.check(self.name, each, whole=self.kind is int)

    def parse(self, word: str) -> Any:
        """The value of one word of the command line.

        Raises:
            ValueError: the word says no such value.
        """
        if self.spelled:
            return self.spelled.parse(word)
        if self.optional and word == "auto":
            return None
        if self.kind is bool:
            return {"on": True, "off": False}[checks.choice(self.name, word, ("on", "off"))]
        return self.kind(word)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A declared experiment."""

    name: str  #: on the command line, and of its recordings
    summary: str  #: the first line of the function's docstring, without its full stop
    measure: Callable[..., Any]  #: the function, with the checks and modes around it
    parameters: Mapping[str, Parameter]  #: all but the network
    loopback_option: bool  #: the function takes a network, and plain loopback may be one


_REGISTRY: Final[dict[str, Experiment]] = {}


def every() -> Mapping[str, Experiment]:
    """All experiments of the package by name, in alphabetical order. Imports all their modules."""
    package = importlib.import_module("tcplab.experiments")
    for module in pkgutil.walk_packages(package.__path__, "tcplab.experiments."):
        importlib.import_module(module.name)
    return dict(sorted(_REGISTRY.items()))


def declared(measure: Callable[..., Any]) -> Experiment:
    """The experiment of a decorated function."""
    return next(each for each in _REGISTRY.values() if each.measure is measure)


def experiment(
    name: str,
    *,
    on_loopback: bool | Callable[..., bool] = False,
    needs: Sequence[str] | Callable[..., Sequence[str]] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declares a function `measure(…) -> Result` as the experiment of this name.

    A call checks its arguments. Where the mode forbids to run, its result is the recording of the
    same call, with ``provenance["recorded"]`` telling when, where and why; a notebook shows that
    at once, and :func:`tcplab.experiments.table` in the caption. A call that is given a ``network``
    always runs.

    Every experiment raises ParameterError for an argument out of range, and LabError where no
    laboratory can be made, a program fails, or there is no recording of the call.

    Args:
        name: unique.
        on_loopback: whether it can run on plain loopback; or a function of the call's arguments,
            by keyword, which decides.
        needs: programs that it runs (see :mod:`tcplab.machine`); or a function of the call's
            arguments, by keyword, which returns them. Where one is missing, or the function
            raises MissingError, the result is the recording of the same call.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = _parameters(function)

        @functools.wraps(function)
        def measure(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            for parameter in parameters.values():
                parameter.check(arguments[parameter.name])
            network = arguments.pop("network", None)
            programs = needs(**arguments) if callable(needs) else needs
            if network is not None:
                machine.require(*programs)
                return cast(R, _named(function(*args, **kwargs), name))
            if why := _why_not_live(on_loopback, arguments) or machine.lacking(*programs):
                return cast(R, recorded(name, arguments, why))
            try:
                with exclusive(
                    lambda: announce("Waiting for another measurement on this machine.")
                ):
                    result = _named(function(*args, **kwargs), name)
            except MissingError as error:
                return cast(R, recorded(name, arguments, str(error)))
            if directory := os.environ.get("TCPLAB_RECORD"):
                recordings.save(directory, name, arguments, result)
            return cast(R, result)

        summary = (inspect.getdoc(function) or name).partition("\n")[0].rstrip(".")
        takes_network = "network" in inspect.signature(function).parameters
        loopback = takes_network and on_loopback is not False
        _REGISTRY[name] = Experiment(name, summary, measure, parameters, loopback)
        return measure

    return decorate


def _why_not_live(on_loopback: bool | Callable[..., bool], arguments: Mapping[str, Any]) -> str:
    """Why this call cannot run now; empty when it can."""
    now = mode()
    if now == "recorded":
        return "TCPLAB_MODE=recorded"
    if now == "loopback":
        able = on_loopback(**arguments) if callable(on_loopback) else on_loopback
        return "" if able else "plain loopback cannot do this"
    return ""


def _named(result: Any, name: str) -> Any:
    return replace(result, provenance={"experiment": name, **result.provenance})


# ---- reading a declaration -----------------------------------------------------------------------


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    described = _described(inspect.getdoc(function) or "")
    return {
        name: _parameter(name, hints[name], each.default, described.get(name, ""))
        for name, each in inspect.signature(function).parameters.items()
        if name != "network"
    }


def _described(docstring: str) -> dict[str, str]:
    """Name -> text of each entry of the docstring's Args section."""
    section = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
    entries = re.findall(
        r"^    (\w+): (.*(?:\n     +.*)*)", section[1] if section else "", re.MULTILINE
    )
    return {name: " ".join(text.split()).rstrip(".") for name, text in entries}


def _parameter(name: str, hint: Any, default: Any, text: str) -> Parameter:
    """Unwraps Annotated[...], Sequence[...], ... | None and Literal[...], in any nesting."""
    extras: list[Any] = []
    many = optional = False
    while True:
        origin, inner = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            hint, *more = inner
            extras += more
        elif origin in (typing.Union, types.UnionType):
            rest = [each for each in inner if each is not type(None)]
            optional = optional or len(rest) < len(inner)
            hint = rest[0]
        elif isinstance(origin, type) and issubclass(origin, Sequence) and not many:
            many, hint = True, inner[0]
        else:
            break
    choices = tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
    spelled = next((each for each in extras if isinstance(each, Spelled)), None)
    return Parameter(
        name,
        default,
        text,
        str if choices or not isinstance(hint, type) else hint,
        many,
        optional,
        choices,
        limits=next((each for each in extras if isinstance(each, Between)), None),
        spelled=spelled,
        hidden=any(isinstance(each, PythonOnly) for each in extras)
        or (spelled is None and not choices and hint not in (int, float, bool, str)),
    )
