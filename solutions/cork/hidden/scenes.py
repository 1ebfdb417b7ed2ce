"""Scenes of set cork: three causes of a slow last message (see `tcplab draw`).

A client sends messages in pieces, between a cork set and a cork pulled, and waits for the reply to
each. Whatever the cause, the last message makes the same calls, and so does a quick one before it.
"""

from __future__ import annotations

import random
from pathlib import Path

from tcplab.grading.captures import record_messages

ANSWER = "q6_reason"
CAUSES = ("nagle-under-the-cork", "pulled-late", "timer-before-the-pull")
MSS_BYTES = 1448


def draw(rng: random.Random, cause: str) -> list[str]:
    """The calls of each message."""

    def small() -> int:
        return rng.randrange(15, 400)

    def quick() -> str:
        pieces = " ".join(str(small()) for _ in range(rng.randrange(2, 6)))
        return f"cork=1 {pieces} cork=0"

    # The first part leaves when the cork is pulled, and is not yet acknowledged when the second is
    # there; behind a full segment that one need not wait.
    twice = "cork=1 {} cork=0 cork=1 {} {} {} {} cork=0"
    like_the_last = twice.format(MSS_BYTES, small(), "", small(), "")
    full_then_nap = f"cork=1 {MSS_BYTES} sleep={rng.randrange(90, 450) / 1000} {small()} cork=0"
    naps = ["", ""]
    if cause == "pulled-late":
        naps[rng.randrange(2)] = f"sleep={rng.randrange(90, 165) / 1000}"
    elif cause == "timer-before-the-pull":
        naps[1] = f"sleep={rng.randrange(440, 520) / 1000}"
    before = [like_the_last, full_then_nap, *(quick() for _ in range(rng.randrange(3, 10)))]
    rng.shuffle(before)
    return [*before, twice.format(small(), small(), naps[0], small(), naps[1])]


def record(path: Path, scene: list[str]) -> None:
    """One capture on the client's host, and the log of the client's calls."""
    record_messages(path, scene, rtt_ms=20)
