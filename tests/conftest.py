"""Fixtures and checks of the three tiers: fast (pure), lab (this kernel), slow (all else)."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.support import undisturbed
from tests.support.ordinary_user import as_ordinary_user

from tcplab import machine
from tcplab.grading.course import import_jsonschema
from tcplab.lab import why_no_lab

__all__ = ["as_ordinary_user"]

# The time an example takes says nothing: a busy machine may stall any of them.
settings.register_profile("tcplab", deadline=None)
settings.load_profile("tcplab")

import_jsonschema()

# Nobody answers the questions of a notebook that a test runs.
os.environ["TCPLAB_SKIP_PREDICTIONS"] = "1"


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print tables unfolded: pytest-xdist gives its workers a terminal width."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts() -> None:
    """Restore SIGINT, which is ignored if the tests run in a shell's background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Return a function that finds a program, or skips the test and names the package."""

    def find(name: str) -> str:
        if why := machine.lacking(name):
            pytest.skip(why)
        return machine.find(name) or name

    return find


# ---- what runs here ----


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `classroom`, unless -m names them."""
    gc.freeze()  # the collected tests stay to the end: no need to look through them again
    if "classroom" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("classroom")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `needs_lab` where no laboratory can be made, before any fixture runs."""
    if item.get_closest_marker("needs_lab") and (why := no_lab()):
        pytest.skip(why)


no_lab = functools.cache(why_no_lab)


# ---- the summary ----

_MEASURED_AGAIN: Counter[str] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the repeated measurements of a worker to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["measured_again"] = dict(undisturbed.REPEATED)
    else:
        _MEASURED_AGAIN.update(undisturbed.REPEATED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect what a worker measured again."""
    _MEASURED_AGAIN.update(getattr(node, "workeroutput", {}).get("measured_again", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line per reason to skip, and one per measurement that was repeated."""
    skipped = Counter(
        re.sub(r"^Skipped: ", "", report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"not tested here ({count}): {reason}")
    for why, count in sorted(_MEASURED_AGAIN.items()):
        terminalreporter.write_line(f"measured again ({count}): {why}")


# ---- leftovers ----


@pytest.fixture(scope="session", autouse=True)
def keeps_captures() -> Iterator[None]:
    """Keep what the tests record in the directory TCPLAB_KEEP_CAPTURES, for second_opinions."""
    if not (wanted := os.environ.get("TCPLAB_KEEP_CAPTURES")):
        yield
        return
    from tests.support.second_opinions import collecting

    directory = Path(wanted)
    directory.mkdir(parents=True, exist_ok=True)
    with collecting(directory):
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_session() -> Iterator[None]:
    """Fail at the end of the session if a process that a test started is still running."""
    # Orphans and grandchildren inherit the environment, and the mark with it.
    mark = f"TCPLAB_TEST_SESSION={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    os.environ[name] = value
    yield
    # The fork server of the grading's pool lives as long as its owner, which is this session.
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # CPython: for unit tests
    deadline = time.monotonic() + 10
    while (left := _processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "these processes outlived the tests:\n" + "\n".join(left)


def _processes_with(mark: str) -> list[str]:
    """PID and command line of each other live process with the mark in its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                ours = f"\nPPid:\t{os.getpid()}\n" in (entry / "status").read_text()
                # Python's own tracker of locks (tqdm makes one, since 3.14) ends when we do.
                if not (ours and "multiprocessing.resource_tracker" in command):
                    found.append(f"{entry.name}: {command}")
        except OSError:  # it has ended, or belongs to another user
            continue
    return found
