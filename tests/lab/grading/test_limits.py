"""A process in the sandbox cannot get around its limits, as root or as an ordinary user."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.grading import greedy
from tests.support.grading.greedy import GREEDY
from tests.support.nonempty import each
from tests.support.ordinary_user import Run

from tcplab.experiments.files import removed_on_exit
from tcplab.grading import sandbox
from tcplab.grading.sandbox import Limits
from tcplab.lab import Lab

pytestmark = pytest.mark.needs_lab


@pytest.fixture(scope="module")
def ordinary(as_ordinary_user: Run) -> dict[str, list[str | None]]:
    """Return how each greedy program ended when run by an ordinary user."""
    done = as_ordinary_user(["python", str(Path(greedy.__file__)), *GREEDY], timeout_s=300)
    assert done.returncode == 0, done.stderr
    endings: dict[str, list[str | None]] = json.loads(done.stdout)
    return endings


@pytest.mark.parametrize("name", GREEDY)
def test_each_greedy_program_is_stopped(name: str) -> None:
    expected = GREEDY[name].stopped_by, GREEDY[name].output
    assert greedy.ended(greedy.run(name)) == expected
    if not GREEDY[name].with_namespaces:
        with Lab() as lab:
            assert greedy.ended(greedy.run(name, lab)) == expected


@pytest.mark.parametrize("name", GREEDY)
def test_greedy_program_of_an_ordinary_user_is_stopped(
    name: str, ordinary: dict[str, list[str | None]]
) -> None:
    expected = [GREEDY[name].stopped_by, GREEDY[name].output]
    ends = {key: value for key, value in ordinary.items() if key.startswith(f"{name} ")}
    for place, end in each(ends.items()):
        assert end == expected, place


HONEST = """
import ctypes, multiprocessing, os, resource, socket, threading
from multiprocessing import shared_memory
import matplotlib.pyplot as plt, numpy as np, scapy.all
from tcplab.lab import Lab
os.sched_setaffinity(0, os.sched_getaffinity(0))
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
for each in [threading.Thread(target=np.ones, args=(10,)) for _ in range(8)]:
    each.start()
plt.plot(np.arange(10)); plt.savefig("figure.png")
block = shared_memory.SharedMemory(create=True, size=1 << 20); block.close(); block.unlink()
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
counter = multiprocessing.Value("i", 3)
callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 7)
assert callback() == 7
listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(100)]
with Lab(clients=3) as lab, Lab(rtt_ms=2) as other:
    with other.client.capture() as capture:
        assert "server" in lab.client.run(["cat", "/etc/hosts"]).stdout
        other.client.run(["sh", "-c", "ps ax >/dev/null; true"])
print("all of it")
"""


def test_honest_tools_work_within_the_limits() -> None:
    outcome = sandbox.run([sys.executable, "-c", HONEST], lab_allowed=True)
    assert (outcome.stopped_by, outcome.output) == (None, b"all of it\n"), outcome.errors.decode()


def test_thousand_open_files_are_within_the_limits() -> None:
    source = "kept = [open('/dev/null') for _ in range(1000)]; import time; time.sleep(0.3)"
    limits = Limits(memory_bytes=512 << 20, processes=16)
    assert sandbox.run([sys.executable, "-c", source], limits=limits).ok


GRADER_IN_A_GROUP = """
import sys
from tcplab.grading import sandbox

outcome = sandbox.run([sys.executable, "-c", "x = b'1' * (400 << 20)"])
print(outcome.signal, outcome.stopped_by, sandbox.run(["/bin/true"]).ok)
"""


@contextmanager
def control_group(memory_bytes: int) -> Iterator[Path]:
    """Create a control group with this much memory; yield the file that moves processes into it."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        root, limit = Path("/sys/fs/cgroup"), "memory.max"
        if controllers:
            root, limit = root / "memory", "memory.limit_in_bytes"
        if controllers and "memory" not in controllers.split(","):
            continue
        own = root / path.lstrip("/")
        for parent in (own, own.parent):
            group = parent / f"tcplab-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            with removed_on_exit(group):
                try:
                    (group / limit).write_text(str(memory_bytes))
                except OSError:
                    continue
                yield group / "cgroup.procs"
                return
    pytest.skip("CONTROL GROUP NOT TESTED: this user may not make one with a memory limit here")


def test_in_a_control_group_the_submission_ends_and_not_the_grader() -> None:
    """The grader and the submission share a group's limit, but only the submission is killed."""
    with control_group(256 << 20) as processes:
        join = f"echo 0 > '{processes}' && exec \"$@\""
        done = completed(["sh", "-c", join, "sh", sys.executable, "-c", GRADER_IN_A_GROUP])
    assert done.stdout.split() == ["SIGKILL", "None", "True"], done.stderr
