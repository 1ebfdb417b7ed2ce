"""Processes found by a mark in their environment, and helpers that make and end laboratories."""

from __future__ import annotations

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
    """Waits for something that has no event; returns what the condition returned."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return found


def processes_with(mark: str) -> list[tuple[int, str]]:
    """Return PID and name of each other process that inherited the mark, NAME=VALUE."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")  # empty for a zombie
            if mark.encode() in environment and entry.name != str(os.getpid()):
                found.append((int(entry.name), (entry / "comm").read_text().strip()))
        except OSError:
            continue
    return found


def descendants(pid: int) -> Iterator[int]:
    """Yield the children of a process, their children, and so on."""
    with suppress(FileNotFoundError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from descendants(child)


_SEQUENCE = """
import json, os, resource, sys, threading, time
from tcplab import Lab

def descriptors():
    for each in os.scandir("/proc/self/fd"):
        # From its first callback on, libffi 3.5 keeps its own file open.
        if "/libffi.so" not in os.path.realpath(each.path):
            yield each.name

def left():
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    return [len(list(descriptors())), len(children), threading.active_count()]

def settled(wanted):  # what the kernel frees and a thread reaps, it does a little later
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
    """Make and close laboratories in one process, behind a prefix of its command line.

    Returns its descriptors, children and threads "before", after the "first" five and "after" all,
    and "grown_mib": its memory since the first five.
    """
    done = completed([*prefix, sys.executable, "-c", _SEQUENCE, str(count)], check=True)
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


_OWNER = """
import sys, tcplab
made = [getattr(tcplab, sys.argv[1])() for _ in range(int(sys.argv[2]))]
for each in made:
    # A process that leaves its session is found in a laboratory only.
    each.client.start(["sh", "-c", sys.argv[3] + "sleep 300 & sleep 300"])
    each.server.start(["sleep", "300"])
print("ready", flush=True)
sys.stdin.read()
"""


def kill_owner(kind: str, count: int, mark: str, *, processes: int) -> None:
    """End a process that owns laboratories or Loopbacks by SIGKILL.

    All its processes, at least `processes`, have the mark, and would run for five minutes.
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
