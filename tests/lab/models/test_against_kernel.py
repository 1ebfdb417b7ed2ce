"""Compare the models with the real stack, which plays the same made-up calls.

Each pattern runs on the kernel and through two models: simulate(), which is given only the calls,
and the sender alone, which is given the real ACKs. The segment boundaries must be the same, except
where the order of events is left to chance.
tests/slow/models plays more patterns, some with races between calls and ACKs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
from tests.support.models.playground import kernel_clock
from tests.support.models.random_writes import (
    ALL_PEERS,
    MIXED_LATE_MS,
    MIXED_RTT_MS,
    Trial,
    mixed,
    trials,
)

from tcplab.models import NetworkPath, simulate

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def all_trials() -> list[Trial]:
    patterns = mixed(80, seed=1)
    of_peers = [[pattern for pattern in patterns if pattern.peer == peer] for peer in ALL_PEERS]
    # The patterns wait most of the time, so those of different receivers run in parallel.
    with ThreadPoolExecutor(len(of_peers)) as pool:
        return [*chain(*pool.map(lambda group: list(trials(group, MIXED_LATE_MS)), of_peers))]


def listed(wrong: list[Trial]) -> str:
    return f"{len(wrong)} deviations:\n" + "\n".join(map(str, wrong))


def test_settled_patterns_come_out_as_predicted(all_trials: list[Trial]) -> None:
    settled = [trial for trial in all_trials if trial.is_settled and not trial.is_disturbed]
    assert len(settled) >= 0.8 * len(all_trials)
    assert not (wrong := [trial for trial in settled if not trial.outright]), listed(wrong)


def test_the_sender_alone_is_exact(all_trials: list[Trial]) -> None:
    """Given the real ACKs, only the order of two simultaneous events is left to chance."""
    certain = [trial for trial in all_trials if not trial.replayed.is_race]
    assert len(certain) >= 0.5 * len(all_trials)
    assert not (wrong := [trial for trial in certain if not trial.given_acks]), listed(wrong)


def test_comparison_detects_a_wrong_model(all_trials: list[Trial]) -> None:
    """The literal rule of RFC 896 predicts other segments, and the comparison must notice."""
    path = NetworkPath(rtt_ms=MIXED_RTT_MS, clock=kernel_clock(), nagle="rfc896")
    wrong = sum(
        trial.played.boundaries
        != simulate(trial.played.since_connect, path, ALL_PEERS[trial.pattern.peer]).boundaries
        for trial in all_trials
    )
    assert wrong >= 3
