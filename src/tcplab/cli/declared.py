"""Build command lines from declarations, either of a command or of an experiment.

A parameter that can be passed by position becomes an argument, and a keyword-only parameter becomes
an option. If a parameter's type is a dataclass, its fields become a separate group of options. The
docstring supplies the help: a summary, Usage, Args, notes, and an Example as the last paragraph.
`cli/grading.py` has examples.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import shlex
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tcplab.checks import unknown
from tcplab.checks.parameters import Manual, Parameter, parameters_of
from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from tcplab.experiments.declaration import Experiment


def add_command(commands: Any, function: Callable[..., int]) -> None:
    """Add a command that has the function's name and calls it."""
    name = function.__name__.replace("_", "-")
    manual = Manual.of(function)
    summary = _sentence(manual.summary)
    *notes, example = manual.notes
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog="\n\n".join([*notes, _sentence(example)]),
        formatter_class=_Paragraphs,
    )
    if "Usage" in manual.sections:
        lines = manual.sections["Usage"].splitlines()
        parser.usage = "\n       ".join(line.strip() for line in lines)
    groups, declared = _groups(function), inspect.signature(function).parameters
    for parameter in parameters_of(function).values():
        group = groups.get(parameter.name)
        if group is None:
            _add(parser, parameter, declared[parameter.name].kind)
            continue
        options = parser.add_argument_group(_sentence(Manual.of(group).summary))
        for option in parameters_of(group).values():
            _add(options, option, inspect.Parameter.KEYWORD_ONLY)
    parser.set_defaults(action=lambda given: call(function, given))


def call(function: Callable[..., int], given: argparse.Namespace) -> int:
    """Call the function with the parsed arguments; those not given keep the function's defaults."""
    positional: list[Any] = []
    options: dict[str, Any] = {}
    groups = _groups(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if group := groups.get(name):
            keys = [field.name for field in dataclasses.fields(group)]
            options[name] = group(**{key: vars(given)[key] for key in keys if key in given})
        elif name not in given:
            continue
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += getattr(given, name)
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            options[name] = getattr(given, name)
        else:
            positional.append(getattr(given, name))
    return function(*positional, **options)


def add_options(parser: argparse.ArgumentParser, experiment: Experiment) -> None:
    """Add an option for each visible parameter of an experiment."""
    for parameter in experiment.parameters.values():
        if not parameter.hidden:
            settings = _settings(parameter)
            if parameter.kind is bool and not parameter.many:
                settings["action"] = argparse.BooleanOptionalAction
            elif facts := "; ".join(_facts(parameter)):
                settings["help"] += f" ({facts})"
            parser.add_argument(parameter.option, **settings)


class CommandLine(argparse.ArgumentParser):
    """An argument parser that suggests a known word for a misspelt one."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, unknown(value, action.choices))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown options here, where the options of the command are known."""
        parsed, unread = super().parse_known_args(args, namespace)
        for word in unread:
            option = word.partition("=")[0]
            if option.startswith("--"):
                self.error(f"option {unknown(option, self._option_string_actions)}")
        return parsed, unread


class _Paragraphs(argparse.HelpFormatter):
    """A help formatter that keeps the paragraphs of an epilog apart."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(paragraph, width, indent) for paragraph in text.split("\n\n"))


def _groups(function: Callable[..., int]) -> dict[str, type]:
    """Map the name of each parameter that bundles options to its dataclass."""
    return {
        name: hint
        for name, hint in typing.get_type_hints(function).items()
        if isinstance(hint, type) and dataclasses.is_dataclass(hint)
    }


def _add(parser: Any, parameter: Parameter, kind: Any) -> None:
    if parameter.hidden:
        return
    settings = _settings(parameter)
    if kind is inspect.Parameter.KEYWORD_ONLY:
        if parameter.default is inspect.Parameter.empty:
            settings["required"] = True
        parser.add_argument(parameter.option, **settings)
        return
    del settings["dest"], settings["default"]
    if kind is inspect.Parameter.VAR_POSITIONAL:
        settings["nargs"] = "*"
    elif parameter.default is not inspect.Parameter.empty:
        settings |= {"nargs": "?", "default": parameter.default}
    parser.add_argument(parameter.name, **settings)


def _settings(parameter: Parameter) -> dict[str, Any]:
    text = parameter.help.replace("%", "%%")
    settings: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": parameter.name, "help": text}
    if parameter.kind is bool and not parameter.many:
        return settings | {"action": "store_true"}
    settings["type"] = _parser(parameter)
    if parameter.many:
        settings["nargs"] = parameter.count or ("*" if parameter.default is None else "+")
    if parameter.choices:
        settings["choices"] = parameter.choices
    if parameter.spelled or parameter.many:
        settings["metavar"] = (
            parameter.spelled.metavar if parameter.spelled else parameter.name.upper()
        )
    return settings


def _parser(parameter: Parameter) -> Callable[[str], Any]:
    def parse(word: str) -> Any:
        try:
            return parameter.parse(word)
        except ParameterError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    parse.__name__ = parameter.kind.__name__
    return parse


def _sentence(text: str) -> str:
    """Remove the full stop, and the initial capital unless an abbreviation comes first."""
    text = text.rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _facts(parameter: Parameter) -> Iterator[str]:
    if parameter.limits:
        yield f"{parameter.limits}"
    if parameter.many and parameter.choices:
        yield f"choices: {shlex.join(parameter.choices)}"
    if parameter.default is not None:
        values = parameter.default if parameter.many else (parameter.default,)
        if parameter.many and tuple(values) == parameter.choices:
            yield "default: all"
        else:
            yield f"default: {shlex.join(word(parameter, value) for value in values)}"


def word(parameter: Parameter, value: Any) -> str:
    """Return a value as the parameter's option takes it."""
    if parameter.spelled:
        return parameter.spelled.show(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "auto"
    return f"{value:g}" if isinstance(value, float) else str(value)
