"""The buffer that a router needs before a line: for one flow, and for several.

C. Villamizar and C. Song ("High performance TCP in ANSNET", CCR 24(5), 1994) found that one flow
needs a bandwidth-delay product. G. Appenzeller, I. Keslassy and N. McKeown ("Sizing router
buffers", SIGCOMM 2004) found that n flows need that over √n, as long as their windows do not move
in step.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, Variant, column, computed, experiment
from tcplab.experiments.bottleneck.sharing import Congestion, share_each
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.models import goodput_mbyte_s, jain_index, sawtooth_share, serialisation_ms

#: The round-trip times of several flows differ by so much, or they would lose in step.
_APART: Final = 0.5


class RouterBuffer(Variant, key=("flows", "bdps")):
    """Flows through a buffer of one size."""

    flows: int = column("flows", "d")
    bdps: float = column("buffer (BDP)", ".2f")  #: in bandwidth-delay products
    packets: int = column("packets", "d")  #: the same
    mbit: float = column("Mbit/s", ".2f")  #: of all together, in the second half
    used: float  #: of the goodput that the line allows, 0 to 1
    model_used: float  #: of one flow, or of flows that lose in step: Reno's sawtooth

    @property
    def label(self) -> str:
        return f"{self.flows} flow{'s' * (self.flows > 1)}, {self.packets} packets"

    used_percent = computed(lambda each: 100 * each.used, "of the line (%)", ".1f")
    model_percent = computed(lambda each: 100 * each.model_used, "model, in step (%)", ".1f")

    jain: float = column("Jain's index", ".2f")
    median_queue: float = column("queue, median", ".0f")  #: packets that waited
    rtt_ms: float = column("RTT (ms)", ".0f")  #: with the queue, median of the flows


class RouterBuffers(Result[RouterBuffer]):
    """Buffers by the number of flows and by their size in bandwidth-delay products."""

    rate_mbit: float
    rtt_ms: float


@experiment("router-buffers")
def measure_router_buffers(
    flows: Annotated[Sequence[int], Between(1, 20, "flows")] = (1, 9),
    bdps: Annotated[Sequence[float], Between(0.01, 100, "bandwidth-delay products")] = (
        0.125,
        0.333,
        1,
    ),
    congestion: Congestion = "reno",
    rate_mbit: Annotated[float, Between(1, 100, "Mbit/s")] = 20.0,
    rtt_ms: Annotated[float, Between(4, 500, "ms")] = 40.0,
    duration_s: Annotated[float, Between(2, 55, "s")] = 8.0,
) -> RouterBuffers:
    """Router buffers: how much of a line one flow or several use, by the size of its buffer.

    The flows' round-trip times lie between three quarters and five quarters of rtt_ms.

    Args:
        flows: numbers of flows.
        bdps: sizes of the buffer, in bandwidth-delay products.
        congestion: congestion control; the model is of reno.
        rate_mbit: rate of the line.
        rtt_ms: round-trip time, of several flows in the mean.
        duration_s: of the transfers, which run side by side.
    """
    full_ms = serialisation_ms(MSS_BYTES, rate_mbit)
    keys = [(count, size) for count in flows for size in bdps]
    packets = [max(round(size * rtt_ms / full_ms), 1) for _count, size in keys]
    cases = [
        (
            {"rate_mbit": rate_mbit, "queue_packets": each, "clients": _rtts_ms(count, rtt_ms)},
            [congestion] * count,
        )
        for (count, _size), each in zip(keys, packets, strict=True)
    ]
    runs, origin = share_each("router-buffers", duration_s, cases)
    found = []
    for (count, size), each, run in zip(keys, packets, runs, strict=True):
        rates = [flow.mbit for flow in run.flows]
        mbit = sum(rates)
        found.append(
            RouterBuffer(
                flows=count,
                bdps=size,
                packets=each,
                mbit=mbit,
                used=mbit / (8 * goodput_mbyte_s(rate_mbit)),
                model_used=sawtooth_share(size),
                jain=jain_index(rates),
                median_queue=run.median_queue,
                rtt_ms=statistics.median(flow.median_rtt_ms for flow in run.flows),
            )
        )
    return RouterBuffers(found, origin, rate_mbit, rtt_ms)


def _rtts_ms(count: int, mean_ms: float) -> list[float]:
    steps = max(count - 1, 1)
    return [mean_ms * (1 + _APART * (n / steps - 0.5) * (count > 1)) for n in range(count)]
