"""Queues that are too long: the round-trip time under load ("bufferbloat")."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from tcplab.checks import whole
from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.buffers.common import MOST_BYTES, Sample, samples_of, steady_mbit
from tcplab.experiments.progress import in_labs
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.models import serialisation_ms
from tcplab.programs import RunOptions, SinkOptions, small_writes, tcp_bulk


class Queue(Variant, key=("queue_packets", "rcvbuf_bytes"), heading="at the bottleneck"):
    """A transfer through a queue of one length."""

    queue_packets: int  #: the queue before the bottleneck
    rcvbuf_bytes: int | None  #: SO_RCVBUF asked for; None for not set
    mbit: float = column("Mbit/s", ".2f")  #: throughput of the second half
    #: the transfer's smoothed round-trip time, median of the second half; its largest; and what it
    #: is when the queue is full
    rtt_ms: float = column("RTT, median (ms)", ".0f")
    most_rtt_ms: float = column("largest (ms)", ".0f")
    full_queue_rtt_ms: float = column("with a full queue (ms)", ".0f")
    most_queued_packets: int = column("queued at most", "d")
    retransmissions: int = column("sent again", "d")
    #: median time of a small question and answer on another connection meanwhile
    other_ms: float = column("another host's request (ms)", ".0f")
    samples: Sequence[Sample]  #: over time

    @property
    def label(self) -> str:
        """The queue, and the receive buffer if one was set."""
        name = f"queue of {self.queue_packets}"
        return name if self.rcvbuf_bytes is None else f"{name}, SO_RCVBUF {self.rcvbuf_bytes:,}"


class Queues(Result[Queue]):
    """Round-trip time under load, by the length of the queue."""

    rate_mbit: float
    rtt_ms: float


@experiment("queue-lengths")
def measure_queues(
    variants: Sequence[tuple[int, int | None]] = (
        (20, None),
        (100, None),
        (1000, None),
        (1000, 24_576),
    ),
    rate_mbit: Annotated[float, Between(1, 1000, "Mbit/s")] = 10,
    rtt_ms: Annotated[float, Between(1, 500, "ms")] = 20,
    duration_s: Annotated[float, Between(0.5, 60, "s")] = 20.0,
) -> Queues:
    """A transfer through queues of several lengths, and a small request beside it.

    The transfers run at the same time, each over a wire of its own, which they wait for nearly all
    of the time.

    Args:
        variants: pairs of queue length (1 to 10^5 packets) and SO_RCVBUF (bytes, or None).
        rate_mbit: rate of the wire.
        rtt_ms: round-trip time of the idle wire.
        duration_s: duration of the transfers; TCP needs some 20 s to fill a queue of 1000 packets.
    """
    for packets, size in variants:
        whole("queue_packets", packets, 1, 100_000)
        whole("rcvbuf_bytes", size or 1, 1, MOST_BYTES, unit=" bytes")
    queues, origins = in_labs(
        "queue-lengths",
        duration_s,
        variants,
        lambda case: {"rtt_ms": rtt_ms, "rate_mbit": rate_mbit, "queue_packets": case[0]},
        lambda lab, case: _queue(lab, *case, rate_mbit, rtt_ms, duration_s),
    )
    return Queues(queues, origins[0], rate_mbit, rtt_ms)


def _queue(
    lab: Lab, packets: int, size: int | None, rate_mbit: float, rtt_ms: float, duration_s: float
) -> Queue:
    with ThreadPoolExecutor(1) as beside:
        transfer = beside.submit(
            tcp_bulk,
            lab,
            write_bytes=16_384,
            duration_s=duration_s,
            sndbuf_bytes=None,
            rcvbuf_bytes=size,
            interval_ms=25,
            sink=SinkOptions(read_bytes=131_072),
        )
        time.sleep(0.9 * duration_s)
        other = small_writes(lab, "writev", messages=3, writes=1, run=RunOptions())
        result = transfer.result()
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
