from __future__ import annotations

import pytest
from tests.support.timeline.made_up import ack, capture, data, handshake

from tcplab.experiments import short_transfer
from tcplab.models import slow_start_flights


@pytest.mark.needs_lab
def test_window_doubles_each_round_trip() -> None:
    result = short_transfer.measure(72_400, rtt_ms=100, rate_mbit=100)
    assert [each.segments for each in result.variants] == [10, 20, 20]
    assert [each.model_segments for each in result.variants] == [10, 20, 20]
    assert sum(each.bytes for each in result.variants) == 72_400
    assert len(result.timeline().segments) == 50


def test_stalled_sender_does_not_part_a_flight() -> None:
    """Three segments, then six; the sender stops after two of the six, before an ACK of them."""
    first = [data(each, 100 * each, 100) for each in range(3)]
    later = [data(at, 100 * each, 100) for each, at in enumerate((40, 41, 60, 61, 62, 63), 3)]
    acks = [ack(39.9, 200), ack(40.9, 300), ack(80, 500)]
    rows = sorted([*handshake(), *first, *later, *acks], key=lambda row: row["time_ns"])
    found = short_transfer.flights(capture(rows), rtt_ms=40)
    assert [each.segments for each in found] == [3, 6]


@pytest.mark.parametrize(
    ("segments", "flights"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (50, [10, 20, 20])]
)
def test_flights_of_slow_start(segments: int, flights: list[int]) -> None:
    assert slow_start_flights(segments) == flights


def test_flights_of_a_negative_number_are_refused() -> None:
    with pytest.raises(ValueError, match="segments=-1 must be"):
        slow_start_flights(-1)
