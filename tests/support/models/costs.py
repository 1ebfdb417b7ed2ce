"""Measure and predict how long a message and its answer take, by the way the message is sent."""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from tests.support.models.playground import SYSCTLS, play

from tcplab.lab import Lab
from tcplab.models import Call, Clock, NetworkPath, Peer, message_calls, message_cost
from tcplab.models.messages import MessageCost

WARM_UP: Final = 10
MEASURED: Final = 9
SETTLE_MS: Final = 60.0


class Cost(NamedTuple):
    """A way to send a message, and a way to acknowledge it."""

    writes: tuple[int, ...]
    option: str
    quickack: str


COSTS: Final = [
    Cost((2,) * 15, "default", "on"),
    Cost((2,) * 15, "default", "off"),
    Cost((2,) * 15, "default", "always"),
    Cost((2,) * 15, "no_delay", "on"),
    Cost((2,) * 15, "cork", "on"),
    Cost((2,) * 15, "msg_more", "on"),
    Cost((2,) * 15, "writev", "on"),
    Cost((4, 100), "default", "on"),
    Cost((100,), "default", "off"),
    Cost((1448, 100), "default", "off"),
    Cost((2896, 100), "default", "on"),
    Cost((1000, 1000), "default", "on"),
    Cost((600, 600, 600), "no_delay", "off"),
    Cost((1447, 1, 1448), "cork", "on"),
]


@dataclass(frozen=True)
class Measured:
    """The times of consecutive messages, without the warm-up, and their segments."""

    times_ms: list[float]  # from the first call of a message to the first call of the next
    segments: float  # data segments of the median message


def measure_costs(rtt_ms: float) -> list[Measured]:
    # Waiting for a round trip takes no CPU time, so several messages can wait together.
    with Lab(rtt_ms=rtt_ms, sysctls=SYSCTLS) as lab, ThreadPoolExecutor(7 if rtt_ms else 1) as pool:
        return list(pool.map(lambda cost: _measure(lab, cost), COSTS))


def _measure(lab: Lab, cost: Cost) -> Measured:
    body = (*message_calls(cost.writes, cost.option), Call("read", 2))
    setup = Call("nodelay", int(cost.option == "no_delay"), SETTLE_MS)
    size = sum(cost.writes)
    answering = Peer(quickack=cost.quickack, reply_every_bytes=size, reply_bytes=2)
    (played,) = play(lab, [(setup, *body * (WARM_UP + MEASURED + 1))], answering)
    starts = played.starts_ms[1 :: len(body)][WARM_UP : WARM_UP + MEASURED + 1]
    times = [later - earlier for earlier, later in pairwise(starts)]
    counts = [0] * (WARM_UP + MEASURED + 1)
    for segment in played.data:
        counts[segment.seq // size] += 1
    return Measured(times, statistics.median(counts[WARM_UP:-1]))


def predicted_cost(cost: Cost, rtt_ms: float, clock: Clock) -> MessageCost:
    return message_cost(
        cost.writes,
        cost.option,
        path=NetworkPath(rtt_ms=rtt_ms, clock=clock),
        peer=Peer(quickack=cost.quickack),
        warm_up=WARM_UP,
        messages=MEASURED,
    )
