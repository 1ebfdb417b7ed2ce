"""Shares of a bottleneck: of n flows, and of flows whose round-trip times differ.

The defaults of fairness are those of Georgia Tech's CS6250 ("parking lot"): 10 Mbit/s, cables of
1 ms, queues of 200 packets, one to five senders, each one hop further from the receiver than the
one before, so that the round-trip times are 4, 6, 8, 10 and 12 ms.

Differences: there, the senders' hops are links of their own, whose queues are never the fullest
since all flows cross the last one; here only that one has a queue. The numbers of senders are
measured side by side, for 30 s in place of 60 s one after the other.

rtt-fairness is the same question with round-trip times that differ eightfold (RFC 9438, section
5.2, "RTT fairness"), for one congestion control after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.bottleneck.bufferbloat import Aqm
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.models import jain_index

#: Of the parking lot: a cable of 1 ms to the first switch and one to the receiver, and back; then
#: one cable more for each sender.
_HOP_RTT_MS = 2.0


class Crowd(Variant, heading="through one queue"):
    """Flows that share a bottleneck."""

    flows: int  #: how many
    mbit: float = column("together (Mbit/s)", ".2f")  #: in the second half
    least_mbit: float = column("the slowest", ".2f")
    most_mbit: float = column("the fastest", ".2f")
    #: of the rates: 1 when all are equal, 1/n when one has all
    jain: float = column("Jain's index", ".3f")
    median_queue: float = column("queue, median", ".0f")  #: packets that waited
    drops: int = column("dropped", "d")  #: packets that the queue dropped
    run: Shared  #: all of it over time

    @property
    def label(self) -> str:
        return f"{self.flows} flow" + "s" * (self.flows > 1)


Fairness: TypeAlias = Result[Crowd]


@experiment("fairness")
def measure_fairness(
    flows: Annotated[Sequence[int], Between(1, 20, "flows")] = (1, 2, 3, 4, 5),
    congestions: Sequence[Congestion] = ("reno",),
    aqm: Aqm = "tail_drop",
    rate_mbit: Annotated[float, Between(1, 100, "Mbit/s")] = 10.0,
    queue_packets: Annotated[int, Between(1, 100_000, "packets")] = 200,
    duration_s: Annotated[float, Between(2, 55, "s")] = 30.0,
) -> Fairness:
    """Fairness: one to five senders, each a hop further away, share the last link.

    Args:
        flows: numbers of senders.
        congestions: congestion control of the first sender, the second, …, and over again.
        aqm: which packets the queue drops.
        rate_mbit: rate of the link.
        queue_packets: length of its queue.
        duration_s: of the transfers, which run side by side.
    """

    def names(count: int) -> list[str]:
        return [congestions[number % len(congestions)] for number in range(count)]

    rtts_ms = [[_HOP_RTT_MS * (number + 2) for number in range(count)] for count in flows]
    link = {"rate_mbit": rate_mbit, "queue_packets": queue_packets, "aqm": aqm}
    cases = [(link | {"clients": each}, names(len(each))) for each in rtts_ms]
    runs, origin = share_each("fairness", duration_s, cases)
    return Fairness([_crowd(run) for run in runs], origin)


def _crowd(run: Shared) -> Crowd:
    rates = [flow.mbit for flow in run.flows]
    return Crowd(
        flows=len(rates),
        mbit=sum(rates),
        least_mbit=min(rates),
        most_mbit=max(rates),
        jain=jain_index(rates),
        median_queue=run.median_queue,
        drops=len(run.drops_s),
        run=run,
    )


class Race(Variant, key=("congestion", "aqm"), heading="all flows run"):
    """Flows of one congestion control, whose round-trip times differ."""

    congestion: str  #: control of all
    aqm: str  #: which packets the queue drops
    mbit: float = column("together (Mbit/s)", ".2f")  #: in the second half
    near_mbit: float = column("shortest RTT", ".2f")  #: the flow with the shortest round trip
    far_mbit: float = column("longest RTT", ".2f")  #: the one with the longest
    ratio: float = column("ratio", ".1f")  #: near over far
    #: of their round-trip times, queue included: Reno's, by Mathis's law
    model_ratio: float = column("ratio of RTTs", ".1f")
    jain: float = column("Jain's index", ".3f")
    median_queue: float = column("queue, median", ".0f")  #: packets that waited
    drops: int = column("dropped", "d")  #: packets that the queue dropped
    run: Shared  #: all of it over time

    @property
    def label(self) -> str:
        """The congestion control, and the management of the queue if it has any."""
        return self.congestion if self.aqm == "tail_drop" else f"{self.congestion}, {self.aqm}"


RttFairness: TypeAlias = Result[Race]


@experiment("rtt-fairness")
def measure_rtt_fairness(
    rtts_ms: Annotated[Sequence[float], Between(0, 1000, "ms")] = (10, 40, 80),
    congestions: Sequence[Congestion] = ("reno", "cubic"),
    aqms: Sequence[Aqm] = ("tail_drop",),
    rate_mbit: Annotated[float, Between(1, 100, "Mbit/s")] = 10.0,
    queue_packets: Annotated[int, Between(1, 100_000, "packets")] = 50,
    duration_s: Annotated[float, Between(2, 55, "s")] = 40.0,
) -> RttFairness:
    """RTT fairness: flows whose round-trip times differ share a bottleneck.

    Args:
        rtts_ms: round-trip time of each flow, without the queue.
        congestions: congestion controls; all flows of a run have the same.
        aqms: which packets the queue drops.
        rate_mbit: rate of the bottleneck.
        queue_packets: length of its queue.
        duration_s: of the transfers; the cases are measured side by side.
    """
    keys = [(name, aqm) for aqm in aqms for name in congestions]
    link = {"rate_mbit": rate_mbit, "queue_packets": queue_packets, "clients": list(rtts_ms)}
    cases = [(link | {"aqm": aqm}, [name] * len(rtts_ms)) for name, aqm in keys]
    runs, origin = share_each("rtt-fairness", duration_s, cases)
    return RttFairness([_race(*key, run) for key, run in zip(keys, runs, strict=True)], origin)


def _race(congestion: str, aqm: str, run: Shared) -> Race:
    rates = [flow.mbit for flow in run.flows]
    near = min(run.flows, key=lambda flow: flow.rtt_ms)
    far = max(run.flows, key=lambda flow: flow.rtt_ms)
    return Race(
        congestion=congestion,
        aqm=aqm,
        mbit=sum(rates),
        near_mbit=near.mbit,
        far_mbit=far.mbit,
        ratio=near.mbit / far.mbit if far.mbit else float("inf"),
        model_ratio=far.median_rtt_ms / near.median_rtt_ms,
        jain=jain_index(rates),
        median_queue=run.median_queue,
        drops=len(run.drops_s),
        run=run,
    )
