"""Test the controls as data: refused values and their messages."""

from typing import Any

import pytest

from tcplab.errors import ParameterError
from tcplab.experiments.declaration import Between, Parameter
from tcplab.widgets.controls import Choice, Control, Number, Text, checked, read_control

WRITES = Number("writes", "Writes", 15, 1, 200)
RTT = Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms")
VARIANT = Choice("variant", "How", {"default": "plainly", "cork": "with a cork"}, "default")
CLIENT = Text("client", "Client", "curl")


WHOLE = r"writes=.* must be a whole number from 1 to 200"


@pytest.mark.parametrize(
    ("control", "value", "message"),
    [
        *((WRITES, value, WHOLE) for value in (0, 201, 1.5, "7", True, float("nan"))),
        (RTT, 300, r"rtt_ms=300 must be a number from 0 to 200 ms$"),
        (VARIANT, "bottle", "variant 'bottle' is not known; use one of default"),
        (CLIENT, 7, "client=7 must be a text"),
    ],
)
def test_other_value_is_refused_with_its_limits(control: Control, value: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        control.check(value)


def test_whole_number_stays_whole_and_fraction_a_fraction() -> None:
    assert repr(WRITES.check(7.0)) == "7"
    assert repr(RTT.check(20)) == "20.0"
    assert CLIENT.say(CLIENT.check("curl x")) == "Client: curl x"


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
