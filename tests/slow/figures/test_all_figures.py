"""Draw eighty busy timelines; tests/fast draws only ten of them."""

from __future__ import annotations

from tests.fast.figures.test_busy_timelines import assert_all_readable


def test_eighty_busy_timelines_are_readable() -> None:
    assert_all_readable(range(10, 90))
