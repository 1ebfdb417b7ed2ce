"""Compare the model with the real stack, which plays the same made-up calls.

The segment boundaries must be the same, except where the order of events is left to chance.
`python -m tests.support.models.random_writes` plays more patterns, some with such races.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
from tests.support.models.playground import kernel_clock
from tests.support.models.random_writes import (
    MIXED_LATE_MS,
    MIXED_RTT_MS,
    PEERS,
    Trial,
    mixed,
    trials,
)

from tcplab.models import NetworkPath, simulate

pytestmark = [pytest.mark.needs_lab, pytest.mark.timeout(300)]

#: On a busy machine, timers are later than the link.
LATE_MS = 2 * MIXED_LATE_MS


@pytest.fixture(scope="module")
def all_trials() -> list[Trial]:
    patterns = mixed(80, seed=1)
    of_peers = [[pattern for pattern in patterns if pattern.peer == peer] for peer in PEERS]
    # The patterns wait most of the time, so those of different receivers run in parallel.
    with ThreadPoolExecutor(len(of_peers)) as pool:
        return [*chain(*pool.map(lambda group: list(trials(group, LATE_MS)), of_peers))]


def listed(wrong: list[Trial]) -> str:
    return f"{len(wrong)} deviations:\n" + "\n".join(map(str, wrong))


def test_settled_patterns_come_out_as_predicted(all_trials: list[Trial]) -> None:
    settled = [trial for trial in all_trials if trial.is_settled and not trial.is_disturbed]
    assert len(settled) >= 0.5 * len(all_trials)
    assert not (wrong := [trial for trial in settled if not trial.outright]), listed(wrong)


def test_comparison_detects_a_wrong_model(all_trials: list[Trial]) -> None:
    """A model whose sockets start with TCP_NODELAY predicts other segments."""
    path = NetworkPath(rtt_ms=MIXED_RTT_MS, clock=kernel_clock())
    wrong = 0
    for trial in all_trials:
        peer = PEERS[trial.pattern.peer]
        predicted = simulate(trial.played.since_connect, path, peer, nodelay=True)
        wrong += trial.played.boundaries != predicted.boundaries
    assert wrong >= 3
