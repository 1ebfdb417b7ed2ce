"""Packets that scapy misses: a live sniffer and a lossless recorder side by side, ever faster."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any, ClassVar, Final

from tcplab.capture import CaptureLossWarning
from tcplab.experiments import Between, Result, Variant, experiment, provenance
from tcplab.experiments.progress import one_by_one
from tcplab.lab import Lab
from tcplab.programs import udp_bulk
from tcplab.tables import Column

_DATAGRAM_BYTES: Final = 58  # a frame of 100 bytes


class Watched(Variant):
    """Scapy beside the recorder, at one rate."""

    packets_per_s: int | None  #: That were asked for; None for as fast as the machine can
    sent: int  #: Datagrams
    passed: int  #: Packets on the interface, by the recorder's count
    scapy_kept: int  #: Packets that scapy handed to us
    scapy_drops: int  #: Packets that the kernel had to drop since scapy was too slow
    recorder_drops: int  #: The same of the recorder
    #: How long scapy was busy, from the first packet to the last that it handed over
    scapy_s: float
    sent_s: float  #: How long the sending took
    warning: str  #: What tcplab says of the loss; empty without

    @property
    def label(self) -> str:
        """The rate that was asked for."""
        return f"{self.packets_per_s:,}" if self.packets_per_s else "no limit"

    def row(self) -> dict[str, Any]:
        """The fields, the rate that was reached, and the packets kept."""
        return Variant.row(self) | {
            "sent_per_s": self.sent / self.sent_s,
            "scapy_share": self.scapy_kept / self.passed,
            "recorder_kept": self.passed - self.recorder_drops,
        }


class CaptureLoss(Result[Watched]):
    """Scapy and the recorder at rising rates; the key is the rate that was asked for."""

    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "packets/s"),
        Column("sent_per_s", "reached", ",.0f"),
        Column("passed", "passed", ",d"),
        Column("scapy_kept", "scapy has", ",d"),
        Column("scapy_drops", "scapy's drops", ",d"),
        Column("scapy_share", "share", ".0%"),
        Column("recorder_kept", "recorder has", ",d"),
        Column("recorder_drops", "recorder's drops", ",d"),
    )


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
