"""The experiments of lesson 06: their form. What they find is in tests/lessons."""

from __future__ import annotations

import json

import pytest

from tcplab.cli import main
from tcplab.experiments import as_json, cork, recordings, table

pytestmark = pytest.mark.needs_lab


def test_results_are_tables_json_and_recordings() -> None:
    scripts = cork.measure_scenarios(list(cork.SCENARIOS)[:2])
    data = json.loads(as_json(scripts))
    assert set(data) == {"experiment", "rows", "provenance"}
    assert len(table(scripts).rows) == len(data["rows"]) >= 3
    again = recordings.decode(recordings.encode(scripts))
    assert again.rows() == scripts.rows()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cork.measure((1,)), r"writes_bytes=\(1,\) must be 2 to 64"),
        (lambda: cork.measure((1, 0)), "writes_bytes=0 must be a whole number from 1"),
        (lambda: cork.measure(messages=0), "messages=0 must be a whole number from 1 to 60"),
        (lambda: cork.measure(variants=["fast"]), "variants='fast' is not known"),  # type: ignore[list-item]
        (lambda: cork.measure(variants=[]), "variants is empty"),
        (lambda: cork.measure(rtt_ms=-1), "rtt_ms=-1 must be a number from 0 to 500 ms"),
        (lambda: cork.measure_forgotten([]), "rtts_ms is empty"),
        (lambda: cork.measure_scenarios(["magic"]), "variants='magic' is not known"),
        (lambda: cork.measure_scenarios([]), "variants is empty"),
        (lambda: cork.measure_autocorking(0), "writes=0 must be a whole number from 1 to 500"),
        (lambda: cork.measure_header_and_file(0), "header_bytes=0 must be a whole number from 1"),
        (lambda: cork.measure_two_sockets(0), "writes=0 must be a whole number from 1 to 100"),
    ],
)
def test_bad_values_are_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "cork-leak", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["experiment"] == "cork-leak"
