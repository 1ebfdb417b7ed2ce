"""Compare more buffers, another delay and random writes on the kernel with the models."""

import statistics

import pytest
from tests.lab.models.test_kernel_facts import check_costs, check_window, short_lab
from tests.support.models.playground import kernel_clock
from tests.support.models.random_writes import (
    MIXED_LATE_MS,
    OPTIONS,
    misses,
    mixed,
    patterns,
    report,
    shares,
    trials,
)

from tcplab.lab import Lab
from tcplab.models import Reason

__all__ = ["short_lab"]
pytestmark = [pytest.mark.needs_lab, pytest.mark.timeout(300)]


@pytest.mark.parametrize("requested", [1, 4096, 16_384, 131_072, 200_000])
def test_window_of_a_buffer_is_as_predicted(short_lab: Lab, requested: int) -> None:
    check_window(short_lab, requested)


def test_cost_of_a_message_without_a_delay_is_as_predicted() -> None:
    check_costs(rtt_ms=0)


def test_model_predicts_at_least_94_percent_of_random_writes() -> None:
    """The bounds are wide, since calls and ACKs may coincide more often than on average."""
    made = patterns(100, 1)
    assert made == patterns(100, 1) != patterns(100, 2)
    assert {pattern.option for pattern in made} == set(OPTIONS)
    results = list(trials(made))
    details = "\n".join([report(results), *map(str, misses(results))])
    reached = shares(results)
    assert reached["outright"] >= 94, details
    assert reached["within"] >= 97, details


def test_held_segments_of_mixtures_leave_at_the_predicted_times() -> None:
    """Most times are within 15 % of a segment's waiting time, or within 5 ms and a tick."""
    results = list(trials(mixed(80, 2), MIXED_LATE_MS))
    assert shares(results)["outright"] >= 97, "\n".join(map(str, misses(results)))
    on_time = []
    for trial in (t for t in results if t.outright and t.played.link_late_ms < 5):
        new = [s for s in trial.stated[0].data if s.reason != Reason.RETRANSMISSION]
        for real, model in zip(trial.played.data, new, strict=True):
            allowed_ms = max(5 + kernel_clock().tick_ms, 0.15 * model.waited_ms)
            off_ms = real.time_ms - trial.played.established_ms - model.time_ms
            if model.waited_ms > 1:
                on_time.append(abs(off_ms) <= allowed_ms)
    # One disturbed moment of the machine delays many segments, so the share is what counts.
    assert statistics.mean(on_time) >= 0.9
