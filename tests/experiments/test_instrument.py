"""On a shared machine experiments take turns, first come, first served, whoever is killed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tcplab import LabError
from tcplab.experiments.instrument import turn

# Waits in the queue, writes what happens to it as a line each, and works until a line arrives.
LEARNER = """
import sys
from tcplab.experiments.instrument import turn
with turn(lambda before: print("waits for", before, flush=True)):
    print("works", flush=True)
    sys.stdin.readline()
print("done", flush=True)
"""

Learner = subprocess.Popen[str]
Start = Callable[[], Learner]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "instrument"
    directory.mkdir()
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(directory))
    return directory


@pytest.fixture
def started(queue: Path) -> Iterator[Start]:
    """Starts a learner."""
    people = []

    def start() -> Learner:
        people.append(
            subprocess.Popen(
                [sys.executable, "-c", LEARNER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return people[-1]

    yield start
    for learner in people:
        learner.kill()
        learner.communicate()
    assert os.environ["TCPLAB_INSTRUMENT"] == str(queue)


@pytest.fixture
def learners(started: Start) -> list[Learner]:
    """Four who came one after the other; the first has the instrument."""
    people = []
    for number in range(4):
        people.append(started())
        assert said(people[-1]) == (f"waits for {number}" if number else "works")
    return people


def said(learner: Learner) -> str:
    assert learner.stdout is not None
    return learner.stdout.readline().strip()


def finish(learner: Learner) -> None:
    assert learner.stdin is not None
    learner.stdin.write("\n")
    learner.stdin.flush()
    assert said(learner) == "done"


def works(learner: Learner) -> None:
    while (line := said(learner)) != "works":
        assert line.startswith("waits for"), line


def test_first_come_first_served(learners: list[Learner], queue: Path) -> None:
    for learner in learners:
        works(learner) if learner is not learners[0] else None
        finish(learner)
    assert list(queue.iterdir()) == []


def test_who_is_killed_holds_up_nobody(learners: list[Learner]) -> None:
    first, second, third, fourth = learners
    second.kill()  # while it waits
    second.wait()
    first.kill()  # while it works
    first.wait()
    works(third)
    third.kill()
    works(fourth)


def test_a_death_in_the_queue_lets_nobody_pass_the_one_who_works(learners: list[Learner]) -> None:
    first, second, third, _fourth = learners
    second.kill()
    second.wait()
    assert third.stdout is not None
    assert select.select([third.stdout], [], [], 0.3) == ([], [], [])
    finish(first)
    works(third)


def test_an_experiment_in_an_experiment_has_the_instrument(queue: Path) -> None:
    with turn(), turn():
        assert len(list(queue.iterdir())) == 1
    assert list(queue.iterdir()) == []


def test_without_a_queue_no_ticket_is_drawn(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCPLAB_INSTRUMENT")
    with turn():
        assert list(queue.iterdir()) == []


def test_two_places_are_for_two_at_a_time_with_processors_of_their_own(
    queue: Path, started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("two places need two processors")
    monkeypatch.setenv("TCPLAB_INSTRUMENT_PLACES", "2")
    people, shares = [], []
    for _ in range(2):
        people.append(started())
        assert said(people[-1]) == "works"
        shares.append(os.sched_getaffinity(people[-1].pid))
    assert len(shares[0]) == len(shares[1]) == len(cpus) // 2
    assert not shares[0] & shares[1]
    for before in (1, 2):
        people.append(started())
        assert said(people[-1]) == f"waits for {before}"
    first, second, third, fourth = people
    second.kill()  # whichever place is free is the next one's
    second.wait()
    works(third)
    assert os.sched_getaffinity(third.pid) == shares[1]
    finish(first)
    works(fourth)
    assert os.sched_getaffinity(fourth.pid) == shares[0]
    with monkeypatch.context() as alone:
        alone.setenv("TCPLAB_INSTRUMENT", str(queue.parent))
        with turn():
            assert len(os.sched_getaffinity(0)) == len(cpus) // 2
    assert os.sched_getaffinity(0) == cpus


@pytest.mark.parametrize("places", ["0", "many", "100000", "-1", ""])
def test_places_out_of_range(queue: Path, monkeypatch: pytest.MonkeyPatch, places: str) -> None:
    monkeypatch.setenv("TCPLAB_INSTRUMENT_PLACES", places)
    with pytest.raises(LabError, match=f"TCPLAB_INSTRUMENT_PLACES={places} must be"), turn():
        pass
    assert list(queue.iterdir()) == []


def test_a_directory_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(tmp_path / "missing"))
    with pytest.raises(LabError, match="install -d -m 1777"), turn():
        pass
