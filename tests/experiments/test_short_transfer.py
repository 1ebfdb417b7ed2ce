from __future__ import annotations

import pytest

from tcplab.experiments import short_transfer
from tcplab.models import slow_start_flights


@pytest.mark.needs_lab
def test_window_doubles_each_round_trip() -> None:
    result = short_transfer.measure(72_400, rtt_ms=100, rate_mbit=100)
    assert [each.segments for each in result.variants] == [10, 20, 20]
    assert [each.model_segments for each in result.variants] == [10, 20, 20]
    assert sum(each.bytes for each in result.variants) == 72_400
    assert len(result.timeline().segments) == 50


@pytest.mark.parametrize(
    ("segments", "flights"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (50, [10, 20, 20])]
)
def test_flights_of_slow_start(segments: int, flights: list[int]) -> None:
    assert slow_start_flights(segments) == flights


def test_flights_of_a_negative_number_are_refused() -> None:
    with pytest.raises(ValueError, match="segments=-1 must be"):
        slow_start_flights(-1)
