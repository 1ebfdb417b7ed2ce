"""The goodput of a full link: mistakes. What it measures is in test_the_lab.py."""

from __future__ import annotations

import pytest

from tcplab.cli import main
from tcplab.experiments import goodput


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="seconds=0 must be a number from"):
        goodput.measure(seconds=0)
    with pytest.raises(ValueError, match="mtu=10 must be a whole number from 576"):
        goodput.measure(mtu=10)
    with pytest.raises(ValueError, match="rates_mbit is empty"):
        goodput.measure([])


def test_mistake_on_the_command_line_costs_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "goodput", "--rates-mbit", "0"]) == 2
    assert "rates_mbit=0.0 must be a number from 1 to 10000 Mbit/s" in capsys.readouterr().err
