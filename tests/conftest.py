"""Shared fixtures and marks; and the check that no process outlives the tests."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

from tcplab.grading.course import import_jsonschema
from tcplab.lab import why_no_lab

#: A busy machine may stall any example: how long one takes is no verdict.
settings.register_profile("tcplab", deadline=None)
settings.load_profile("tcplab")

import_jsonschema()

# Notebooks that tests run have nobody who predicts.
os.environ["TCPLAB_SKIP_PREDICTIONS"] = "1"


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipe: pytest-xdist tells its workers a width, to which tables would be folded."""
    monkeypatch.delenv("COLUMNS", raising=False)


ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534
LESSON = "test_lesson_runs"


class Run(Protocol):
    """Runs a command to its end; its output is captured as text."""

    def __call__(
        self, command: Sequence[str], timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Finds a program of the machine, or skips the test and says which package brings it."""
    packages = {
        "ip": "iproute2",
        "nc": "netcat-openbsd",
        "nc.openbsd": "netcat-openbsd",
        "nc.traditional": "netcat-traditional",
        "capinfos": "wireshark-common",
        "dumpcap": "wireshark-common",
        "editcap": "wireshark-common",
    }

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed: apt install {packages.get(name, name)}")
        return found

    return find


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the search for cycles: it took two of five seconds, and finds nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # nor is it looked through later, in each worker
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The more slow tests a file has the sooner it comes: a long one would end last.

    Lessons wait for most of their time, so they come one by one between the files, which compute.
    `make test` tells pytest-xdist to keep this order.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    lessons = [[item] for item in items if item.name.startswith(LESSON)]
    others = [item for item in items if not item.name.startswith(LESSON)]
    others.sort(key=lambda item: -slow[item.path])
    files = [list(group) for _, group in itertools.groupby(others, lambda item: item.path)]
    in_turn = itertools.zip_longest(files, lessons, fillvalue=list[pytest.Item]())
    items[:] = itertools.chain.from_iterable(itertools.chain.from_iterable(in_turn))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files stay together, as --dist loadfile says.

    But the lessons take minutes, one by one, and the demos have a server of their own.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            if test.startswith("test_demo_from"):
                return f"{file}::{test.partition('[')[0]}"
            return nodeid if test.startswith(LESSON) else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@functools.cache
def _why_no_lab() -> str | None:
    return why_no_lab()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what is marked `needs_lab` where no laboratory can be made, before any fixture runs."""
    if item.get_closest_marker("needs_lab") and (why := _why_no_lab()):
        pytest.skip(f"NO LAB: {why}")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts() -> None:
    """Also where the tests run in a shell's background: those start with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ---- leftovers ----


@pytest.fixture(scope="session", autouse=True)
def keeps_captures() -> Iterator[None]:
    """Keeps what the tests record, for tests/second_opinions.py, where the environment asks."""
    wanted = os.environ.get("TCPLAB_KEEP_CAPTURES")
    if not wanted:
        yield
        return
    from tests.second_opinions import collecting

    directory = Path(wanted)
    directory.mkdir(parents=True, exist_ok=True)
    with collecting(directory):
        yield


@pytest.fixture(scope="session", autouse=True)
def alembic_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Asks alembic once for its version, as nbgrader does, two seconds long, per gradebook."""
    own = Path(sys.executable).with_name("alembic")
    if not own.is_file():
        return
    script = tmp_path_factory.mktemp("programs") / "alembic"
    script.write_text(f"""#!/bin/sh
[ "$3" = heads ] || exec '{own}' "$@"
[ -s "$0.heads" ] || {{ '{own}' "$@" >"$0.$$" && mv "$0.$$" "$0.heads"; }}
exec cat "$0.heads"
""")
    script.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([str(script.parent), os.environ["PATH"]])


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_session() -> Iterator[None]:
    """Fails at the end of the session when a process that a test started is still there."""
    # Orphans and grandchildren inherit the environment too: whoever carries the mark is ours.
    mark = f"TCPLAB_TEST_SESSION={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    os.environ[name] = value
    yield
    # The server of the grading's pool lives as long as its owner, and that is this session.
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # CPython: for unit tests
    deadline = time.monotonic() + 10
    while (left := _processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "these processes outlived the tests:\n" + "\n".join(left)


def _processes_with(mark: str) -> list[str]:
    """PID and command line of each live process, but this one, with the mark in its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                # Python's own, of a process that has made a lock (as tqdm does, since 3.14): it
                # ends when that process, which is us, does.
                if "multiprocessing.resource_tracker" not in command or not _is_child(entry):
                    found.append(f"{entry.name}: {command}")
        except OSError:  # gone meanwhile, or another user's and so not ours
            continue
    return found


def _is_child(entry: Path) -> bool:
    return f"\nPPid:\t{os.getpid()}\n" in (entry / "status").read_text()


# ---- the ordinary user ----


@pytest.fixture(scope="session")
def as_ordinary_user() -> Iterator[Run]:
    """Runs commands without any privilege, whoever runs the tests, with .venv first on the PATH.

    Root becomes the user `nobody`. Where others may not enter the directory that the course is in,
    such as root's home, they are let in within a mount namespace of their own.
    """
    with tempfile.TemporaryDirectory(prefix="tcplab-home-") as home:
        environment = os.environ | {
            "HOME": home,
            "TMPDIR": home,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            # Nobody may write beside root's sources.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        prefix: list[str] = []
        if os.getuid() == 0:
            os.chown(home, NOBODY, NOBODY)
            prefix = [*_let_in(ROOT, Path(sys.base_prefix)), *_become_nobody()]

        def run(command: Sequence[str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*prefix, *command],
                env=environment,
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )

        trial = run(["python", "-c", ""])
        if trial.returncode:
            pytest.skip(f"no ordinary user can run .venv here: {trial.stderr.strip()}")
        yield run


def _become_nobody() -> list[str]:
    user = str(NOBODY)
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--bounding-set=-all"]


def _let_in(*directories: Path) -> list[str]:
    """The prefix of a command that has to reach directories below one that is closed to others."""
    hidden = {each: closed for each in directories if (closed := _closed_ancestor(each))}
    if not hidden:
        return []
    # An open descriptor leads to what was there before the tmpfs, unless mount resolves its path.
    steps = [f"exec {fd}<'{each}'" for fd, each in enumerate(hidden, start=3)]
    steps += [f"mount -t tmpfs -o mode=755 tmpfs '{closed}'" for closed in set(hidden.values())]
    for fd, each in enumerate(hidden, start=3):
        # The directories in it and not itself, for it may be the one that is closed.
        for child in (entry for entry in each.iterdir() if entry.is_dir()):
            steps.append(f"mkdir -p '{child}'")
            source = f"/proc/self/fd/{fd}/{child.name}"
            steps.append(f"mount --no-canonicalize --bind '{source}' '{child}'")
        steps.append(f"exec {fd}<&-")
    script = "\n".join(["set -e", *steps, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def _closed_ancestor(directory: Path) -> Path | None:
    """The outermost directory on the way that others may not enter."""
    for each in [*reversed(directory.parents), directory]:
        if not each.stat().st_mode & 0o001:
            return each
    return None
