"""A transfer that ends before it has filled its path: the segments of each round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from tcplab.experiments import Between, Result, Variant, experiment, provenance
from tcplab.lab import Lab
from tcplab.models import slow_start_flights
from tcplab.programs import tcp_bulk
from tcplab.segments import SegmentArray
from tcplab.tables import Column
from tcplab.timeline import Exchange, Timeline

#: A pause of the sender of at least this part of the RTT is a wait for ACKs.
_PAUSE_RTT: Final = 0.25


@dataclass(frozen=True, slots=True)
class Flight(Variant):
    """The segments that leave one after another, until the sender waits for ACKs."""

    number: int  #: From 1
    start_ms: float  #: Departure of its first segment, since the SYN
    segments: int  #: With data
    model_segments: int  #: With a window that begins with 10 segments and doubles each round trip
    bytes: int  #: Their data


@dataclass(frozen=True, slots=True)
class ShortTransfer(Result[Flight]):
    """The flights of one transfer, found by their number."""

    columns: ClassVar[Sequence[Column]] = (
        Column("number", "round trip", "d"),
        Column("start_ms", "begins (ms)", ".1f"),
        Column("segments", "segments", "d"),
        Column("model_segments", "the model says", "d"),
        Column("bytes", "data (bytes)", ",d"),
    )

    variants: Sequence[Flight]
    provenance: Mapping[str, Any]
    exchange: Exchange[None]  #: The segments at both hosts

    @property
    def segments(self) -> SegmentArray:
        """Recorded on the client's interface."""
        return self.exchange.captured

    def timeline(self) -> Timeline:
        """Segments and ACKs on one clock."""
        return self.exchange.timeline()


@experiment("short-transfer")
def measure(
    data_bytes: Annotated[int, Between(1, 10_000_000, "bytes")] = 72_400,
    rtt_ms: Annotated[float, Between(1, 1000, "ms")] = 40.0,
    rate_mbit: Annotated[float, Between(1, 1000, "Mbit/s")] = 50.0,
    network: Lab | None = None,
) -> ShortTransfer:
    """A transfer that ends before its path is full: the segments of each round trip.

    Args:
        data_bytes: the data, in one write.
        rtt_ms: round-trip time of the wire.
        rate_mbit: rate of the wire.
        network: a Lab of its own unless given.
    """
    lab_or_given = nullcontext(network) if network else Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit)
    with lab_or_given as lab:
        with lab.client.capture() as near, lab.server.capture() as far:
            sent = tcp_bulk(
                lab, write_bytes=data_bytes, count=1, sndbuf_bytes=None, rcvbuf_bytes=None
            )
        with near, far:
            exchange: Exchange[None] = Exchange(
                None,
                segments=near.segments,
                peer_segments=far.segments,
                tcp_info=sent.source.tcp_info,
                rate_mbit=rate_mbit,
                nodelay=False,
            )
        return ShortTransfer(
            flights(exchange.captured, rtt_ms),
            provenance(lab, data_bytes=data_bytes),
            exchange,
        )


def flights(segments: SegmentArray, rtt_ms: float) -> list[Flight]:
    """The client's data segments, parted where the sender paused for a quarter of the RTT."""
    data = segments.data("client")
    times = data["time_ns"].astype(np.int64)
    parts = np.split(data, np.flatnonzero(np.diff(times) > _PAUSE_RTT * rtt_ms * 1e6) + 1)
    expected = slow_start_flights(len(data))
    return [
        Flight(
            number=number,
            start_ms=(int(part["time_ns"][0]) - segments.first_time_ns) / 1e6,
            segments=len(part),
            model_segments=expected[number - 1] if number <= len(expected) else 0,
            bytes=int(part["payload_bytes"].sum()),
        )
        for number, part in enumerate(parts, 1)
    ]
