"""The processes that a panel's run starts, found by a mark in their environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def processes_with(mark: str) -> list[tuple[int, str]]:
    """PID and name of each process, but this one, that has the mark in its environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((int(entry.name), (entry / "comm").read_text().strip()))
        except OSError:
            continue
    return [each for each in found if each[0] != os.getpid()]


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Waits for something that has no event of its own."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found
