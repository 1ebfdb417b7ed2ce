"""Measure the rate that random loss allows, and compare it with the formula of Mathis."""

from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, experiment
from tcplab.experiments.parameters import DurationS, RateMbit
from tcplab.experiments.progress import in_labs
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.models import goodput_mbyte_s, mathis_mbit
from tcplab.programs import tcp_bulk

_PATHS: Final = ((1, 0.01), (5, 0.01), (10, 0.01), (100, 0.01), (40, 0.001))


class Lossy(
    Variant,
    key=("congestion", "rtt_ms", "loss"),
    label="{0.congestion}, {0.rtt_ms:g} ms, {0.loss_percent:g} %",
):
    """A transfer over a path with random loss."""

    congestion: str = column("congestion control")
    rtt_ms: float = column("RTT (ms)", "g", is_setting=True)
    loss: float  #: probability of losing a packet
    loss_percent = computed(lambda lossy: 100 * lossy.loss, "loss (%)", "g")
    mbit: float = column("Mbit/s", ".1f")

    #: Rate by the formula of Mathis et al. for random loss, or the link's goodput if that is lower.
    @derived("formula (Mbit/s)", ".1f")
    def formula_mbit(self) -> float:
        # "random" assumes an ACK per packet. Linux grows its window as fast with fewer ACKs.
        formula = mathis_mbit(MSS_BYTES, self.rtt_ms, self.loss, "random")
        return min(formula, 8 * goodput_mbyte_s(self.link["rate_mbit"]))

    times_formula = computed(
        lambda case: case.mbit / case.formula_mbit, "measured / formula", ".2f"
    )
    segments: int = column("segments", ",d")
    retransmissions: int = column("retransmissions", ",d")


@experiment(
    "loss-rate",
    figure=("mbit", "formula_mbit", "times_formula"),
    finding="The path of {most} carries {ratio} times as much as the one of {least}",
)
def measure(
    paths: Annotated[Sequence[tuple[float, float]], "pairs of RTT (ms) and loss (0 to 1)"] = _PATHS,
    congestions: Annotated[Sequence[str], "congestion controls"] = ("cubic", "reno"),
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 50.0,
    duration_s: Annotated[DurationS, Between(1, 60, "s")] = 10.0,
) -> Result[Lossy]:
    """Run transfers over paths with random loss, at the same time, each over its own link."""
    for rtt_ms, loss in paths:
        mathis_mbit(MSS_BYTES, rtt_ms, loss)  # raises ParameterError for an impossible path
    cases = [(congestion, *path) for congestion in congestions for path in paths]
    # The queue is too long to overflow in slow start, so all losses are random.
    link = {"rate_mbit": rate_mbit, "queue_packets": 5000}
    variants, origin = in_labs(
        duration_s,
        cases,
        lambda case: {"congestion": case[0], "rtt_ms": case[1], **link},
        lambda lab, case: _lossy(lab, *case, duration_s),
    )
    return Result(variants, origin)


def _lossy(lab: Lab, congestion: str, rtt_ms: float, loss: float, duration_s: float) -> Lossy:
    lab.link.update(loss=loss, direction="client->server")
    source = tcp_bulk(
        lab, write_bytes=65_536, duration_s=duration_s, sndbuf_bytes=None, rcvbuf_bytes=None
    ).source
    mbit = source.bytes * 8 / 1e6 / source.usage.wall_s
    counts = source.tcp_info["data_segs_out"], source.tcp_info["total_retrans"]
    return Lossy(congestion, rtt_ms, loss, mbit, *counts)
