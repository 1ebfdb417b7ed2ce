"""Test the controls as data: refused values and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab.errors import ParameterError
from tcplab.experiments.declaration import Between, Parameter
from tcplab.widgets.controls import Choice, Number, Text, checked, read_control

WRITES = Number("writes", "Writes", 15, 1, 200)
RTT = Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms")
VARIANT = Choice("variant", "How", {"default": "plainly", "cork": "with a cork"}, "default")


@pytest.mark.parametrize("value", [0, 201, 1.5, "7", True, float("nan")])
def test_number_out_of_range_is_refused_with_value_and_limits(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"writes=.* must be a whole number from 1 to 200"):
        WRITES.check(value)


def test_whole_number_stays_whole_and_fraction_a_fraction() -> None:
    assert repr(WRITES.check(7.0)) == "7"
    assert repr(RTT.check(20)) == "20.0"


def test_text_must_be_a_text() -> None:
    line = Text("client", "Client", "curl")
    assert line.say(line.check("curl x")) == "Client: curl x"
    with pytest.raises(ParameterError, match="client=7 must be a text"):
        line.check(7)


def test_limits_carry_the_unit() -> None:
    with pytest.raises(ParameterError, match=r"rtt_ms=300 must be a number from 0 to 200 ms$"):
        RTT.check(300)


def test_choice_refuses_other_values() -> None:
    assert VARIANT.check("cork") == "cork"
    with pytest.raises(ParameterError, match="variant 'bottle' is not known; use one of default"):
        VARIANT.check("bottle")


def test_absent_values_get_defaults_and_unknown_names_are_refused() -> None:
    controls = (VARIANT, WRITES, RTT)
    assert checked(controls, {"writes": 3}) == {"variant": "default", "writes": 3, "rtt_ms": 0.0}
    with pytest.raises(
        ParameterError,
        match=r"setting 'wirtes' is not known; did you mean writes",
    ):
        checked(controls, {"wirtes": 3})


def test_control_of_a_parameter_has_its_default_limits_unit_and_help() -> None:
    rtt = Parameter("rtt_ms", 20, "of the wire", float, limits=Between(0, 500, "ms"))
    entry = {"label": "RTT", "high": 200}
    control: Any = read_control("rtt_ms", entry, {"rtt_ms": rtt})
    assert (control.name, control.default, control.low, control.high) == ("rtt_ms", 20, 0, 200)
    assert (control.unit, control.step, control.help) == ("ms", 0.5, "of the wire")
    side = Parameter("side", "receive", "whose buffer", str, choices=("receive", "send"))
    entry = {"of": "side", "label": "Side", "options": {"receive": "R", "send": "S"}}
    assert read_control("whose", entry, {"side": side}).default == "receive"
