"""The simulated hours of feedback at submission: a queue with the measured times."""

from __future__ import annotations

import pytest
from bench.feedback import PAUSE_S, simulated


def test_nobody_waits_where_nothing_takes_time() -> None:
    assert simulated([0.001], hours=1)[-1] < 0.01


def test_queue_grows_without_end_where_the_places_do_not_suffice() -> None:
    assert simulated([3 * PAUSE_S], hours=10)[-1] > 1000


def test_mean_wait_at_half_of_the_load_is_that_of_theory() -> None:
    # Two places, constant times: half of the wait of M/M/2, which is S rho^2 / (1 - rho^2).
    times = simulated([PAUSE_S], hours=100)
    wait_s = sum(times) / len(times) - PAUSE_S
    assert wait_s == pytest.approx(PAUSE_S * 0.25 / 0.75 / 2, rel=0.25)
