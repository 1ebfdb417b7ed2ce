"""Bufferbloat, as the laboratories of Toronto, Washington, Stanford and others have it.

The defaults are those of the handout of CSC458 (Toronto, programming assignment 2): a bottleneck of
10 Mbit/s, 4 ms of round trip, Reno, queues of 100, 20 and 5 packets, ten pings per second, a web
page three times in five seconds. CSE461 (Washington, project 3) adds BBR, which
`--congestions reno bbr` does.

Differences: there, each run takes 60 s or more of Mininet with sudo; here all run side by side for
20 s. The page is of 100 000 bytes. The first hop is not limited to 1 Gbit/s. A ping is a UDP
datagram and its echo. The queue is recorded packet by packet, not polled.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, Shared, share_each

Aqm = Literal["tail_drop", "codel", "fq_codel", "pie"]
#: The same, and those that mark in place of dropping where the packet allows it.
Manager = Literal["tail_drop", "codel", "codel+ecn", "fq_codel", "fq_codel+ecn", "pie", "pie+ecn"]


class Bloat(Variant, key=("queue_packets", "congestion", "aqm"), heading="at the bottleneck"):
    """A long transfer through one queue, and what a bystander sees of it."""

    queue_packets: int  #: length of the queue
    congestion: str  #: control of the transfer
    aqm: str  #: which packets the queue drops, or marks
    mbit: float = column("Mbit/s", ".2f")  #: its rate in the second half
    median_queue: float = column("queue, median", ".0f")  #: packets that waited, second half
    most_queue: int  #: at most, in all
    drops: int = column("dropped", "d")
    marks: int = column("marked", "d")  #: in place of dropping them
    retransmissions: int  #: segments that the transfer sent again
    #: round trip of a probe, median of the second half
    probe_ms: float = column("ping, median (ms)", ".0f")
    most_probe_ms: float = column("longest (ms)", ".0f")
    page_s: float = column("page, mean (s)", ".2f")  #: fetching a page
    page_sd_s: float = column("its deviation", ".2f")
    pages: int = column("pages", "d")  #: how many were fetched
    run: Shared  #: all of it over time

    @property
    def label(self) -> str:
        """The queue, its management if it has any, and the congestion control."""
        managed = "" if self.aqm == "tail_drop" else f"{self.aqm}, "
        return f"queue of {self.queue_packets}, {managed}{self.congestion}"


Bufferbloat: TypeAlias = Result[Bloat]


@experiment("bufferbloat")
def measure_bufferbloat(
    queues: Annotated[Sequence[int], Between(1, 100_000, "packets")] = (100, 20, 5),
    congestions: Sequence[Congestion] = ("reno",),
    aqms: Sequence[Manager] = ("tail_drop",),
    rate_mbit: Annotated[float, Between(1, 100, "Mbit/s")] = 10.0,
    rtt_ms: Annotated[float, Between(0, 500, "ms")] = 4.0,
    duration_s: Annotated[float, Between(2, 55, "s")] = 20.0,
    page_bytes: Annotated[int, Between(1, 10_000_000, "bytes")] = 100_000,
) -> Bufferbloat:
    """Bufferbloat: a transfer, pings and a web page share queues of several lengths.

    Args:
        queues: lengths of the queue.
        congestions: congestion controls of the transfer.
        aqms: which packets the queue drops, or with +ecn marks (RFC 3168).
        rate_mbit: rate of the bottleneck.
        rtt_ms: round-trip time of the idle path.
        duration_s: of the transfers, which run side by side.
        page_bytes: size of the page.
    """
    keys = [(packets, name, aqm) for name in congestions for packets in queues for aqm in aqms]
    cases = [
        (_link(packets, aqm) | {"rtt_ms": rtt_ms, "rate_mbit": rate_mbit}, [name])
        for packets, name, aqm in keys
    ]
    shared, origin = share_each(
        "bufferbloat", duration_s, cases, page_bytes=page_bytes, probes=True
    )
    found = [_bloat(key, run) for key, run in zip(keys, shared, strict=True)]
    return Bufferbloat(found, origin)


def _link(packets: int, manager: str) -> dict[str, Any]:
    aqm, _plus, marks = manager.partition("+")
    return {"queue_packets": packets, "aqm": aqm, "ecn": bool(marks)}


def _bloat(key: tuple[int, str, str], run: Shared) -> Bloat:
    packets, congestion, aqm = key
    (flow,) = run.flows
    end_s = flow.moments[-1].time_s
    late = [ms for at_s, ms in run.probes if at_s >= end_s / 2] or [float("nan")]
    pages = [took_s for _at, took_s in run.pages]
    return Bloat(
        queue_packets=packets,
        congestion=congestion,
        aqm=aqm,
        mbit=flow.mbit,
        median_queue=run.median_queue,
        most_queue=max(length for _at, length in run.queue),
        drops=len(run.drops_s),
        marks=len(run.marks_s),
        retransmissions=flow.retransmissions,
        probe_ms=statistics.median(late),
        most_probe_ms=max([ms for _at, ms in run.probes], default=float("nan")),
        page_s=statistics.fmean(pages) if pages else float("nan"),
        page_sd_s=statistics.pstdev(pages) if pages else float("nan"),
        pages=len(pages),
        run=run,
    )
