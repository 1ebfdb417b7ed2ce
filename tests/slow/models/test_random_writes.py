"""Compare random writes on the kernel with the models; see docs/accuracy.md."""

from __future__ import annotations

import statistics

import pytest
from tests.support.models.playground import kernel_clock
from tests.support.models.random_writes import (
    MIXED_LATE_MS,
    OPTIONS,
    Trial,
    misses,
    mixed,
    patterns,
    report,
    shares,
    trials,
)

from tcplab.models import Reason

COUNT = 150


def test_same_seed_gives_the_same_patterns() -> None:
    for made, again, other in (
        (patterns(50, 7), patterns(50, 7), patterns(50, 8)),
        (mixed(50, 7), mixed(50, 7), mixed(50, 8)),
    ):
        assert made == again != other
    assert {pattern.option for pattern in patterns(50, 7)} == set(OPTIONS)


@pytest.fixture(scope="module")
def random_trials() -> list[Trial]:
    return list(trials(patterns(COUNT, 1)))


@pytest.mark.needs_lab
@pytest.mark.timeout(300)
def test_models_predict_at_least_94_percent_of_random_writes(random_trials: list[Trial]) -> None:
    """The bounds are wide, since calls and ACKs may coincide more often than on average."""
    details = "\n".join([report(random_trials), *map(str, misses(random_trials))])
    print(details)
    reached = shares(random_trials)
    assert reached["outright"] >= 94, details
    assert reached["within"] >= 97, details
    assert reached["given_acks"] >= 97, details
    assert reached["pushes"] >= 97, details


@pytest.mark.needs_lab
@pytest.mark.timeout(300)
def test_writev_and_cork_are_predicted_from_the_acks(random_trials: list[Trial]) -> None:
    for option in ("writev", "cork"):
        matching = [trial for trial in random_trials if trial.pattern.option == option]
        assert shares(matching)["given_acks"] >= 96, report(random_trials)


@pytest.fixture(scope="module")
def mixtures() -> list[Trial]:
    return list(trials(mixed(400, 2), MIXED_LATE_MS))


@pytest.mark.needs_lab
@pytest.mark.timeout(300)
def test_99_of_100_mixtures_of_writes_and_options_are_predicted(mixtures: list[Trial]) -> None:
    details = "\n".join(map(str, misses(mixtures)))
    assert shares(mixtures)["outright"] >= 99, details
    assert shares(mixtures)["given_acks"] >= 99, details


@pytest.mark.needs_lab
@pytest.mark.timeout(300)
def test_most_segment_times_are_as_predicted(mixtures: list[Trial]) -> None:
    """Most times are within 15 % of a segment's waiting time, or within 5 ms and a tick."""
    misses = []
    for trial in (t for t in mixtures if t.is_settled and t.outright and not t.is_disturbed):
        late_ms = -trial.played.established_ms
        new = [s for s in trial.stated[0].data if s.reason != Reason.RETRANSMISSION]
        for real, model in zip(trial.played.data, new, strict=True):
            allowed = max(5 + kernel_clock().tick_ms, 0.15 * model.waited_ms)
            misses.append(abs(real.time_ms - (model.time_ms - late_ms)) / allowed)
    # One disturbed moment of the machine delays many segments, so the share is what counts.
    assert sum(miss <= 1 for miss in misses) >= 0.9 * len(misses)
    assert statistics.median(misses) < 0.3
