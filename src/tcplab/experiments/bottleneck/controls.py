"""Congestion controls alone and against each other, before a short and before a long queue.

BBR: N. Cardwell, Y. Cheng, C. S. Gunn, S. H. Yeganeh, V. Jacobson, "BBR: congestion-based
congestion control", ACM Queue 14(5), 2016. Its share beside others: R. Ware, M. Mukerjee,
S. Seshan, J. Sherry, "Modeling BBR's interactions with loss-based congestion control", IMC 2019.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, TypeAlias

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.lab import congestion_controls


class Contest(Variant, key=("controls", "queue_packets"), heading="through one queue"):
    """One transfer, or two with different congestion controls, through one queue."""

    controls: str  #: "cubic", or "cubic, bbr"
    queue_packets: int  #: length of the queue
    mbit: float = column("together (Mbit/s)", ".2f")  #: in the second half
    first_mbit: float = column("the first", ".2f")
    second_mbit: float | None = column("the second", ".2f")  #: if there are two
    rtt_ms: float = column("RTT (ms)", ".0f")  #: of the first with the queue, median
    median_queue: float = column("queue, median", ".0f")  #: packets that waited
    drops: int = column("dropped", "d")  #: packets that the queue dropped
    retransmissions: int  #: segments sent again, by both
    run: Shared  #: all of it over time

    @property
    def label(self) -> str:
        return f"{self.controls.replace(', ', ' against ')}, queue of {self.queue_packets}"

    @property
    def first_share(self) -> float:
        """The part of all that the first gets, 0 to 1."""
        return self.first_mbit / self.mbit


Contests: TypeAlias = Result[Contest]


@experiment("congestion-controls")
def measure_controls(
    queues: Annotated[Sequence[int], Between(1, 100_000, "packets")] = (16, 320),
    congestions: Sequence[Congestion] = ("cubic", "reno", "bbr"),
    rate_mbit: Annotated[float, Between(1, 100, "Mbit/s")] = 10.0,
    rtt_ms: Annotated[float, Between(1, 500, "ms")] = 40.0,
    duration_s: Annotated[float, Between(2, 55, "s")] = 8.0,
) -> Contests:
    """Congestion controls: each alone, and each pair against each other.

    Those that this kernel does not offer are left out, and the table says which.

    Args:
        queues: lengths of the queue; the path itself holds rate × RTT.
        congestions: congestion controls.
        rate_mbit: rate of the bottleneck.
        rtt_ms: round-trip time of the idle path.
        duration_s: of the transfers, which run side by side.

    Raises:
        LabError: this kernel offers none of them.
    """
    offered = congestion_controls()
    here = [name for name in congestions if name in offered]
    missing = [name for name in congestions if name not in offered]
    if not here:
        raise LabError(f"this kernel offers {', '.join(offered)}; {_cure(missing)}")
    groups = [[name] for name in here] + [list(pair) for pair in itertools.combinations(here, 2)]
    keys = [(group, packets) for packets in queues for group in groups]
    link = {"rate_mbit": rate_mbit}
    cases = [
        (link | {"queue_packets": packets, "clients": [rtt_ms] * len(group)}, group)
        for group, packets in keys
    ]
    runs, origin = share_each("congestion-controls", duration_s, cases)
    found = Contests([_contest(*key, run) for key, run in zip(keys, runs, strict=True)], origin)
    if missing:
        left_out = f"Not offered by this kernel: {', '.join(missing)}; {_cure(missing)}."
        return replace(found, provenance={**origin, "left_out": left_out})
    return found


def _cure(missing: Sequence[str]) -> str:
    return "root may load more: sudo modprobe -a " + " ".join(f"tcp_{name}" for name in missing)


def _contest(group: Sequence[str], packets: int, run: Shared) -> Contest:
    first, *others = run.flows
    return Contest(
        controls=", ".join(group),
        queue_packets=packets,
        mbit=sum(flow.mbit for flow in run.flows),
        first_mbit=first.mbit,
        second_mbit=others[0].mbit if others else None,
        rtt_ms=first.median_rtt_ms,
        median_queue=run.median_queue,
        drops=len(run.drops_s),
        retransmissions=sum(flow.retransmissions for flow in run.flows),
        run=run,
    )
