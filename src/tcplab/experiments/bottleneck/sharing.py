"""Run transfers from the clients of a laboratory to its server, recorded on one clock.

The congestion window and the round-trip time come from each sender's TCP_INFO. The queue and its
drops come from the link, which records every packet. At the same time, the first client can send
probes (UDP datagrams that are echoed, like pings) and small pages over new connections.
"""

import select
import socket
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from tcplab.capture import queue_events
from tcplab.errors import LabError
from tcplab.experiments.progress import in_labs
from tcplab.experiments.sockets import MSS_BYTES, connection, read_all, sending
from tcplab.lab import Host, Lab, Pair
from tcplab.programs import RunOptions, SinkOptions, TcpBulkResult, tcp_bulk

Congestion = Literal["cubic", "reno", "bbr"]

#: Maximum number of samples of a transfer, and of intervals of the queue. More would enlarge the
#: recordings but not improve the figures.
SAMPLES: Final = 500
_LEAST_MS: Final = 20.0
PROBE_S: Final = 0.1  #: time between two probes
PAGE_S: Final = 5 / 3  #: time between the starts of two pages
PAGE_BYTES: Final = 100_000


@dataclass(frozen=True, slots=True)
class FlowSample:
    """A sample of a sender's TCP_INFO."""

    time_s: float  #: time since the start of the measurement
    cwnd_segments: int
    rtt_ms: float  #: smoothed RTT
    acked_bytes: int
    delivered_bytes: int  #: bytes acknowledged so far, cumulatively or by SACK
    retransmissions: int


@dataclass(frozen=True, slots=True)
class Flow:
    """One transfer through the bottleneck."""

    name: str  #: name of the client
    congestion: str  #: congestion control, as the kernel reports it
    rtt_ms: float  #: RTT of the path without a queue
    moments: Sequence[FlowSample]

    @property
    def settled(self) -> Sequence[FlowSample]:
        """The samples in the second half, when the transfers have affected each other."""
        end_s = self.moments[-1].time_s
        return [moment for moment in self.moments if moment.time_s >= end_s / 2]

    @property
    def mbit(self) -> float:
        """The rate at which payload was delivered in the second half.

        The number of cumulatively acknowledged bytes would jump after a gap, so it is not used.
        """
        first, *_, last = self.settled
        bits = 8 * (last.delivered_bytes - first.delivered_bytes)
        return bits / (last.time_s - first.time_s) / 1e6

    @property
    def median_rtt_ms(self) -> float:
        return statistics.median(moment.rtt_ms for moment in self.settled)

    @property
    def retransmissions(self) -> int:
        return self.moments[-1].retransmissions


@dataclass(frozen=True, slots=True)
class Shared:
    """The record of one bottleneck. Times are in seconds since the start of the measurement."""

    flows: Sequence[Flow]
    #: start of each interval in which packets arrived, and the longest queue that one of them met
    queue: Sequence[tuple[float, int]]
    drops_s: Sequence[float]
    marks_s: Sequence[float]  #: times at which ECN-marked packets left the link
    probes: Sequence[tuple[float, float]]  #: (time of sending, ms until the echo) of echoed probes
    pages: Sequence[tuple[float, float]]  #: (start, duration in s) of each complete page

    @property
    def median_queue(self) -> float:
        """The median, in packets, of the longest queues of the intervals in the second half."""
        end_s = self.queue[-1][0]
        return statistics.median(length for time_s, length in self.queue if time_s >= end_s / 2)

    @property
    def rates_mbit(self) -> list[float]:
        return [flow.mbit for flow in self.flows]

    @property
    def mbit(self) -> float:
        return sum(self.rates_mbit)

    @property
    def nearest(self) -> Flow:
        return min(self.flows, key=lambda flow: flow.rtt_ms)

    @property
    def farthest(self) -> Flow:
        return max(self.flows, key=lambda flow: flow.rtt_ms)

    @property
    def page_s(self) -> list[float]:
        """The duration of each complete page in s, or a single NaN if there was none."""
        return [took_s for _start, took_s in self.pages] or [float("nan")]


def share(
    lab: Lab, congestions: Sequence[str], duration_s: float, *, bystander: bool = False
) -> Shared:
    """Send data from all clients to the server at the same time, and record the bottleneck.

    With `bystander`, the first client also sends probes and pages.
    """
    page_times: list[tuple[float, float]] = []
    probe_times: list[tuple[float, float]] = []
    with ExitStack() as stack:
        recording = stack.enter_context(lab.link.capture(snaplen=14))
        began_ns, stop = time.time_ns(), threading.Event()
        threads = stack.enter_context(ThreadPoolExecutor(len(congestions) + 2))
        running = [
            threads.submit(_transfer, lab, host, congestion, duration_s)
            for host, congestion in zip(lab.clients, congestions, strict=True)
        ]
        if bystander:
            threads.submit(_load_pages, lab, stop, began_ns, page_times)
            threads.submit(_send_probes, lab, stop, began_ns, probe_times)
        try:
            results = [transfer.result() for transfer in running]
        finally:
            stop.set()
            threads.shutdown()
    with recording:
        events = queue_events(recording)
        queue, drops_s, marks_s = _queue_of(events, began_ns, duration_s)
    flows = [
        _flow(host.name, lab.rtt_ms + rtt_ms, result, began_ns, duration_s)
        for host, rtt_ms, result in zip(lab.clients, lab.client_rtts_ms, results, strict=True)
    ]
    return Shared(flows, queue, drops_s, marks_s, probe_times, page_times)


def share_each(
    duration_s: float,
    cases: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
    *,
    bystander: bool = False,
) -> tuple[list[Shared], dict[str, Any]]:
    """Call :func:`share` for all cases at the same time, each in its own laboratory.

    A case has the laboratory's arguments and the congestion control of each client. Return the
    runs, and the provenance of the first one.
    """
    return in_labs(
        duration_s,
        cases,
        lambda case: {**case[0], "congestion": case[1][0]},
        lambda lab, case: share(lab, case[1], duration_s, bystander=bystander),
    )


# ---- transfers -----------------------------------------------------------------------------------


def _interval_ms(duration_s: float) -> float:
    return max(_LEAST_MS, 1000 * duration_s / SAMPLES)


def _transfer(lab: Lab, host: Host, congestion: str, duration_s: float) -> TcpBulkResult:
    return tcp_bulk(
        Pair(host, lab.server, congestion),
        write_bytes=16_384,
        duration_s=duration_s,
        sndbuf_bytes=None,
        rcvbuf_bytes=None,
        interval_ms=_interval_ms(duration_s),
        sink=SinkOptions(read_bytes=131_072),
        run=RunOptions(congestion=congestion),
    )


def _flow(
    name: str, rtt_ms: float, result: TcpBulkResult, began_ns: int, duration_s: float
) -> Flow:
    moments = [
        FlowSample(
            time_s=_seconds(sample["time_ns"] - began_ns),
            cwnd_segments=sample["snd_cwnd"],
            rtt_ms=sample["rtt_us"] / 1e3,
            acked_bytes=sample["bytes_acked"],
            delivered_bytes=sample["delivered"] * MSS_BYTES,
            retransmissions=sample["total_retrans"],
        )
        for sample in result.samples
    ]
    moments = [moment for moment in moments if moment.time_s <= duration_s]
    if len(moments) < 10:
        raise LabError(
            f"only {len(moments)} samples of TCP_INFO in {duration_s:g} s: the machine is too busy;"
            " run it again"
        )
    return Flow(name, result.source.options.congestion or "", rtt_ms, moments)


def _seconds(time_ns: int) -> float:
    """Convert ns to seconds, rounded to 0.1 ms, which is finer than any figure shows."""
    return round(time_ns / 1e9, 4)


def _queue_of(
    events: Any, began_ns: int, duration_s: float
) -> tuple[list[tuple[float, int]], list[float], list[float]]:
    """Return the longest queue of each interval with packets, and the times of drops and marks."""
    is_over = events["time_ns"] > began_ns + 1e9 * duration_s
    to_server = events[(events["direction"] == 0) & ~is_over]
    time_s = ((to_server["time_ns"] - began_ns) / 1e9).round(4)
    interval_ms = _interval_ms(duration_s)
    known = to_server["queue_packets"] >= 0
    slots = (time_s[known] * 1e3 / interval_ms).astype(int)
    longest = np.full(slots.max(initial=0) + 1, -1)
    np.maximum.at(longest, slots, to_server["queue_packets"][known])
    queue = [
        (round(slot * interval_ms / 1e3, 4), length)
        for slot, length in enumerate(longest.tolist())
        if length >= 0
    ]
    dropped_s = time_s[to_server["event"] == "dropped"].tolist()
    return queue, dropped_s, time_s[to_server["marked"]].tolist()


# ---- probes and pages ----------------------------------------------------------------------------


def _send_probes(
    lab: Lab, stop: threading.Event, began_ns: int, times: list[tuple[float, float]]
) -> None:
    with (
        lab.server.socket(kind=socket.SOCK_DGRAM) as echo,
        lab.client.socket(kind=socket.SOCK_DGRAM) as probe,
    ):
        echo.bind((lab.server.address, 0))
        probe.connect(echo.getsockname())
        due_s = time.monotonic()
        while not stop.is_set():
            if time.monotonic() >= due_s:
                probe.send(b"%d" % time.time_ns())
                due_s += PROBE_S
            left_s = max(due_s - time.monotonic(), 0)
            readable, _, _ = select.select([echo, probe], [], [], left_s)
            if echo in readable:
                data, sender = echo.recvfrom(64)
                echo.sendto(data, sender)
            if probe in readable:
                sent_ns = int(probe.recv(64))
                took_ms = round((time.time_ns() - sent_ns) / 1e6, 4)
                times.append((_seconds(sent_ns - began_ns), took_ms))


def _load_pages(
    lab: Lab, stop: threading.Event, began_ns: int, times: list[tuple[float, float]]
) -> None:
    due_s = time.monotonic() + PAGE_S
    while not stop.wait(max(due_s - time.monotonic(), 0)):
        due_s += PAGE_S
        start_ns = time.time_ns()
        with connection(lab) as (sender, receiver), sending(sender, PAGE_BYTES):
            read_all(receiver)
            took_ns = time.time_ns() - start_ns
        if not stop.is_set():
            times.append((_seconds(start_ns - began_ns), _seconds(took_ns)))
