"""The outcomes that a schedule of calls may have when the machine is a bit late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcplab.models import Call, Clock, NetworkPath, Peer, Simulation, simulate


def outcomes(
    calls: Sequence[Call],
    path: NetworkPath | None = None,
    peer: Peer | None = None,
    *,
    late_ms: float = 2.0,
    nodelay: bool = False,
    cork: bool = False,
) -> tuple[Simulation, ...]:
    """The simulations that differ in their segments when the machine or the wire is a bit late.

    One means that the outcome is settled. Several mean a race: a write against an ACK, the reader
    against the next segment, a timer against either; which of them happens is chance.

    Args:
        calls: what the client does.
        path: the wire and the machines.
        peer: the other end.
        late_ms: how much later than planned readers may wake up and packets arrive (and half of
            that: how much later the calls may be made).
        nodelay: TCP_NODELAY is set on the client's socket from the start.
        cork: TCP_CORK likewise.
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
        # Segments that come one by one, so that the reader wakes up between any two of them.
        replace(path, rate_mbit=min(path.rate_mbit or 1000, 1000), wakeup_ms=0.03),
        replace(path, rate_mbit=min(path.rate_mbit or 100, 100)),
    )
    found: dict[tuple[int, ...], Simulation] = {}
    for variant in variants:
        result = simulate(calls, variant, peer, nodelay=nodelay, cork=cork)
        found.setdefault(result.boundaries, result)
    return tuple(found.values())
