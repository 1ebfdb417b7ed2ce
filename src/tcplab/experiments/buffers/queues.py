"""Measure the round-trip time of transfers through short and long queues ("bufferbloat")."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from tcplab.checks import whole
from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.buffers.common import MOST_BYTES, Sample, samples_of, steady_mbit
from tcplab.experiments.parameters import DurationS, RateMbit, RttMs
from tcplab.experiments.progress import in_labs
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.models import serialisation_ms
from tcplab.programs import RunOptions, SinkOptions, small_writes, tcp_bulk


class Queue(Variant, key=("queue_packets", "rcvbuf_bytes"), heading="bottleneck"):
    """A transfer through a queue of a given length."""

    queue_packets: int
    rcvbuf_bytes: int | None  #: requested SO_RCVBUF, or None for autotuning
    mbit: float = column("Mbit/s", ".2f")  #: rate in the second half
    rtt_ms: float = column("median RTT (ms)", ".0f")  #: smoothed RTT, in the second half
    most_rtt_ms: float = column("max RTT (ms)", ".0f")
    full_queue_rtt_ms: float = column("RTT with full queue (ms)", ".0f")
    most_queued_packets: int = column("max queue (packets)", "d")
    retransmissions: int = column("retransmissions", "d")
    #: Median time for a small request and its answer on another connection.
    other_ms: float = column("request on another connection (ms)", ".0f")
    samples: Sequence[Sample]

    @property
    def label(self) -> str:
        name = f"queue of {self.queue_packets}"
        return name if self.rcvbuf_bytes is None else f"{name}, SO_RCVBUF {self.rcvbuf_bytes:,}"


class Queues(Result[Queue]):
    """Transfers through queues of several lengths."""

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
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 10,
    rtt_ms: Annotated[RttMs, Between(1, 500, "ms")] = 20,
    duration_s: Annotated[DurationS, Between(0.5, 60, "s")] = 20.0,
) -> Queues:
    """Run a transfer through queues of several lengths, and time a small request while it runs.

    With the default rate and RTT, TCP needs about 20 s to fill a queue of 1000 packets.

    Args:
        variants: pairs of queue length (1 to 10^5 packets) and SO_RCVBUF (bytes, or None)
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
    with ThreadPoolExecutor(1) as thread:
        transfer = thread.submit(
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
    late = [sample.rtt_ms for sample in samples if sample.time_s >= samples[-1].time_s / 2]
    counters = lab.link.counters()["client->server"]
    return Queue(
        queue_packets=packets,
        rcvbuf_bytes=size,
        mbit=steady_mbit(result),
        rtt_ms=statistics.median(late),
        most_rtt_ms=max(sample.rtt_ms for sample in samples),
        full_queue_rtt_ms=rtt_ms + packets * serialisation_ms(MSS_BYTES, rate_mbit),
        most_queued_packets=int(counters["queue_packets_max"]),
        retransmissions=result.source.tcp_info["total_retrans"],
        other_ms=other.message_us.median / 1e3,
        samples=samples,
    )
