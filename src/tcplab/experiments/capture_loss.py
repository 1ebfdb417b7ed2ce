"""Packets that scapy misses: a live sniffer and a lossless recorder side by side, ever faster."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Final, TypeAlias

from tcplab.capture import CaptureLossWarning
from tcplab.experiments import Between, Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.progress import one_by_one
from tcplab.lab import Lab
from tcplab.programs import udp_bulk

_DATAGRAM_BYTES: Final = 58  # a frame of 100 bytes


class Watched(Variant, heading="packets/s"):
    """Scapy beside the recorder, at one rate."""

    packets_per_s: int | None  #: that were asked for; None for as fast as the machine can

    @property
    def label(self) -> str:
        return f"{self.packets_per_s:,}" if self.packets_per_s else "no limit"

    sent: int  #: datagrams
    sent_s: float  #: how long the sending took

    sent_per_s = computed(lambda each: each.sent / each.sent_s, "reached", ",.0f")

    passed: int = column("passed", ",d")  #: packets on the interface, by the recorder's count
    scapy_kept: int = column("scapy has", ",d")  #: packets that scapy handed to us
    #: packets that the kernel had to drop since scapy was too slow
    scapy_drops: int = column("scapy's drops", ",d")

    scapy_share = computed(lambda each: each.scapy_kept / each.passed, "share", ".0%")
    recorder_kept = computed(lambda each: each.passed - each.recorder_drops, "recorder has", ",d")

    recorder_drops: int = column("recorder's drops", ",d")
    #: how long scapy was busy, from the first packet to the last that it handed over
    scapy_s: float
    warning: str  #: what tcplab says of the loss; empty without


CaptureLoss: TypeAlias = Result[Watched]


@experiment("capture-loss")
def measure(
    packets_per_s: Annotated[Sequence[int | None], Between(10, 1_000_000, "packets/s")] = (
        500,
        2000,
        20_000,
        None,
    ),
    count: Annotated[int, Between(100, 1_000_000)] = 20_000,
    network: Lab | None = None,
) -> CaptureLoss:
    """Packets that scapy misses at rising rates, and that a recorder does not.

    Args:
        packets_per_s: rates, one after the other; auto is as fast as the machine can send.
        count: most datagrams per rate; slow rates send those of one second.
        network: a Lab of its own unless given.
    """
    with nullcontext(network) if network else Lab() as lab:
        watched, done = one_by_one(
            "capture-loss", packets_per_s, lambda rate: _watch(lab, rate, min(rate or count, count))
        )
        return CaptureLoss(watched, provenance(lab, datagram_bytes=_DATAGRAM_BYTES, **done))


def _watch(lab: Lab, rate: int | None, count: int) -> Watched:
    pace_mbit = None if rate is None else rate * _DATAGRAM_BYTES * 8 / 1e6
    # The warning is kept with the result: a lesson shows it where it belongs.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CaptureLossWarning)
        with lab.client.capture() as recorded, lab.client.sniff() as live:
            start = time.perf_counter()
            sent = udp_bulk(
                lab,
                datagram_bytes=_DATAGRAM_BYTES,
                count=count,
                pace_mbit=pace_mbit,
                rcvbuf_bytes=4 << 20,
            ).source
        busy_s = time.perf_counter() - start
    with recorded:
        return Watched(
            packets_per_s=rate,
            sent=sent.datagrams,
            passed=len(recorded) + (recorded.drops or 0),
            scapy_kept=len(live.packets),
            scapy_drops=live.drops,
            recorder_drops=recorded.drops or 0,
            scapy_s=busy_s,
            sent_s=sent.usage.wall_s,
            warning=next(
                (str(each.message) for each in said if issubclass(each.category, UserWarning)), ""
            ),
        )
