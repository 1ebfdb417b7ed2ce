"""Looks on while a class works: who waits to measure, and how much memory everybody takes.

As root, from outside: nothing of it runs in a learner's server.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.load.accounts import processes_of

LOOK_S = 0.02
MEMORY_EVERY_S = 10.0


@dataclass
class Turn:
    """One measurement of one learner, in seconds of CLOCK_MONOTONIC."""

    uid: int
    came_s: float
    #: When the lock was its own; when it left if it never was.
    began_s: float
    left_s: float

    @property
    def waited_s(self) -> float:
        """From coming to beginning."""
        return self.began_s - self.came_s

    @property
    def held_s(self) -> float:
        """From beginning to leaving."""
        return self.left_s - self.began_s


class Watch:
    """Looks on within a with statement.

    Attributes:
        turns: of those who measured or wanted to, in the order in which they left.
        memory_mb: user id -> the most that the user's processes took at a time.
    """

    def __init__(self, directory: Path, uids: set[int]) -> None:
        self._directory = directory
        self._uids = uids
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=each, daemon=True)
            for each in (self._look_at_lock, self._look_at_memory)
        ]
        self.turns: list[Turn] = []
        self.memory_mb: dict[int, float] = defaultdict(float)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _look_at_lock(self) -> None:
        present: dict[int, Turn] = {}
        while not self._over.wait(LOOK_S):
            if self._directory.is_dir():  # else the hub is still starting
                found = holders(Path("/proc/locks").read_text(), self._directory.stat().st_ino)
                self.turns += follow(present, found, time.monotonic())
        self.turns += follow(present, {}, time.monotonic())

    def _look_at_memory(self) -> None:
        while not self._over.wait(MEMORY_EVERY_S):
            for uid, megabytes in memory_mb(self._uids).items():
                self.memory_mb[uid] = max(self.memory_mb[uid], megabytes)


def holders(locks: str, inode: int) -> dict[int, bool]:
    """Process -> whether it holds the lock on an inode, or waits for it (see proc_locks(5))."""
    found = {}
    for line in locks.splitlines():
        words = line.split()
        waits = words[1] == "->"
        pid, place = words[4 + waits], words[5 + waits]
        if place.endswith(f":{inode}"):
            found[int(pid)] = not waits
    return found


def follow(present: dict[int, Turn], found: dict[int, bool], now_s: float) -> list[Turn]:
    """Bring the turns of the processes that are present up to date; return those that ended."""
    for pid, holds in found.items():
        if pid not in present:
            try:
                present[pid] = Turn(Path(f"/proc/{pid}").stat().st_uid, now_s, now_s, now_s)
            except FileNotFoundError:
                continue
        turn = present[pid]
        turn.left_s = now_s
        if not holds:
            turn.began_s = now_s
    return [present.pop(pid) for pid in present.keys() - found.keys()]


def memory_mb(uids: set[int]) -> dict[int, float]:
    """User id -> proportional set size of all of the user's processes (what they share, shared)."""
    found = dict.fromkeys(uids, 0.0)
    for pid, uid in processes_of(uids).items():
        try:
            lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
        except OSError:  # ended meanwhile
            continue
        kib = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        found[uid] += kib * 1024 / 1e6
    return found
