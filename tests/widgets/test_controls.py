"""The controls as data: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab.widgets.controls import Choice, Number, checked

WRITES = Number("writes", "Writes", 15, 1, 200)
RTT = Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms")
MODE = Choice("mode", "How", {"default": "plainly", "cork": "with a cork"}, "default")


@pytest.mark.parametrize("value", [0, 201, 1.5, "7", None, True, float("nan"), float("inf")])
def test_a_number_out_of_its_limits_is_refused_with_value_and_limits(value: Any) -> None:
    with pytest.raises(ValueError, match=r"Writes: .* must be a (whole )?number from 1 to 200"):
        WRITES.check(value)


def test_a_whole_number_stays_whole_and_a_fraction_a_fraction() -> None:
    assert repr(WRITES.check(7.0)) == "7"
    assert repr(RTT.check(20)) == "20.0"


def test_the_limits_carry_the_unit() -> None:
    with pytest.raises(ValueError, match=r"RTT: 300 must be a number from 0 to 200 ms$"):
        RTT.check(300)


def test_a_choice_knows_its_options() -> None:
    assert MODE.check("cork") == "cork"
    with pytest.raises(ValueError, match=r"How: 'bottle' must be one of default, cork"):
        MODE.check("bottle")


def test_what_is_not_set_has_its_default_and_an_unknown_name_is_refused() -> None:
    controls = (MODE, WRITES, RTT)
    assert checked(controls, {"writes": 3}) == {"mode": "default", "writes": 3, "rtt_ms": 0.0}
    with pytest.raises(ValueError, match=r"wirtes: no such setting; there are mode, writes"):
        checked(controls, {"wirtes": 3})
