"""Looks on while a class works: who waits for the instrument, and how much memory everybody takes.

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

from tests.deploy.load.accounts import processes_of

LOOK_S = 0.02
MEMORY_EVERY_S = 10.0


@dataclass
class Ticket:
    """One learner's turn at the instrument, in seconds of CLOCK_MONOTONIC."""

    uid: int
    came_s: float
    left_s: float
    began_s: float = 0.0

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
        tickets: of the queue, in the order in which they were taken.
        memory_mb: user id -> the most that the user's processes took at a time.
    """

    def __init__(self, queue: Path, uids: set[int]) -> None:
        self._queue = queue
        self._uids = uids
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=each, daemon=True)
            for each in (self._look_at_queue, self._look_at_memory)
        ]
        self._seen: dict[str, Ticket] = {}
        self.tickets: list[Ticket] = []
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
        self.tickets = in_turn([self._seen[name] for name in sorted(self._seen)])

    def _look_at_queue(self) -> None:
        while not self._over.wait(LOOK_S):
            if not self._queue.is_dir():  # the hub is still starting
                continue
            now_s = time.monotonic()
            for path in self._queue.iterdir():
                if path.name in self._seen:
                    self._seen[path.name].left_s = now_s
                    continue
                try:
                    uid = path.stat().st_uid
                except FileNotFoundError:
                    continue
                # A ticket's name begins with the time when it was taken.
                came_s = int(path.name.partition("-")[0]) / 1e9
                self._seen[path.name] = Ticket(uid, came_s, now_s)

    def _look_at_memory(self) -> None:
        while not self._over.wait(MEMORY_EVERY_S):
            for uid, megabytes in memory_mb(self._uids).items():
                self.memory_mb[uid] = max(self.memory_mb[uid], megabytes)


def in_turn(tickets: list[Ticket]) -> list[Ticket]:
    """Sets when each began: when it came, or when all who came before it had left."""
    free_s = 0.0
    for ticket in tickets:
        ticket.began_s = min(max(ticket.came_s, free_s), ticket.left_s)
        free_s = max(free_s, ticket.left_s)
    return tickets


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
