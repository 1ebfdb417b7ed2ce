"""An experiment is declared once: its checks and its command line follow from the function."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal

import pytest
from tests.support.nonempty import each

from tcplab.cli.declared import add_options
from tcplab.cli.run import measured
from tcplab.errors import ParameterError
from tcplab.experiments import (
    Between,
    Result,
    Variant,
    any_command,
    buffers,
    cork,
    every,
    pipes,
    write_patterns,
)
from tcplab.experiments.declaration import Experiment, Parameter, PythonOnly, Spelled, experiment

Color = Literal["red", "green"]


class Made(Variant):
    """A variant that keeps the arguments of measure()."""

    arguments: dict[str, Any]


def measure(
    rtts_ms: Annotated[Sequence[float], Between(1, 500, "ms")] = (10, 20),
    runs: Annotated[int, Between(1, 100), "repetitions"] = 5,
    colors: Sequence[Color] = ("red",),
    requests: Sequence[int | None] = (None,),
    patterns: Sequence[
        Annotated[tuple[int, ...], Spelled(lambda word: tuple(map(int, word.split("+"))), "4+100")]
    ] = ((1, 2),),
    nodelay: bool = False,
    offloads: Sequence[bool] = (True,),
    note: Annotated[str, PythonOnly()] = "",
) -> Result[Made]:
    """Repeat the arguments.

    Args:
        rtts_ms: round-trip times
            of the wire.
    """
    return Result([Made(dict(locals()))], {"measured_at": "2026-01-02T03:04:05", "kernel": "6"})


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    registry: dict[str, Experiment] = {}
    monkeypatch.setattr("tcplab.experiments.declaration._REGISTRY", registry)
    monkeypatch.setenv("TCPLAB_MODE", "live")
    experiment("made", figure=("size",))(measure)
    return registry["made"]


def test_options_follow_from_the_types(declared: Experiment) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, declared)
    line = (
        "--rtts-ms 5 7.5 --runs 3 --colors green red --requests auto 4096 --patterns 4+100 2"
        " --nodelay --offloads off on"
    )
    result = measured(declared, parser.parse_args(line.split()))
    assert result.variants[0].arguments == {
        "rtts_ms": [5.0, 7.5],
        "runs": 3,
        "colors": ["green", "red"],
        "requests": [None, 4096],
        "patterns": [(4, 100), (2,)],
        "nodelay": True,
        "offloads": [False, True],
        "note": "",
    }


def test_help_has_text_limits_and_default(declared: Experiment) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, declared)
    text = " ".join(parser.format_help().split())
    assert "round-trip times of the wire (1 to 500 ms; default: 10 20)" in text
    assert "repetitions (1 to 100; default: 5)" in text
    assert "--note" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rtts_ms": [0]}, "rtts_ms=0 must be a number from 1 to 500 ms"),
        ({"rtts_ms": []}, "rtts_ms is empty; give at least one of 1 to 500 ms"),
        ({"rtts_ms": [5, 5]}, "rtts_ms: 5 is given twice; once is enough"),
        ({"runs": 1.5}, "runs=1.5 must be a whole number from 1 to 100"),
        ({"colors": ["blue"]}, "colors 'blue' is not known; use one of red, green"),
    ],
)
def test_bad_value_is_named(declared: Experiment, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        declared.measure(**arguments)
    assert str(caught.value) == message


def test_result_is_named_by_its_declaration(declared: Experiment) -> None:
    assert declared.measure().provenance["experiment"] == "made"


def test_variant_is_found_by_its_key(declared: Experiment) -> None:
    with pytest.raises(KeyError, match="'x' was not measured"):
        declared.measure()["x"]


def refused(parameter: Parameter) -> Iterator[tuple[Any, str]]:
    """Yield values that a parameter's declaration forbids, each with words of its error message."""
    if limits := parameter.limits:
        yield limits.least - 1, "must be"
        yield limits.most + 1, "must be"
    if parameter.choices:
        yield "no such word", "is not known; use one of"
    if parameter.many:
        yield None, "is empty; give at least one"


def test_every_experiment_checks_its_arguments() -> None:
    for known in each(every().values()):
        for parameter in known.parameters.values():
            for value, message in refused(parameter):
                values = [] if value is None else [value]
                arguments = {parameter.name: values if parameter.many else value}
                with pytest.raises(ParameterError, match=f"{parameter.name}.* {message}"):
                    known.measure(**arguments)


def test_every_experiment_explains_its_options() -> None:
    for known in each(every().values()):
        for parameter in known.parameters.values():
            assert parameter.help, f"{known.name}: {parameter.name} has no line in Args"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: any_command.measure(client=""), "^no client: give a command such as curl http:"),
        (lambda: any_command.measure(client="curl 'x"), "^curl 'x: no closing quotation$"),
        (
            lambda: buffers.measure_order([(0.5, None)]),  # type: ignore[list-item]
            "sizes=0.5 must be a whole number from",
        ),
        (lambda: cork.measure((1,)), r"writes_bytes=\(1,\) must be 2 to 64"),
        (lambda: cork.measure_scenarios(["write 1, magic"]), "'magic' is not a step; use write N"),
        (lambda: cork.measure_scenarios(["write"]), "'write' is not a step"),
        (lambda: cork.measure_scenarios(["write 0"]), "value=0 must be"),
        (lambda: cork.measure_scenarios(["cork on, wait 1"]), "writes nothing"),
        (lambda: cork.measure_scenarios(["write 1, wait 6000, cork on"]), "longer than 5000 ms"),
        (lambda: pipes.compose("tape"), "source 'tape' is not known; use one of zeros, piped,"),
        (lambda: pipes.compose(sender="x"), "sender 'x' is not known; use one of nc, netcat, s"),
        (lambda: pipes.compose(receiver="x"), "receiver 'x' is not known; use one of null, pv,"),
        (lambda: pipes.compose(block_bytes=1), "block_bytes=1 must be a whole number from 128 to"),
        (lambda: pipes.measure(["fast"]), "variants 'fast' is not known; use one of wire, dd-nc"),
        (lambda: write_patterns.measure([()]), r"pattern \(\)"),
        (lambda: write_patterns.measure([(0,)]), r"pattern \(0,\)"),
    ],
)
def test_bad_values_are_named_before_anything_is_measured(
    call: Callable[[], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "live")
    with pytest.raises(ValueError, match=message):
        call()
