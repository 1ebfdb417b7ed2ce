"""Define fixtures and hooks for all three tiers of tests (fast, lab and slow)."""

import gc
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.support import undisturbed
from tests.support.leftovers import nothing_outlives_the_session
from tests.support.needs import need, no_lab, skipped_without_lab
from tests.support.ordinary_user import as_ordinary_user

__all__ = ["as_ordinary_user", "nothing_outlives_the_session"]

# Examples have no deadline, because a busy machine may stall any of them. They are the same in each
# run, so that no run fails by chance. To try other examples, add --hypothesis-profile=search.
settings.register_profile("search", deadline=None)
settings.register_profile("tcplab", deadline=None, derandomize=True)
settings.load_profile("tcplab")

# Hide this module. Otherwise jsonschema would take 0.8 s to build a grammar that is never needed.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# When a test runs a notebook, its questions stay unanswered.
os.environ["TCPLAB_PREDICT"] = "skip"


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the terminal width that pytest-xdist gives its workers, so that no table is folded."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts() -> None:
    """Restore SIGINT, which a shell ignores for background jobs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Return a function that finds a program, or skips the test and names the package."""
    return need


# ---- what runs here ----


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raise some time limits, and leave out the tests marked `classroom` unless -m names them."""
    for item in items:
        # Grading is slow, and the first test that runs sanitized C code waits for its build.
        grades = item.path.parts[-3:-1] in (("lab", "grading"), ("slow", "grading"))
        patient = grades and item.get_closest_marker("timeout") is None
        if patient or "sanitized_directory" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(600))
    gc.freeze()  # the collected tests are never freed, so do not scan them
    if "classroom" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("classroom")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


# These wrappers are the innermost, so a skip that they raise passes through pytest's own plugins.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Skip a test that is marked `needs_lab` or uses the fixture `lab` if no lab can be made."""
    needs_lab = item.get_closest_marker("needs_lab") or "lab" in getattr(item, "fixturenames", ())
    if needs_lab and (why := no_lab()):
        pytest.skip(why)
    with skipped_without_lab():
        yield


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None]:
    """Skip a test that finds out by itself that no laboratory can be made."""
    with skipped_without_lab():
        yield


# ---- the summary ----

_MEASURED_AGAIN: Counter[str] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass a worker's list of repeated measurements to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["measured_again"] = dict(undisturbed.REPEATED)
    else:
        _MEASURED_AGAIN.update(undisturbed.REPEATED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect a worker's list of repeated measurements."""
    _MEASURED_AGAIN.update(getattr(node, "workeroutput", {}).get("measured_again", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the skipped tests, by missing package or other reason, and the repeated measurements."""
    skipped: Counter[str] = Counter()
    programs: defaultdict[str, set[str]] = defaultdict(set)
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        program, _, install = reason.partition(" is not installed: ")
        skipped[install or reason] += 1
        if install:
            programs[install].add(program)
    for area, count in skipped.most_common():
        names = f"{', '.join(sorted(programs[area]))} not installed: " if area in programs else ""
        terminalreporter.write_line(f"not tested here ({count}): {names}{area}")
    for why, count in _MEASURED_AGAIN.most_common():
        terminalreporter.write_line(f"measured again ({count}): {why}")


@pytest.fixture(scope="session", autouse=True)
def keeps_captures() -> Iterator[None]:
    """Keep recordings in the directory that TCPLAB_KEEP_CAPTURES names, for second_opinions.py."""
    if not (wanted := os.environ.get("TCPLAB_KEEP_CAPTURES")):
        yield
        return
    from tests.support.second_opinions import collecting

    directory = Path(wanted)
    directory.mkdir(parents=True, exist_ok=True)
    with collecting(directory):
        yield
