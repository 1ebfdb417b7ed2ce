"""Test the axis that stretches busy moments and shortens quiet times."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcplab.figures.timescale import TimeScale

MS = 1_000_000
BURST = [i * 1500 for i in range(15)]


def test_one_burst_has_one_linear_scale() -> None:
    scale = TimeScale(BURST)
    assert not scale.broken
    assert scale.x(BURST[7]) == pytest.approx((scale.x(BURST[0]) + scale.x(BURST[14])) / 2)


def test_long_wait_is_shortened() -> None:
    end = [44 * MS + time_ns for time_ns in BURST]
    scale = TimeScale([*BURST, *end])
    assert [part.busy for part in scale.parts] == [True, False, True]
    first, quiet, last = scale.parts
    assert quiet.end_ns - quiet.start_ns > 43 * MS
    for part in (first, last):
        assert part.right - part.left > 0.2  # it would be a thousandth if drawn to scale
    assert quiet.right - quiet.left > 0.3  # the wait is still the longest part


def test_equal_waits_are_both_shortened() -> None:
    scale = TimeScale([start * 44 * MS + time_ns for start in range(3) for time_ns in BURST])
    assert [part.busy for part in scale.parts] == [True, False, True, False, True]


def test_even_events_need_no_break_and_no_event_is_refused() -> None:
    assert not TimeScale(range(0, 40 * MS, MS)).broken
    with pytest.raises(ValueError, match="nothing to draw"):
        TimeScale([])


@settings(database=None)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60))
def test_moments_keep_their_order_within_the_axis(times: list[int]) -> None:
    scale = TimeScale(times)
    places = [scale.x(time_ns) for time_ns in sorted(times)]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= 1 + 1e-9
    for before, after in zip(scale.parts, scale.parts[1:], strict=False):
        assert before.end_ns == after.start_ns
        assert before.right == pytest.approx(after.left)
    assert scale.parts[0].left == 0
    assert scale.parts[-1].right == pytest.approx(1)
    for part in scale.parts:
        assert part.left < part.right
        for place, label in scale.ticks(part, 0.06):
            assert part.left - 1e-9 <= place <= part.right + 1e-9
            assert float(label) >= 0
