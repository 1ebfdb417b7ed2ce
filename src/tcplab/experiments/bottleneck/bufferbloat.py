"""Measure bufferbloat, as in lab exercises of Toronto, Washington, Stanford and others.

The defaults are those of Toronto's CSC458. Washington's CSE461 adds BBR. Here all cases are
measured at the same time, each in its own laboratory, for 20 s by default. A ping is a UDP datagram
that is echoed, and the queue is recorded packet by packet.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each
from tcplab.experiments.parameters import DurationS, RateMbit, RttMs
from tcplab.experiments.quantities import Variant, computed, derived

Aqm = Literal["tail_drop", "codel", "fq_codel", "pie"]
#: A kind of queue management. With "+ecn", it marks ECN-capable packets instead of dropping them.
Manager = Literal["tail_drop", "codel", "codel+ecn", "fq_codel", "fq_codel+ecn", "pie", "pie+ecn"]
_NAN = float("nan")


class Bloat(Variant, key=("queue_packets", "congestion", "aqm"), heading="bottleneck"):
    """A long transfer through one queue, with pings and page fetches at the same time."""

    queue_packets: int
    congestion: str
    aqm: str  #: a Manager, such as "codel" or "codel+ecn"
    run: Shared

    mbit = computed(lambda bloat: bloat.run.mbit, "Mbit/s", ".2f")
    median_queue = computed(lambda bloat: bloat.run.median_queue, "median queue (packets)", ".0f")
    most_queue = computed(lambda bloat: max(length for _time, length in bloat.run.queue))
    drops = computed(lambda bloat: len(bloat.run.drops_s), "dropped", "d")
    marks = computed(lambda bloat: len(bloat.run.marks_s), "marked", "d")
    retransmissions = computed(lambda bloat: bloat.run.flows[0].retransmissions)

    @derived("median ping (ms)", ".0f")
    def probe_ms(self) -> float:
        half_s = self.run.flows[0].moments[-1].time_s / 2
        late_ms = [took_ms for time_s, took_ms in self.run.probes if time_s >= half_s]
        return statistics.median(late_ms or [_NAN])

    most_probe_ms = computed(
        lambda bloat: max((ms for _time, ms in bloat.run.probes), default=_NAN),
        "longest ping (ms)",
        ".0f",
    )
    page_s = computed(lambda bloat: statistics.fmean(bloat.run.page_s), "mean page load (s)", ".2f")
    pages = computed(lambda bloat: len(bloat.run.pages), "page loads", "d")

    @property
    def label(self) -> str:
        managed = "" if self.aqm == "tail_drop" else f"{self.aqm}, "
        return f"queue of {self.queue_packets}, {managed}{self.congestion}"


Bufferbloat: TypeAlias = Result[Bloat]


@experiment(
    "bufferbloat",
    figure=lambda figures, result: figures.bottleneck(result),
    finding="A ping takes {probe_ms.ratio} times as long behind the {probe_ms.most}, "
    "as behind the {probe_ms.least}",
)
def measure_bufferbloat(
    queues: Annotated[Sequence[int], Between(1, 100_000, "packets")] = (100, 20, 5),
    congestions: Annotated[Sequence[Congestion], "congestion controls of the transfer"] = ("reno",),
    aqms: Sequence[Manager] = ("tail_drop",),
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 10.0,
    rtt_ms: Annotated[RttMs, Between(0, 500, "ms")] = 4.0,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 20.0,
) -> Bufferbloat:
    """Measure bufferbloat, with a transfer, pings and a web page in queues of several lengths.

    Args:
        queues: lengths of the queue
        aqms: queue management, with +ecn to mark packets (RFC 3168) instead of dropping them
    """
    keys = [(packets, name, aqm) for name in congestions for packets in queues for aqm in aqms]
    cases = []
    for packets, name, manager in keys:
        aqm, _plus, marks = manager.partition("+")
        queue = {"queue_packets": packets, "aqm": aqm, "ecn": bool(marks)}
        cases.append((queue | {"rtt_ms": rtt_ms, "rate_mbit": rate_mbit}, [name]))
    runs, origin = share_each("bufferbloat", duration_s, cases, bystander=True)
    return Result([Bloat(*key, run) for key, run in zip(keys, runs, strict=True)], origin)
