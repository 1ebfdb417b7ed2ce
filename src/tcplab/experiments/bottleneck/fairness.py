"""Measure how flows with different round-trip times share a bottleneck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.bottleneck.bufferbloat import Aqm
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.experiments.parameters import DurationS, QueuePackets, RateMbit
from tcplab.experiments.quantities import Variant, computed, derived
from tcplab.models import jain_index


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


@experiment("rtt-fairness")
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
