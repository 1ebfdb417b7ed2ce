"""The possible outcomes of a schedule of calls when the machine is a bit late."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tcplab.models import Call, NetworkPath, Peer, simulate
from tcplab.models.conversation import Simulation
from tcplab.models.kernel import Clock

#: Number of draws in which each call is a bit early or late. The random seed is fixed. Half of the
#: draws may also change the path.
_DRAWS: Final = 24
_LEAST_LATE_MS: Final = 0.01


def outcomes(
    calls: Sequence[Call],
    path: NetworkPath | None = None,
    peer: Peer | None = None,
    *,
    late_ms: float = 2.0,
) -> tuple[Simulation, ...]:
    """Return the simulations whose segments differ when the machine or the wire is a bit late.

    A single simulation means that the outcome is settled. Several mean a race between two events,
    such as a write and an ACK, or a read and the next segment. Chance decides such a race.

    Args:
        calls: the client's calls.
        path: the wire and the machines at its ends; by default a NetworkPath().
        peer: the server's behaviour; by default a Peer().
        late_ms: the most by which a reader's wake-up or a packet's arrival is late, and by which a
            call is early or late.
    """
    path = path or NetworkPath()
    variants = (
        path,
        replace(path, wakeup_ms=0.0),
        replace(path, wakeup_ms=path.wakeup_ms + late_ms),
        # The calls are late, which is as if the ACKs were early.
        replace(path, rtt_ms=max(path.rtt_ms - late_ms / 2, 0.0)),
        replace(path, rtt_ms=path.rtt_ms + late_ms / 2),
        replace(path, rtt_ms=path.rtt_ms + late_ms, call_ms=path.call_ms * 10),
        replace(path, clock=Clock(path.clock.hz, path.clock.tick_ms * 0.9)),
    )
    played: list[tuple[Sequence[Call], NetworkPath]] = [(calls, variant) for variant in variants]
    chance = random.Random(1)
    for number in range(_DRAWS):
        variant = chance.choice(variants) if number % 2 else path
        played.append((_late(calls, late_ms, chance), variant))
    by_boundaries: dict[tuple[int, ...], Simulation] = {}
    for schedule, variant in played:
        result = simulate(schedule, variant, peer)
        by_boundaries.setdefault(result.boundaries, result)
    return tuple(by_boundaries.values())


def _late(calls: Sequence[Call], late_ms: float, chance: random.Random) -> list[Call]:
    """Shift each call independently to a bit earlier or later than planned."""
    most_ms = _LEAST_LATE_MS * (late_ms / _LEAST_LATE_MS) ** chance.random()
    due_ms, made_ms, moved = 0.0, 0.0, []
    for call in calls:
        due_ms += call.delay_ms
        at_ms = max(due_ms + chance.uniform(-most_ms, most_ms), made_ms)
        moved.append(replace(call, delay_ms=at_ms - made_ms))
        made_ms = at_ms
    return moved
