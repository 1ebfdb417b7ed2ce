"""Queues that are too long: the round-trip time under load ("bufferbloat")."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tcplab.checks import number
from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.buffers.common import (
    MOST_BYTES,
    MSS_BYTES,
    Sample,
    samples_of,
    steady_mbit,
    within_all,
)
from tcplab.experiments.declaration import experiment
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab
from tcplab.models import bdp_bytes, serialisation_ms
from tcplab.programs import TcpBulkResult, small_writes, tcp_bulk
from tcplab.tables import Column

__all__ = ["Queue", "Queues", "measure_queues"]


@dataclass(frozen=True, slots=True)
class Queue:
    """A transfer through a queue of one length.

    Attributes:
        queue_packets: the queue before the bottleneck.
        rcvbuf_bytes: SO_RCVBUF asked for; None for not set.
        mbit: throughput of the second half.
        rtt_ms: the transfer's smoothed round-trip time, median of the second half.
        most_rtt_ms: its largest.
        full_queue_rtt_ms: what it is when the queue is full.
        most_queued_packets: the longest that the queue was.
        retransmissions: segments sent again.
        other_ms: median time of a small question and answer on another connection meanwhile.
        samples: over time.
    """

    queue_packets: int
    rcvbuf_bytes: int | None
    mbit: float
    rtt_ms: float
    most_rtt_ms: float
    full_queue_rtt_ms: float
    most_queued_packets: int
    retransmissions: int
    other_ms: float
    samples: Sequence[Sample]

    @property
    def name(self) -> str:
        """The queue, and the receive buffer if one was set."""
        name = f"queue of {self.queue_packets}"
        return name if self.rcvbuf_bytes is None else f"{name}, SO_RCVBUF {self.rcvbuf_bytes:,}"


@dataclass(frozen=True, slots=True)
class Queues:
    """Round-trip time under load, by the length of the queue."""

    experiment: ClassVar[str] = "bufferbloat"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "at the bottleneck"),
        Column("mbit", "Mbit/s", ".2f"),
        Column("rtt_ms", "RTT, median (ms)", ".0f"),
        Column("most_rtt_ms", "largest (ms)", ".0f"),
        Column("full_queue_rtt_ms", "with a full queue (ms)", ".0f"),
        Column("most_queued_packets", "queued at most", "d"),
        Column("retransmissions", "sent again", "d"),
        Column("other_ms", "a stranger's question (ms)", ".0f"),
    )

    rate_mbit: float
    rtt_ms: float
    queues: Sequence[Queue]
    provenance: Mapping[str, Any]

    def __getitem__(self, case: tuple[int, int | None]) -> Queue:
        for each in self.queues:
            if (each.queue_packets, each.rcvbuf_bytes) == case:
                return each
        raise KeyError(case)

    @property
    def bdp_packets(self) -> float:
        """What fills the wire, in full packets."""
        return bdp_bytes(self.rate_mbit, self.rtt_ms) / (MSS_BYTES + 90)

    def rows(self) -> list[dict[str, Any]]:
        """One row a queue."""
        return [
            {
                "variant": each.name,
                **{name: getattr(each, name) for name in Queue.__slots__ if name != "samples"},
            }
            for each in self.queues
        ]


@experiment("bufferbloat")
def measure_queues(
    cases: Sequence[tuple[int, int | None]] = (
        (20, None),
        (100, None),
        (1000, None),
        (1000, 24_576),
    ),
    rate_mbit: float = 10,
    rtt_ms: float = 20,
    duration_s: float = 2.0,
) -> Queues:
    """A transfer through each queue, and a small question beside it.

    Args:
        cases: pairs of queue length (1 to 10^5 packets) and SO_RCVBUF (bytes, or None).
        rate_mbit: of the wire, 1 to 1000.
        rtt_ms: of the wire when it is idle, 1 to 500.
        duration_s: of each transfer, 0.5 to 60.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    within_all("queue_packets", [packets for packets, _size in cases], 1, 1e5)
    within_all("rcvbuf_bytes", [size or 1 for _queue, size in cases], 1, MOST_BYTES, " bytes")
    number("rate_mbit", rate_mbit, 1, 1000, unit=" Mbit/s")
    number("rtt_ms", rtt_ms, 1, 500, unit=" ms")
    number("duration_s", duration_s, 0.5, 60, unit=" s")
    queues: list[Queue] = []
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit) as lab:
        with Rounds(len(cases), "queues") as rounds:
            for turn in rounds:
                queues.append(_queue(lab, *cases[turn], rate_mbit, rtt_ms, duration_s))
        return Queues(
            rate_mbit,
            rtt_ms,
            queues,
            provenance(
                lab, congestion=lab.congestion, interrupted=rounds.interrupted, runs=rounds.done
            ),
        )


def _queue(
    lab: Lab, packets: int, size: int | None, rate_mbit: float, rtt_ms: float, duration_s: float
) -> Queue:
    lab.link.update("client->server", queue_packets=packets)
    lab.link.command("reset")
    transfer: list[TcpBulkResult] = []

    def send() -> None:
        transfer.append(
            tcp_bulk(
                lab,
                write_bytes=16_384,
                duration_s=duration_s,
                sndbuf_bytes=None,
                rcvbuf_bytes=size,
                read_bytes=131_072,
                interval_ms=25,
            )
        )

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(0.6 * duration_s)
    other = small_writes(lab, "writev", messages=3, writes=1, cpu=None)
    thread.join()
    if not transfer:
        raise LabError(f"the transfer through the queue of {packets} packets failed")
    (result,) = transfer
    samples = samples_of(result)
    late = [each.rtt_ms for each in samples if each.time_s >= samples[-1].time_s / 2]
    counted = lab.link.counters()["client->server"]
    return Queue(
        queue_packets=packets,
        rcvbuf_bytes=size,
        mbit=steady_mbit(result),
        rtt_ms=statistics.median(late),
        most_rtt_ms=max(each.rtt_ms for each in samples),
        full_queue_rtt_ms=rtt_ms + packets * serialisation_ms(MSS_BYTES, rate_mbit),
        most_queued_packets=int(counted["queue_packets_max"]),
        retransmissions=result.source.tcp_info["total_retrans"],
        other_ms=other.message_us.median / 1e3,
        samples=samples,
    )
