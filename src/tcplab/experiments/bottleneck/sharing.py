"""Transfers from the clients of a laboratory to its server, watched on one clock.

The congestion window and the round-trip time are the kernel's (TCP_INFO of each sender), the queue
and its drops are the wire's own record, packet by packet. Beside the transfers there may be what a
bystander sees: the time of a probe (a UDP datagram and its echo, as a ping), and of a small page.
"""

from __future__ import annotations

import select
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np

from tcplab.capture import queue_events
from tcplab.errors import LabError
from tcplab.experiments.progress import in_labs
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Host, Lab, Pair
from tcplab.programs import RunOptions, SinkOptions, TcpBulkResult, tcp_bulk

Congestion = Literal["cubic", "reno", "bbr"]

#: Samples of a transfer and of the queue over time: as many as a figure has room for. More would
#: make a recording large, and no picture better.
SAMPLES: Final = 500
_LEAST_MS: Final = 20.0
#: Between two probes, as the handouts have it.
PROBE_S: Final = 0.1
#: Between the starts of two fetches of a page: three in five seconds.
PAGE_S: Final = 5 / 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moment:
    """One sample of a sender's TCP_INFO."""

    time_s: float  #: since the measurement began
    cwnd_segments: int  #: the congestion window
    rtt_ms: float  #: the smoothed round-trip time
    acked_bytes: int  #: acknowledged so far
    delivered_bytes: int  #: so far, those behind a gap (SACK) too
    retransmissions: int  #: segments sent again so far


@dataclass(frozen=True, slots=True)
class Flow:
    """One transfer."""

    name: str  #: of its client
    congestion: str  #: control, as the kernel says
    rtt_ms: float  #: round-trip time of its path without a queue
    moments: Sequence[Moment]

    @property
    def settled(self) -> Sequence[Moment]:
        """The second half: by then the transfers have met each other."""
        end_s = self.moments[-1].time_s
        return [each for each in self.moments if each.time_s >= end_s / 2]

    @property
    def mbit(self) -> float:
        """Payload delivered in the second half, in 10^6 bit/s.

        Of all flows it is no more than the line carries. What is acknowledged may be: it leaps when
        a gap from before is filled.
        """
        first, *_, last = self.settled
        bits = 8 * (last.delivered_bytes - first.delivered_bytes)
        return bits / (last.time_s - first.time_s) / 1e6

    @property
    def median_rtt_ms(self) -> float:
        """The round-trip time of the second half, queue included."""
        return statistics.median(each.rtt_ms for each in self.settled)

    @property
    def retransmissions(self) -> int:
        return self.moments[-1].retransmissions


@dataclass(frozen=True, slots=True)
class Shared:
    """All that was seen at one bottleneck; times in s since the measurement began."""

    flows: Sequence[Flow]
    #: time, the longest that a packet found until the next time; SAMPLES of them at most
    queue: Sequence[tuple[float, int]]
    drops_s: Sequence[float]  #: when a packet was dropped
    marks_s: Sequence[float]  #: when a marked one left (ECN)
    probes: Sequence[tuple[float, float]]  #: when it was sent, ms until its echo was back
    pages: Sequence[tuple[float, float]]  #: when the fetch began, s that it took

    @property
    def median_queue(self) -> float:
        """Packets in the queue, median of the second half."""
        end_s = self.queue[-1][0]
        return statistics.median(length for time_s, length in self.queue if time_s >= end_s / 2)


def share(
    lab: Lab,
    congestions: Sequence[str],
    duration_s: float,
    *,
    page_bytes: int = 0,
    probes: bool = False,
) -> Shared:
    """A transfer from each client to the server, all at the same time.

    Args:
        lab: with as many clients.
        congestions: congestion control of each client's transfer.
        duration_s: how long they send.
        page_bytes: size of a page that is fetched over the same bottleneck meanwhile; 0 for none.
        probes: send a datagram every 0.1 s, for its echo.

    Raises:
        LabError: a program failed, or the wire missed packets that it could not record.
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
        if page_bytes:
            server = stack.enter_context(_page_server(lab.client, page_bytes))
            page_times = _beside(threads, _fetches, lab.server, server, stop, began_ns)
        if probes:
            probe_times = _beside(threads, _probes, lab, stop, began_ns)
        try:
            results = [each.result() for each in running]
        finally:
            stop.set()
            threads.shutdown()
    with recording:
        events = queue_events(recording)
        queue, drops_s, marks_s = _queue_of(events, began_ns, _interval_ms(duration_s))
    flows = [
        _flow(host.name, lab.rtt_ms + rtt_ms, result, began_ns, duration_s)
        for host, rtt_ms, result in zip(lab.clients, lab.client_rtts_ms, results, strict=True)
    ]
    return Shared(
        flows,
        [(at_s, length) for at_s, length in queue if at_s <= duration_s],
        [at_s for at_s in drops_s if at_s <= duration_s],
        [at_s for at_s in marks_s if at_s <= duration_s],
        probe_times,
        page_times,
    )


def share_each(
    name: str,
    duration_s: float,
    cases: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
    **options: Any,
) -> tuple[list[Shared], dict[str, Any]]:
    """A :func:`share` per case, each in a laboratory of its own, all at once.

    Args:
        name: of the experiment.
        duration_s: of the transfers.
        cases: the laboratory's arguments, and the congestion control of each of its clients.
        **options: of share.

    Returns:
        The runs, and the provenance of that whose wire was latest.
    """
    shared, origins = in_labs(
        name,
        duration_s,
        cases,
        lambda case: {**case[0], "congestion": case[1][0]},
        lambda lab, case: share(lab, case[1], duration_s, **options),
    )
    return shared, max(origins, key=lambda each: float(each["wire_late_p99_ms"]))


# ---- transfers -----------------------------------------------------------------------------------


def _interval_ms(duration_s: float) -> float:
    """The time between two samples."""
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
        Moment(
            time_s=_seconds(each["time_ns"] - began_ns),
            cwnd_segments=each["snd_cwnd"],
            rtt_ms=each["rtt_us"] / 1e3,
            acked_bytes=each["bytes_acked"],
            delivered_bytes=each["delivered"] * MSS_BYTES,
            retransmissions=each["total_retrans"],
        )
        for each in result.samples
    ]
    moments = [each for each in moments if each.time_s <= duration_s]
    if len(moments) < 10:
        raise LabError(
            f"only {len(moments)} samples of TCP_INFO in {duration_s:g} s: the machine is too busy"
        )
    return Flow(name, result.source.options.congestion or "", rtt_ms, moments)


def _seconds(time_ns: int) -> float:
    """To a tenth of a millisecond, in which no figure shows a difference."""
    return round(time_ns / 1e9, 4)


def _queue_of(
    events: Any, began_ns: int, interval_ms: float
) -> tuple[list[tuple[float, int]], list[float], list[float]]:
    """The longest queue of each interval, and the times of drops and marks, client to server."""
    mine = events[events["direction"] == 0]
    at_s = ((mine["time_ns"] - began_ns) / 1e9).round(4)
    seen = mine["queue_packets"] >= 0
    slots = (at_s[seen] * 1e3 / interval_ms).astype(int)
    longest = np.full(slots.max(initial=0) + 1, -1)
    np.maximum.at(longest, slots, mine["queue_packets"][seen])
    queue = [
        (round(slot * interval_ms / 1e3, 4), length)
        for slot, length in enumerate(longest.tolist())
        if length >= 0  # somebody came, and found it so long
    ]
    dropped = at_s[mine["event"] == "dropped"].tolist()
    return queue, dropped, at_s[mine["marked"]].tolist()


# ---- what a bystander sees -----------------------------------------------------------------------


def _beside(
    threads: ThreadPoolExecutor, work: Callable[..., None], *arguments: Any
) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    threads.submit(work, *arguments, found)
    return found


def _probes(
    lab: Lab, stop: threading.Event, began_ns: int, found: list[tuple[float, float]]
) -> None:
    """Sends a datagram every 0.1 s and times its echo; both ends are here."""
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
                found.append((_seconds(sent_ns - began_ns), took_ms))


@contextmanager
def _page_server(host: Host, page_bytes: int) -> Iterator[tuple[str, int]]:
    """Answers each connection with a page, as `python -m http.server` would."""
    page = bytes(page_bytes)

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _address = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(page)
            except OSError:  # the listener was shut down, or the fetch was given up
                if listener.fileno() < 0 or not serving.is_set():
                    return

    serving = threading.Event()
    serving.set()
    with host.socket() as listener:
        listener.bind((host.address, 0))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            serving.clear()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _fetches(
    host: Host,
    server: tuple[str, int],
    stop: threading.Event,
    began_ns: int,
    found: list[tuple[float, float]],
) -> None:
    """Fetches the page every five thirds of a second, or when the last one is there."""
    due_s = time.monotonic() + PAGE_S
    while not stop.wait(max(due_s - time.monotonic(), 0)):
        due_s += PAGE_S
        start_ns = time.time_ns()
        with host.socket() as fetch:
            fetch.settimeout(30)
            fetch.connect(server)
            fetch.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while fetch.recv(1 << 16):
                pass
        if not stop.is_set():
            found.append((_seconds(start_ns - began_ns), _seconds(time.time_ns() - start_ns)))
