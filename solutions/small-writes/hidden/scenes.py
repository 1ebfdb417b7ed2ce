"""Scenes of set small-writes: three causes of one slow message (see `tcplab draw`).

A client sends messages and waits for the reply to each. Whatever the cause, there are two messages
of two writes, one with a cork, and naps between messages, in an order of their own: the same calls
in every log. Which of them made data wait, only the capture tells.
"""

from __future__ import annotations

import random
from pathlib import Path

from tcplab.grading.captures import record_messages

ANSWER = "q6_reason"
CAUSES = ("application-idle", "corked", "held-by-nagle")
MSS_BYTES = 1448
#: Messages before the first special one: the server has stopped to acknowledge at once.
QUICK_FIRST = 4


def draw(rng: random.Random, cause: str) -> list[str]:
    """The calls of each message."""

    def small() -> int:
        return rng.randrange(20, 180)

    def nap() -> str:
        return f"sleep={rng.randrange(3, 22) / 1000}"

    long = f"sleep={rng.randrange(75, 150) / 1000}"
    # Behind a full segment nothing is held.
    harmless = [
        f"{rng.randrange(1, 3) * MSS_BYTES} {rng.choice(['', nap()])} {small()}" for _ in range(2)
    ]
    corked = f"cork=1 {small()} {small()} {long if cause == 'corked' else ''} cork=0"
    if cause == "held-by-nagle":
        harmless[1] = f"{small()} {small()}"
    elif cause == "application-idle":
        harmless[1] = f"{small()} {long} {small()}"
    special = [*harmless, corked, *(str(small()) for _ in range(rng.randrange(1, 5)))]
    rng.shuffle(special)
    quick = [str(small()) for _ in range(QUICK_FIRST + rng.randrange(7))]
    return [f"{nap() if rng.random() < 0.4 else ''} {each}" for each in [*quick, *special]]


def record(path: Path, scene: list[str]) -> None:
    """One capture on the client's host, and the log of the client's calls."""
    record_messages(path, scene, rtt_ms=10)
