"""Measure the goodput of a full link, and compare it with the rate that headers leave for data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.quantities import Variant, column, computed
from tcplab.lab import Lab
from tcplab.models import goodput_mbyte_s
from tcplab.programs import tcp_bulk

_WRITE_BYTES: Final = 65536


class FullLink(Variant, heading="link", label="{0.rate_mbit:g} Mbit/s"):
    """A link of a given rate that a transfer kept full."""

    rate_mbit: float
    bytes: int
    model_mb_per_s: float = column("model (MB/s)", ".2f")
    mb_per_s: float = column("measured (MB/s)", ".2f")

    share = computed(lambda case: case.mb_per_s / case.model_mb_per_s, "measured / model", ".1%")

    mib_per_s = computed(lambda case: case.mb_per_s * 1e6 / 2**20, "measured (MiB/s)", ".2f")

    wire_packets: int = column("packets", ",d")  #: packets to the server, counted by the link
    queue_drops: int
    retransmissions: int

    verdict = computed(
        lambda case: "keeps up" if case.share >= 0.95 else "is too slow, or busy", "this machine"
    )


@experiment("goodput")
def measure(
    rates_mbit: Annotated[Sequence[float], Between(1, 10_000, "Mbit/s")] = (10, 100, 1000),
    seconds: Annotated[float, Between(0.1, 60, "s")] = 1.0,
    mtu: Annotated[int, Between(576, 9000, "bytes"), "MTU of every interface"] = 1500,
) -> Result[FullLink]:
    """Measure the goodput of full links of several rates, and compare it with the model's.

    Args:
        rates_mbit: rates of the links, each in its own laboratory
        seconds: duration of each transfer according to the model
    """
    origin: dict[str, Any] = {}

    def fill(rate_mbit: float) -> FullLink:
        with Lab(rate_mbit=rate_mbit, mtu=mtu) as lab:
            link = _fill(lab, rate_mbit, seconds)
            origin.update(provenance(lab, seconds=seconds))
        return link

    links, done = one_by_one("goodput", rates_mbit, fill)
    return Result(links, origin | done)


def _fill(lab: Lab, rate_mbit: float, seconds: float) -> FullLink:
    model_mb_per_s = goodput_mbyte_s(rate_mbit, lab.mtu)
    count = max(4, round(model_mb_per_s * 1e6 * seconds / _WRITE_BYTES))
    sent = tcp_bulk(
        lab, write_bytes=_WRITE_BYTES, count=count, sndbuf_bytes=None, rcvbuf_bytes=None
    ).source
    counters = lab.link.counters()["client->server"]
    return FullLink(
        rate_mbit=rate_mbit,
        bytes=sent.bytes,
        model_mb_per_s=model_mb_per_s,
        mb_per_s=sent.mb_per_s,
        wire_packets=counters["packets_out"],
        queue_drops=counters["dropped"]["queue"],
        retransmissions=sent.tcp_info["total_retrans"],
    )
