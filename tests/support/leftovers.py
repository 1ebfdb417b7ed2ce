"""Find processes that outlive the tests that started them."""

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest
from tests.support.lifetime import processes_with


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
    while (left := _left(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "these processes outlived the tests:\n" + "\n".join(left)


def _left(mark: str) -> list[str]:
    """Return the PID and command line of each marked process, except our own resource tracker."""
    survivors = []
    for pid, _name in processes_with(mark):
        with contextlib.suppress(OSError):  # the process has ended
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            ours = f"\nPPid:\t{os.getpid()}\n" in Path(f"/proc/{pid}/status").read_text()
            # Python's resource tracker (which tqdm starts, since 3.14) ends with this process.
            if not (ours and "multiprocessing.resource_tracker" in command):
                survivors.append(f"{pid}: {command}")
    return survivors
