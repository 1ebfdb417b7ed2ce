"""Measure how flows with different round-trip times share a bottleneck.

The defaults of the experiment "fairness" come from Georgia Tech's CS6250 ("parking lot"), in which
each sender is one hop of 1 ms further from the receiver than the previous one. Here only the last
link has a queue. In "rtt-fairness", the round-trip times differ by up to a factor of eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.bottleneck.bufferbloat import Aqm
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.experiments.parameters import DurationS, QueuePackets, RateMbit
from tcplab.experiments.quantities import Variant, computed, derived
from tcplab.models import jain_index

#: The RTT of one cable. The first sender's path has two cables, and the path of each further sender
#: has one more than that of the previous sender.
_HOP_RTT_MS = 2.0


class Crowd(Variant, heading="flows"):
    """Flows that share a bottleneck at the same time."""

    flows: int
    run: Shared

    mbit = computed(lambda crowd: crowd.run.mbit, "total (Mbit/s)", ".2f")
    least_mbit = computed(lambda crowd: min(crowd.run.rates_mbit), "slowest flow", ".2f")
    most_mbit = computed(lambda crowd: max(crowd.run.rates_mbit), "fastest flow", ".2f")
    #: Jain's index is 1 if all rates are equal, and 1/n if one of n flows has everything.
    jain = computed(lambda crowd: jain_index(crowd.run.rates_mbit), "Jain's index", ".3f")
    median_queue = computed(lambda crowd: crowd.run.median_queue, "median queue (packets)", ".0f")
    drops = computed(lambda crowd: len(crowd.run.drops_s), "dropped", "d")

    @property
    def label(self) -> str:
        return f"{self.flows} flow" + "s" * (self.flows > 1)


Fairness: TypeAlias = Result[Crowd]


@experiment("fairness")
def measure_fairness(
    flows: Annotated[Sequence[int], Between(1, 20, "flows")] = (1, 2, 3, 4, 5),
    congestions: Sequence[Congestion] = ("reno",),
    aqm: Annotated[Aqm, "queue management of the bottleneck"] = "tail_drop",
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    queue_packets: QueuePackets = 200,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 30.0,
) -> Fairness:
    """Let several senders, each one hop further away than the previous one, share the last link.

    Args:
        flows: numbers of senders
        congestions: congestion controls of the senders in turn, repeated as needed
    """
    link = {"rate_mbit": rate_mbit, "queue_packets": queue_packets, "aqm": aqm}
    cases = []
    for count in flows:
        rtts_ms = [_HOP_RTT_MS * (number + 2) for number in range(count)]
        names = [congestions[number % len(congestions)] for number in range(count)]
        cases.append((link | {"clients": rtts_ms}, names))
    runs, origin = share_each("fairness", duration_s, cases)
    return Result([Crowd(len(run.flows), run) for run in runs], origin)


class Race(Variant, key=("congestion", "aqm"), heading="congestion control"):
    """Flows with the same congestion control and different round-trip times."""

    congestion: str
    aqm: str
    run: Shared

    mbit = computed(lambda race: race.run.mbit, "together (Mbit/s)", ".2f")
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
    median_queue = computed(lambda race: race.run.median_queue, "queue, median", ".0f")
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
