"""Measure the goodput of a full link, and compare it with the rate that headers leave for data."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Final

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.quantities import Variant, column, computed
from tcplab.lab import Lab
from tcplab.models import goodput_mbyte_s, header_share, mss_bytes
from tcplab.programs import tcp_bulk

_WRITE_BYTES: Final = 65536
_SECONDS: Final = 1.0  # duration of a transfer according to the model


class FullLink(
    Variant,
    key=("rate_mbit", "mtu_bytes"),
    label="{0.rate_mbit:g} Mbit/s, MTU {0.mtu_bytes}",
    heading="link",
):
    """A link of a given rate and MTU that a transfer kept full."""

    rate_mbit: float
    mtu_bytes: int  #: MTU of both hosts' interfaces
    bytes: int
    header_percent = computed(
        lambda case: 100 * header_share(mss_bytes(case.mtu_bytes), case.mtu_bytes),
        "headers (%)",
        ".1f",
    )
    model_mb_per_s = computed(
        lambda case: goodput_mbyte_s(case.rate_mbit, case.mtu_bytes), "model (MB/s)", ".2f"
    )
    mb_per_s: float = column("measured (MB/s)", ".2f")
    share = computed(lambda case: case.mb_per_s / case.model_mb_per_s, "measured / model", ".1%")
    wire_packets: int = column("packets", ",d")  #: packets to the server, counted by the link
    verdict = computed(
        lambda case: "keeps up" if case.share >= 0.95 else "is too slow, or busy", "this machine"
    )


@experiment(
    "goodput",
    figure=("model_mb_per_s", "mb_per_s", "header_percent"),
    finding="With {header_percent.most}, the share of headers is "
    "{header_percent.ratio} times that with {header_percent.least}",
)
def measure(
    rates_mbit: Annotated[Sequence[float], Between(1, 10_000, "Mbit/s"), "rates"] = (10, 100, 1000),
    mtus: Annotated[Sequence[int], Between(128, 9000, "bytes"), "MTUs of all hosts"] = (1500,),
) -> Result[FullLink]:
    """Measure the goodput of full links of several rates, and compare it with the model's."""
    origin: dict[str, Any] = {}

    def fill(case: tuple[float, int]) -> FullLink:
        with Lab(rate_mbit=case[0], mtu=case[1]) as lab:
            link = _fill(lab, *case)
            origin.update(provenance(lab, seconds=_SECONDS))
        return link

    links, done = one_by_one(list(itertools.product(rates_mbit, mtus)), fill)
    return Result(links, origin | done)


def _fill(lab: Lab, rate_mbit: float, mtu_bytes: int) -> FullLink:
    count = max(4, round(goodput_mbyte_s(rate_mbit, mtu_bytes) * 1e6 * _SECONDS / _WRITE_BYTES))
    sent = tcp_bulk(
        lab, write_bytes=_WRITE_BYTES, count=count, sndbuf_bytes=None, rcvbuf_bytes=None
    ).source
    return FullLink(
        rate_mbit=rate_mbit,
        mtu_bytes=mtu_bytes,
        bytes=sent.bytes,
        mb_per_s=sent.mb_per_s,
        wire_packets=lab.link.counters()["client->server"]["packets_out"],
    )
