"""Scenes for the problem set "small-writes": three causes of a slow message (see `tcplab draw`).

A client sends messages and waits for the reply to each. In every scene there are two messages of
two writes, a message with a cork, and pauses between messages, in a random order. Every log has the
same kinds of calls. The slow message takes as long as a delayed ACK, whatever the cause, and all
other times and sizes differ. So only the capture shows which call made data wait.
"""

from __future__ import annotations

import random
from pathlib import Path

from tcplab.grading.assignment import load_module

record_messages = load_module(
    Path(__file__).parents[2] / "messages.py", "tcplab_messages_of_small_writes"
).record_messages

ANSWER = "q6_reason"
CAUSES = ("application-idle", "corked", "held-by-nagle")
MSS_BYTES = 1448
#: Minimum number of quick messages at the start, which makes the server delay its ACKs.
QUICK_FIRST = 4


def draw(rng: random.Random, cause: str) -> tuple[int, list[str]]:
    """Draw the round-trip time in ms, and the calls of each message, for this cause."""
    rtt_ms = rng.randrange(8, 40)

    def small(most: int = 180) -> int:
        return rng.randrange(20, most)

    def nap() -> str:
        return f"sleep={rng.randrange(2, 30) / 1000}"

    # A delayed ACK arrives after the round-trip time and 40 ms or a little more.
    long = f"sleep={rtt_ms / 1000 + rng.uniform(0.0405, 0.0445):.4f}"
    full = [f"{rng.randrange(1, 3) * MSS_BYTES}" for _ in range(3)]
    # Behind a full segment, Nagle's algorithm holds nothing.
    harmless = [f"{size} {rng.choice(['', nap()])} {small()}" for size in full[:2]]
    corked = f"cork=1 {full[2]} {small()} {long if cause == 'corked' else ''} cork=0"
    if cause == "held-by-nagle":
        harmless[1] = f"{small()} {small()}"
    elif cause == "application-idle":
        harmless[1] = f"{full[1]} {long} {small()}"
    special = [*harmless, corked, *(str(small(1400)) for _ in range(rng.randrange(1, 9)))]
    rng.shuffle(special)
    # The server acknowledges two full segments at once, so its ACKs do not reveal the cause.
    large = rng.random() / 2
    quick = [
        str(small(1400) + 2 * MSS_BYTES * (rng.random() < large))
        for _ in range(QUICK_FIRST + rng.randrange(20, 60))
    ]
    often = rng.random()
    return rtt_ms, [
        f"{nap() if rng.random() < often else ''} {message}" for message in [*quick, *special]
    ]


def record(path: Path, scene: tuple[int, list[str]]) -> None:
    """Run the transfer, and save a capture of the client's interface and the client's calls."""
    rtt_ms, messages = scene
    record_messages(path, messages, rtt_ms=rtt_ms)
