"""Read the options of experiments and commands from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from tcplab import checks
from tcplab.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Between:
    """The limits of a number, or of each number in a sequence, for use in `Annotated`."""

    least: float
    most: float
    unit: str = ""

    def check(self, name: str, value: float, *, whole: bool) -> None:
        """Raise ParameterError unless the number is within the limits and, if asked, whole."""
        test = checks.whole if whole else checks.number
        test(name, value, self.least, self.most, unit=f" {self.unit}" if self.unit else "")  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.least:.12g} to {self.most:.12g}" + (f" {self.unit}" if self.unit else "")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A command-line spelling, in `Annotated`, for a value that is no plain word or number."""

    #: A function that converts the word to the value, or raises ValueError.
    parse: Callable[[str], Any]
    metavar: str  #: an example for the help text, such as "4+100"
    show: Callable[[Any], str] = str  #: the inverse of `parse`, for a default in the help text


@dataclass(frozen=True, slots=True)
class PythonOnly:
    """A mark in `Annotated` for a parameter that the command line does not offer."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an experiment or a command, as its function declares it."""

    name: str
    default: Any
    help: str
    kind: type  #: type of the value, or of each value in a sequence (int, float, bool or str)
    many: bool = False  #: True if it takes a sequence
    count: int | None = None  #: length of the sequence, if the type fixes it
    #: True if the value, or an item of the sequence, may be None ("auto" on the command line)
    optional: bool = False
    choices: tuple[str, ...] = ()  #: the allowed words, or empty if all are allowed
    limits: Between | None = None  #: limits of a number
    spelled: Spelled | None = None  #: how to parse it on the command line, if not as a plain word
    hidden: bool = False  #: True if the command line does not offer it

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def distinct(self) -> bool:
        """True if the items of the sequence must differ, as they do in the default."""
        return self.many and len(set(self.default)) == len(self.default)

    def check(self, value: Any) -> None:
        """Raise ParameterError unless the declaration allows this value."""
        if self.many and not len(value):
            fix = ", ".join(self.choices) or (f"{self.limits}" if self.limits else "one value")
            raise ParameterError(f"{self.name} is empty; give at least one of {fix}")
        for item in value if self.many else (value,):
            if self.distinct and list(value).count(item) > 1:
                raise ParameterError(f"{self.name}: {item!r} is given twice; once is enough")
            if item is None and self.optional:
                continue
            if self.choices:
                checks.choice(self.name, item, self.choices)
            elif self.limits:
                self.limits.check(self.name, item, whole=self.kind is int)

    def parse(self, word: str) -> Any:
        """Convert one word of the command line to its value."""
        if self.spelled:
            return self.spelled.parse(word)
        if self.optional and word == "auto":
            return None
        if self.kind is bool:
            return {"on": True, "off": False}[checks.choice(self.name, word, ("on", "off"))]
        return self.kind(word)


@dataclass(frozen=True, slots=True)
class Manual:
    """A docstring, split into its parts."""

    summary: str  #: the first paragraph, without its full stop
    #: The lines of each section by title, such as "Args". They are indented by four spaces.
    sections: Mapping[str, str]
    notes: Sequence[str]  #: the paragraphs after the summary that are not sections

    @classmethod
    def of(cls, declared: Callable[..., Any]) -> Manual:
        """Parse the docstring of a function or a class."""
        first, *paragraphs = (inspect.getdoc(declared) or declared.__name__).split("\n\n")
        sections, notes = {}, []
        for paragraph in paragraphs:
            title, colon, lines = paragraph.partition(":\n")
            if colon and lines.startswith("    "):
                sections[title] = lines
            else:
                notes.append(" ".join(paragraph.split()))
        return cls(" ".join(first.split()).rstrip("."), sections, notes)

    def described(self) -> dict[str, str]:
        """Map each parameter described in the section Args to its description."""
        entries = re.findall(
            r"^    (\w+): (.*(?:\n     +.*)*)", self.sections.get("Args", ""), re.MULTILINE
        )
        return {name: " ".join(text.split()).rstrip(".") for name, text in entries}


def parameters_of(declared: Callable[..., Any]) -> dict[str, Parameter]:
    """Read the parameters of a function or a dataclass from its signature and its docstring."""
    hints = typing.get_type_hints(declared, include_extras=True)
    described = Manual.of(declared).described()
    return {
        name: _parameter(name, hints[name], parameter.default, described.get(name, ""))
        for name, parameter in inspect.signature(declared).parameters.items()
    }


def _parameter(name: str, hint: Any, default: Any, text: str) -> Parameter:
    """Make a parameter from its type hint, its default and its help text.

    The hint may nest Annotated[...], Sequence[...], ... | None and Literal[...] in any order. A
    string in Annotated[...] is the help of a parameter that the docstring does not describe.
    """
    extras: list[Any] = []
    many = optional = False
    count = None
    while True:
        origin, inner = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            hint, *more = inner
            extras += more
        elif origin in (typing.Union, types.UnionType):
            rest = [option for option in inner if option is not type(None)]
            optional = optional or len(rest) < len(inner)
            hint = rest[0]
        elif isinstance(origin, type) and issubclass(origin, Sequence) and not many:
            many, hint = True, inner[0]
            count = len(inner) if origin is tuple and Ellipsis not in inner else None
        else:
            break
    choices = tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
    spelled = next((extra for extra in extras if isinstance(extra, Spelled)), None)
    return Parameter(
        name,
        default,
        text or next((extra for extra in extras if isinstance(extra, str)), ""),
        str if choices or not isinstance(hint, type) else hint,
        many,
        count,
        optional,
        choices,
        limits=next((extra for extra in extras if isinstance(extra, Between)), None),
        spelled=spelled,
        hidden=any(isinstance(extra, PythonOnly) for extra in extras)
        or (spelled is None and not choices and hint not in (int, float, bool, str)),
    )
