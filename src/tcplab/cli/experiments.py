"""The command line of an experiment, derived from its declaration."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tcplab.errors import ParameterError
from tcplab.experiments.declaration import Experiment, Parameter
from tcplab.experiments.result import Result
from tcplab.lab import Loopback


def add_options(parser: argparse.ArgumentParser, experiment: Experiment) -> None:
    """One option per parameter, with its default and limits in the help."""
    for parameter in experiment.parameters.values():
        if not parameter.hidden:
            parser.add_argument(parameter.option, **_settings(parameter))
    if experiment.loopback_option:
        help_text = "run on the machine's own 127.0.0.1, where nothing can be recorded"
        parser.add_argument("--loopback", action="store_true", help=help_text)


def run(experiment: Experiment, options: argparse.Namespace) -> Result[Any]:
    """The result of the experiment with the options of the command line."""
    given = {
        name: getattr(options, name) for name in experiment.parameters if hasattr(options, name)
    }
    result: Result[Any]
    if experiment.loopback_option and options.loopback:
        with Loopback() as network:
            result = experiment.measure(**given, network=network)
    else:
        result = experiment.measure(**given)
    return result


def _settings(parameter: Parameter) -> dict[str, Any]:
    text = parameter.help.replace("%", "%%")
    settings: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": parameter.name}
    if parameter.kind is bool and not parameter.many:
        return settings | {"action": argparse.BooleanOptionalAction, "help": text}
    facts = [f"{parameter.limits}"] if parameter.limits else []
    if parameter.default is not None:
        facts.append(f"default: {_shown(parameter)}")
    settings["help"] = f"{text} ({'; '.join(facts)})" if facts else text
    settings["type"] = _parser(parameter)
    if parameter.many:
        settings["nargs"] = "+"
    if parameter.choices:
        settings["choices"] = parameter.choices
    else:
        settings["metavar"] = parameter.spelled.metavar if parameter.spelled else None
    return settings


def _parser(parameter: Parameter) -> Callable[[str], Any]:
    def parse(word: str) -> Any:
        try:
            return parameter.parse(word)
        except ParameterError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    parse.__name__ = parameter.kind.__name__
    return parse


def _shown(parameter: Parameter) -> str:
    values = parameter.default if parameter.many else (parameter.default,)
    return " ".join("auto" if each is None else _word(each) for each in values)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "+".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
