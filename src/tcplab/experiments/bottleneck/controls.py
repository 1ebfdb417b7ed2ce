"""Compare congestion controls, alone and against each other, with a short and a long queue.

BBR is described by N. Cardwell and others, "BBR: congestion-based congestion control", ACM Queue
14(5), 2016. Its share of a link with competing flows is the subject of R. Ware and others,
"Modeling BBR's interactions with loss-based congestion control", IMC 2019.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.experiments.parameters import DurationS, RateMbit, RttMs
from tcplab.experiments.quantities import Variant, computed
from tcplab.lab import congestion_controls


class Contest(Variant, key=("controls", "queue_packets"), heading="flows"):
    """One transfer, or two with different congestion controls, through one queue."""

    controls: str  #: "cubic", or "cubic, bbr" for two transfers
    queue_packets: int
    run: Shared

    mbit = computed(lambda contest: contest.run.mbit, "total (Mbit/s)", ".2f")
    first_mbit = computed(lambda contest: contest.run.rates_mbit[0], "first flow", ".2f")
    second_mbit = computed(
        lambda contest: contest.run.rates_mbit[1] if len(contest.run.flows) > 1 else None,
        "second flow",
        ".2f",
    )
    #: Median RTT of the first transfer in the second half of the run.
    rtt_ms = computed(lambda contest: contest.run.flows[0].median_rtt_ms, "median RTT (ms)", ".0f")
    median_queue = computed(
        lambda contest: contest.run.median_queue, "median queue (packets)", ".0f"
    )
    drops = computed(lambda contest: len(contest.run.drops_s), "dropped", "d")
    retransmissions = computed(
        lambda contest: sum(flow.retransmissions for flow in contest.run.flows)
    )

    @property
    def label(self) -> str:
        return f"{self.controls.replace(', ', ' against ')}, queue of {self.queue_packets}"

    @property
    def first_share(self) -> float:
        """The first transfer's share of the total rate, from 0 to 1."""
        return float(self.first_mbit / self.mbit)


Contests: TypeAlias = Result[Contest]


@experiment("congestion-controls")
def measure_controls(
    queues: Annotated[Sequence[int], Between(1, 100_000, "packets")] = (16, 320),
    congestions: Annotated[Sequence[Congestion], "congestion controls"] = ("cubic", "reno", "bbr"),
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    rtt_ms: Annotated[RttMs, Between(1, 500, "ms")] = 40.0,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 8.0,
) -> Contests:
    """Run each congestion control alone, and each pair of them against each other.

    The table names the controls that this kernel does not offer.

    Args:
        queues: lengths of the queue; the path itself holds rate × RTT
    """
    offered = congestion_controls()
    names = [name for name in congestions if name in offered]
    missing = [name for name in congestions if name not in offered]
    fix = "root may load more: sudo modprobe -a " + " ".join(f"tcp_{name}" for name in missing)
    if not names:
        raise LabError(f"this kernel offers {', '.join(offered)}; {fix}")
    groups = [[name] for name in names] + [list(pair) for pair in itertools.combinations(names, 2)]
    keys = [(group, packets) for packets in queues for group in groups]
    cases = [
        (
            {"rate_mbit": rate_mbit, "queue_packets": packets, "clients": [rtt_ms] * len(group)},
            group,
        )
        for group, packets in keys
    ]
    runs, origin = share_each("congestion-controls", duration_s, cases)
    if missing:
        origin["left_out"] = f"Not offered by this kernel: {', '.join(missing)}; {fix}."
    contests = [
        Contest(", ".join(group), packets, run)
        for (group, packets), run in zip(keys, runs, strict=True)
    ]
    return Result(contests, origin)
