"""Scenes for the problem set "cork": three causes of a slow last message (see `tcplab draw`).

A client sends each message in pieces under one or two corks, and waits for the reply. In every
scene one earlier message is sent by the same calls as the last one, except for sizes and pauses,
and at least four others pause under the cork.
"""

from __future__ import annotations

import random
from pathlib import Path

from tcplab.grading.assignment import load_module

record_messages = load_module(
    Path(__file__).parents[2] / "messages.py", "tcplab_messages_of_cork"
).record_messages

ANSWER = "q6_reason"
CAUSES = ("nagle-under-the-cork", "pulled-late", "timer-before-the-pull")
MSS_BYTES = 1448


def draw(rng: random.Random, cause: str) -> tuple[int, list[str]]:
    """Draw the round-trip time in ms, and the calls of each message, for this cause."""
    rtt_ms = rng.randrange(15, 90)

    def small() -> int:
        return rng.randrange(15, 400)

    def quick() -> str:
        pieces = " ".join(str(small()) for _ in range(rng.randrange(2, 6)))
        return f"cork=1 {pieces} cork=0"

    def nap() -> str:
        return f"sleep={rng.choice([rng.uniform(0.04, 0.14), rng.uniform(0.14, 0.5)]):.4f}"

    # A small first part is still unacknowledged when the second part is complete, so Nagle holds
    # the second part. Behind a full segment, the second part would not wait.
    twice = "cork=1 {} cork=0 cork=1 {} {} {} {} cork=0"
    like_the_last = twice.format(MSS_BYTES, small(), "", small(), "")
    full_then_nap = [
        f"cork=1 {MSS_BYTES} {nap()} {small()} cork=0" for _ in range(rng.randrange(4, 10))
    ]
    naps = ["", ""]
    if cause == "pulled-late":
        naps[rng.randrange(2)] = f"sleep={rng.uniform(0.06, 0.165) + rtt_ms / 1000:.4f}"
    elif cause == "timer-before-the-pull":
        naps[1] = f"sleep={rng.uniform(0.42, 0.5) + 1.5 * rtt_ms / 1000:.4f}"
    before = [like_the_last, *full_then_nap, *(quick() for _ in range(rng.randrange(15, 50)))]
    rng.shuffle(before)
    return rtt_ms, [*before, twice.format(small(), small(), naps[0], small(), naps[1])]


def record(path: Path, scene: tuple[int, list[str]]) -> None:
    """Run the transfer, and save a capture of the client's interface and the client's calls."""
    rtt_ms, messages = scene
    record_messages(path, messages, rtt_ms=rtt_ms)
