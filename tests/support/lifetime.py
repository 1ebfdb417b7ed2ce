"""Find processes, for example by a mark in their environment, and make and end laboratories."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.commands import completed


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Return the value of the condition as soon as it holds; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.02)
    return value


def processes() -> Iterator[tuple[Path, list[str]]]:
    """Yield the folder in /proc and the command line of every process except this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name != str(os.getpid()):
            with suppress(OSError):  # the process has ended, or is not readable
                yield folder, (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]


def processes_with(mark: str) -> list[tuple[int, str]]:
    """Return the PID and name of every other process whose environment has the mark, NAME=VALUE."""
    matches = []
    for folder, _command in processes():
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                matches.append((int(folder.name), (folder / "comm").read_text().strip()))
    return matches


def descendants(pid: int) -> Iterator[int]:
    """Yield the children of a process, their children, and so on."""
    with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from descendants(child)


_SEQUENCE = """
import json, os, resource, sys, threading, time
from tcplab import Lab

def descriptors():
    for entry in os.scandir("/proc/self/fd"):
        # From its first callback on, libffi 3.5 keeps its own file open.
        if "/libffi.so" not in os.path.realpath(entry.path):
            yield entry.name

def left():
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    return [len(list(descriptors())), len(children), threading.active_count()]

def settled(wanted):  # the kernel frees, and a thread reaps, a little later
    for _ in range(2000):
        if left() == wanted:
            break
        time.sleep(0.01)
    return left()

def memory_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before = left()
for _ in range(5):
    Lab().close()
first = settled(before), memory_mib()
for _ in range(int(sys.argv[1]) - 5):
    Lab().close()
print(json.dumps({"before": before, "after": settled(before), "first": first[0],
                  "grown_mib": memory_mib() - first[1]}))
"""


def in_sequence(count: int, prefix: Sequence[str] = ()) -> dict[str, Any]:
    """Make and close `count` laboratories in one process; return the resources that it holds.

    These are descriptors, children and threads "before", after the "first" five and "after" all
    laboratories, and "grown_mib", the growth of the memory since the first five.
    """
    done = completed([*prefix, sys.executable, "-c", _SEQUENCE, str(count)], check=True)
    assert done.stderr == ""
    resources: dict[str, Any] = json.loads(done.stdout)
    return resources


_OWNER = """
import sys, tcplab
made = [getattr(tcplab, sys.argv[1])() for _ in range(int(sys.argv[2]))]
for lab in made:
    # A process that leaves its session is found in a laboratory only.
    lab.client.start(["sh", "-c", sys.argv[3] + "sleep 300 & sleep 300"])
    lab.server.start(["sleep", "300"])
print("ready", flush=True)
sys.stdin.read()
"""


def start_and_kill(kind: str, count: int, mark: str, *, processes: int) -> None:
    """Start a process that makes laboratories or Loopbacks, and kill it with SIGKILL.

    Args:
        kind: "Lab" or "Loopback".
        count: how many of them the process makes.
        mark: NAME=VALUE in the environment of the process and its descendants, which run for 300 s.
        processes: how many processes must have the mark before the kill.
    """
    name, value = mark.split("=")
    escape = "setsid " if kind == "Lab" else ""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, kind, str(count), escape],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, name: value},
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        until(lambda: len(processes_with(mark)) >= processes)
        owner.kill()
