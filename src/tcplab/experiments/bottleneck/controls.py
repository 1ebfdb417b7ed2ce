"""Compare congestion controls and flows with different round-trip times on one bottleneck.

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
from tcplab.experiments.bottleneck.bufferbloat import Aqm
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.experiments.parameters import DurationS, QueuePackets, RateMbit, RttMs
from tcplab.experiments.quantities import Variant, computed, derived
from tcplab.lab import congestion_controls
from tcplab.models import jain_index


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

    @property
    def label(self) -> str:
        return f"{self.controls.replace(', ', ' against ')}, queue of {self.queue_packets}"

    @property
    def first_share(self) -> float:
        return float(self.first_mbit / self.mbit)


Contests: TypeAlias = Result[Contest]


@experiment("congestion-controls", figure=lambda figures, result: figures.contests(result))
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


# ---- flows with different round-trip times -----------------------------------------------------


class Race(Variant, key=("congestion", "aqm"), heading="congestion control"):
    """Flows with the same congestion control and different round-trip times."""

    congestion: str
    aqm: str
    run: Shared

    mbit = computed(lambda race: race.run.mbit, "total (Mbit/s)", ".2f")
    near_mbit = computed(lambda race: race.run.nearest.mbit, "shortest RTT (Mbit/s)", ".2f")
    far_mbit = computed(lambda race: race.run.farthest.mbit, "longest RTT (Mbit/s)", ".2f")

    @derived("ratio of rates", ".1f")
    def ratio(self) -> float:
        return float(self.near_mbit / self.far_mbit) if self.far_mbit else float("inf")

    @derived("ratio of RTTs", ".1f")
    def model_ratio(self) -> float:
        """The ratio of Reno's rates according to Mathis, with RTTs that include the queue."""
        return self.run.farthest.median_rtt_ms / self.run.nearest.median_rtt_ms

    jain = computed(lambda race: jain_index(race.run.rates_mbit), "Jain's index", ".3f")
    median_queue = computed(lambda race: race.run.median_queue, "median queue (packets)", ".0f")
    drops = computed(lambda race: len(race.run.drops_s), "dropped", "d")

    @property
    def label(self) -> str:
        return self.congestion if self.aqm == "tail_drop" else f"{self.congestion}, {self.aqm}"


RttFairness: TypeAlias = Result[Race]


@experiment("rtt-fairness", figure=lambda figures, result: figures.bottleneck(result))
def measure_rtt_fairness(
    rtts_ms: Annotated[Sequence[float], Between(0, 1000, "ms")] = (10, 40, 80),
    congestions: Sequence[Congestion] = ("reno", "cubic"),
    aqms: Annotated[Sequence[Aqm], "kinds of queue management"] = ("tail_drop",),
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    queue_packets: QueuePackets = 50,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 40.0,
) -> RttFairness:
    """Let flows with different round-trip times share a bottleneck.

    Args:
        rtts_ms: round-trip time of each flow, without the queue
        congestions: congestion controls; all flows of a run have the same one
    """
    keys = [(name, aqm) for aqm in aqms for name in congestions]
    link = {"rate_mbit": rate_mbit, "queue_packets": queue_packets, "clients": list(rtts_ms)}
    cases = [(link | {"aqm": aqm}, [name] * len(rtts_ms)) for name, aqm in keys]
    runs, origin = share_each("rtt-fairness", duration_s, cases)
    return Result([Race(*key, run) for key, run in zip(keys, runs, strict=True)], origin)
