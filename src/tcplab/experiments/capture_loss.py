"""Count the packets that scapy and tcplab's recorder miss at rising rates."""

import warnings
from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, Variant, column, computed, experiment
from tcplab.experiments.progress import case_by_case
from tcplab.lab import Lab
from tcplab.programs import udp_bulk
from tcplab.segments.pcap import CaptureLossWarning

_PACKETS_PER_S: Final = (500, 2000, 20_000, None)
_DATAGRAM_BYTES: Final = 58  # payload of a 100-byte frame
_MOST: Final = 20_000  # largest number of datagrams per rate


class RateLoss(Variant, heading="requested (packets/s)"):
    """The packets that scapy and the recorder captured at one rate."""

    packets_per_s: int | None  #: requested rate, or None for as fast as possible

    @property
    def label(self) -> str:
        return f"{self.packets_per_s:,}" if self.packets_per_s else "no limit"

    sent: int  #: number of datagrams
    sent_s: float  #: time that sending took
    sent_per_s = computed(lambda watched: watched.sent / watched.sent_s, "sent (packets/s)", ",.0f")
    #: packets on the interface, counted by the recorder
    passed: int = column("packets passed", ",d")
    scapy_kept: int = column("captured by scapy", ",d")
    #: packets that scapy was too slow to capture
    scapy_drops: int = column("dropped by scapy", ",d")
    scapy_share = computed(
        lambda watched: watched.scapy_kept / watched.passed, "scapy's share", ".0%"
    )
    recorder_kept = computed(
        lambda watched: watched.passed - watched.recorder_drops, "captured by recorder", ",d"
    )
    recorder_drops: int = column("dropped by recorder", ",d")


@experiment(
    "capture-loss",
    figure=("scapy_share", "scapy_drops", "recorder_drops"),
    finding="Scapy keeps {high} of the packets at {most} per second, and {low} with {least}",
)
def measure(
    packets_per_s: Annotated[
        Sequence[int | None], Between(10, 1_000_000, "packets/s")
    ] = _PACKETS_PER_S,
) -> Result[RateLoss]:
    """Count the packets that scapy and tcplab's recorder miss at rising rates.

    Args:
        packets_per_s: rates, measured one after the other for at most a second; auto is as fast as
            possible
    """
    with Lab() as lab:
        size = _DATAGRAM_BYTES
        return case_by_case(lab, packets_per_s, lambda rate: _watch(lab, rate), datagram_bytes=size)


def _watch(lab: Lab, rate: int | None) -> RateLoss:
    pace_mbit = None if rate is None else rate * _DATAGRAM_BYTES * 8 / 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureLossWarning)  # the result counts the losses
        with lab.client.capture() as recorded, lab.client.sniff() as live:
            sent = udp_bulk(
                lab,
                datagram_bytes=_DATAGRAM_BYTES,
                count=min(rate or _MOST, _MOST),
                pace_mbit=pace_mbit,
                rcvbuf_bytes=4 << 20,
            ).source
    with recorded:
        return RateLoss(
            packets_per_s=rate,
            sent=sent.datagrams,
            passed=len(recorded) + (recorded.drops or 0),
            scapy_kept=len(live.packets),
            scapy_drops=live.drops,
            recorder_drops=recorded.drops or 0,
            sent_s=sent.usage.wall_s,
        )
