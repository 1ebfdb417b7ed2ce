"""Measure how large a router's buffer must be, for one flow and for several.

C. Villamizar and C. Song (CCR 24(5), 1994) found that one flow needs a bandwidth-delay product. G.
Appenzeller, I. Keslassy and N. McKeown (SIGCOMM 2004) found that n flows need 1/√n of it, as long
as their windows are not synchronised.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, share_each
from tcplab.experiments.parameters import DurationS, RateMbit
from tcplab.experiments.quantities import Variant, column, computed
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.models import goodput_mbyte_s, jain_index, sawtooth_share, serialisation_ms

#: Range of the flows' round-trip times, as a share of their mean. With equal times, all flows would
#: lose packets at the same time.
_SPREAD: Final = 0.5


class RouterBuffer(Variant, key=("flows", "bdps")):
    """Flows that share a router buffer of one size."""

    flows: int = column("flows", "d")
    bdps: float = column("buffer (BDP)", ".2f")
    packets: int = column("buffer (packets)", "d")
    mbit: float = column("Mbit/s", ".2f")
    #: share of the link's goodput in use
    used_percent = computed(
        lambda case: 100 * case.mbit / (8 * goodput_mbyte_s(case.link["rate_mbit"])),
        "link used (%)",
        ".1f",
    )
    #: share that the sawtooth model predicts, for one flow or for flows that all lose packets at
    #: the same time
    model_percent = computed(
        lambda case: 100 * sawtooth_share(case.bdps), "model, synchronized (%)", ".1f"
    )
    jain: float = column("Jain's index", ".2f")
    median_queue: float = column("median queue (packets)", ".0f")
    #: median over the flows, including the queue's delay
    rtt_ms: float = column("median RTT (ms)", ".0f")

    @property
    def label(self) -> str:
        return f"{self.flows} flow{'s' * (self.flows > 1)}, {self.packets} packets"


@experiment(
    "router-buffers",
    figure=lambda figures, result: figures.draw_curves(
        result, "bdps", "used_percent", "model_percent", by="flows", log="x"
    ),
    finding="The link is used to {used_percent.low} % with {used_percent.least}, and "
    "to {used_percent.high} % with {used_percent.most}",
)
def measure_router_buffers(
    flows: Annotated[Sequence[int], Between(1, 20, "flows"), "numbers of flows"] = (1, 9),
    bdps: Annotated[Sequence[float], Between(0.01, 100, "bandwidth-delay products")] = (
        0.125,
        0.333,
        1,
    ),
    congestion: Annotated[Congestion, "congestion control; the model holds for reno"] = "reno",
    rate_mbit: Annotated[RateMbit, Between(1, 100, "Mbit/s")] = 20.0,
    rtt_ms: Annotated[float, Between(4, 500, "ms"), "mean round-trip time of the flows"] = 40.0,
    duration_s: Annotated[DurationS, Between(2, 55, "s")] = 8.0,
) -> Result[RouterBuffer]:
    """Measure how much of a link one or several flows use, depending on the size of its buffer.

    The round-trip times of several flows are between three quarters and five quarters of rtt_ms.

    Args:
        bdps: sizes of the buffer, in bandwidth-delay products
    """
    full_ms = serialisation_ms(MSS_BYTES, rate_mbit)
    keys = [
        (count, size, max(round(size * rtt_ms / full_ms), 1)) for count in flows for size in bdps
    ]
    cases = [
        (
            {"rate_mbit": rate_mbit, "queue_packets": packets, "clients": _rtts_ms(count, rtt_ms)},
            [congestion] * count,
        )
        for count, _size, packets in keys
    ]
    runs, origin = share_each("router-buffers", duration_s, cases)
    buffers = [
        RouterBuffer(
            flows=count,
            bdps=size,
            packets=packets,
            mbit=run.mbit,
            jain=jain_index(run.rates_mbit),
            median_queue=run.median_queue,
            rtt_ms=statistics.median(flow.median_rtt_ms for flow in run.flows),
        )
        for (count, size, packets), run in zip(keys, runs, strict=True)
    ]
    return Result(buffers, origin)


def _rtts_ms(count: int, mean_ms: float) -> list[float]:
    steps = max(count - 1, 1)
    return [mean_ms * (1 + _SPREAD * (n / steps - 0.5) * (count > 1)) for n in range(count)]
