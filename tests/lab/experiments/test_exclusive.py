"""On a shared machine, only one experiment measures at a time, even if one is killed."""

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcplab import LabError
from tcplab.experiments.exclusive import exclusive

# The learner waits for the lock, reports each event in a line, and measures until it reads a line.
LEARNER = """
import sys
from tcplab.experiments.exclusive import exclusive
with exclusive(lambda: print("waits", flush=True)):
    print("measures", flush=True)
    sys.stdin.readline()
print("done", flush=True)
"""

Learner = subprocess.Popen[str]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(tmp_path))
    return tmp_path


@pytest.fixture
def learners(directory: Path) -> Iterator[list[Learner]]:
    """Start four learners one after the other. The first measures, and the rest wait."""
    people: list[Learner] = []
    for number in range(4):
        learner = subprocess.Popen(
            [sys.executable, "-c", LEARNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        people.append(learner)
        assert next_line(learner) == ("waits" if number else "measures")
        while number and not blocked(learner):
            time.sleep(0.01)
    yield people
    for learner in people:
        learner.kill()
        learner.communicate()
    assert list(directory.iterdir()) == []


def next_line(learner: Learner) -> str:
    assert learner.stdout is not None
    return learner.stdout.readline().strip()


def blocked(learner: Learner) -> bool:
    """Return whether the process is in the kernel's queue for a lock."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and str(learner.pid) in line.split() for line in lines)


def finish(learner: Learner) -> None:
    assert learner.stdin is not None
    learner.stdin.write("\n")
    learner.stdin.flush()
    assert next_line(learner) == "done"


def kill(learner: Learner) -> None:
    learner.kill()
    learner.wait()


def waits(learner: Learner) -> bool:
    """Return whether the process prints nothing for a while.

    Do not use blocked() here: /proc/locks may lack entries if it changes while it is read.
    """
    assert learner.stdout is not None
    return select.select([learner.stdout], [], [], 0.1) == ([], [], [])


def test_one_measures_at_a_time_in_order_despite_kills(learners: list[Learner]) -> None:
    first, second, third, fourth = learners
    kill(second)  # a learner that is waiting
    assert all(map(waits, (third, fourth)))
    finish(first)
    assert next_line(third) == "measures"
    assert waits(fourth)
    kill(third)  # the learner that is measuring
    assert next_line(fourth) == "measures"


def test_nobody_waits_without_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCPLAB_INSTRUMENT", raising=False)
    with exclusive(lambda: pytest.fail("waits without a directory to lock")):
        pass


@pytest.mark.usefixtures("directory")
def test_an_experiment_within_another_does_not_wait() -> None:
    waited: list[str] = []
    with exclusive(lambda: waited.append("outer")), exclusive(lambda: waited.append("inner")):
        pass
    with exclusive(lambda: waited.append("next")):
        pass
    assert waited == []


def test_missing_lock_directory_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TCPLAB_INSTRUMENT", str(tmp_path / "missing"))
    with pytest.raises(LabError, match="install -d -m 755"), exclusive(lambda: None):
        pass
