"""Run four slow transfers, and find the cause of each in the kernel's data on the socket."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, Variant, column, derived, experiment, provenance
from tcplab.experiments.buffers.common import steady_mbit
from tcplab.experiments.parameters import RateMbit, RttMs
from tcplab.experiments.sockets import MSS_BYTES, connection, read_all
from tcplab.lab import Lab
from tcplab.programs import tcp_bulk

Case = Literal["receive buffer", "send buffer", "network", "application"]
Verdict = Literal["receive window", "congestion window", "application", "send buffer"]


class Limit(Variant):
    """A transfer with one limit. The sizes are medians over the second half of the samples."""

    case: Case = column("bottleneck")
    mbit: float = column("Mbit/s", ".1f")  #: rate in the second half, or overall for "application"
    in_flight_bytes: float = column("in flight (bytes)", ",.0f")
    peer_window_bytes: float = column("peer's window", ",.0f")
    cwnd_bytes: float = column("congestion window", ",.0f")
    unsent_bytes: float = column("unsent", ",.0f")
    #: Share of the second half's samples with more than two thirds of the send buffer in use. The
    #: kernel wakes a blocked writer only when less is in use (sk_stream_is_writeable).
    sndbuf_full_share: float = column("send buffer full", ".0%")
    rwnd_share: float = column("rwnd_limited", ".0%")  #: share of the busy time
    sndbuf_share: float = column("sndbuf_limited", ".0%")  #: share of the busy time
    busy_share: float = column("busy", ".0%")  #: share of the time with data outstanding

    @derived("limit found")
    def verdict(self) -> Verdict:
        if self.rwnd_share > 0.5:
            return "receive window"
        if self.unsent_bytes > MSS_BYTES:
            return "congestion window"
        # No data is waiting to be sent, so the writer lacks either room or data.
        return "send buffer" if self.sndbuf_full_share > 0.25 else "application"


Limits: TypeAlias = Result[Limit]


@experiment("buffer-limits")
def measure_limits(
    variants: Annotated[Sequence[Case], "bottlenecks to create, one per transfer"] = get_args(Case),
    rtt_ms: Annotated[RttMs, Between(5, 500, "ms")] = 20,
    rate_mbit: Annotated[RateMbit, Between(5, 1000, "Mbit/s")] = 20,
    buffer_bytes: Annotated[int, Between(4096, 1_000_000, "bytes")] = 8192,
) -> Limits:
    """Run four slow transfers, and show which of the kernel's numbers reveals the cause of each.

    Args:
        buffer_bytes: size of the small buffer. The slow application alternately writes half as many
            bytes and pauses for three round-trip times
    """
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, queue_packets=100) as lab:
        limits = [_limit_of(lab, case, rtt_ms, buffer_bytes) for case in variants]
        return Result(limits, provenance(lab, buffer_bytes=buffer_bytes))


def _limit_of(lab: Lab, case: Case, rtt_ms: float, buffer_bytes: int) -> Limit:
    seconds = 0.4 + 0.02 * rtt_ms
    if case == "application":
        return _slow_application(lab, rtt_ms, buffer_bytes, seconds)
    result = tcp_bulk(
        lab,
        write_bytes=MSS_BYTES,
        duration_s=seconds,
        sndbuf_bytes=buffer_bytes if case == "send buffer" else None,
        rcvbuf_bytes=buffer_bytes if case == "receive buffer" else None,
        interval_ms=rtt_ms / 4,
    )
    # TCP_INFO's counters cover the whole transfer, so their shares need its whole duration.
    info, mbit = result.source.tcp_info, steady_mbit(result)
    return _limit_from(case, result.samples, info, mbit, result.source.usage.wall_s)


def _slow_application(lab: Lab, rtt_ms: float, buffer_bytes: int, seconds: float) -> Limit:
    """Run a sender that alternately writes a little and pauses for three round-trip times."""
    from tcplab.timeline.sockets import read_send_buffer, read_tcp_info, sampling

    def read(sock: socket.socket) -> dict[str, int]:
        return read_tcp_info(sock) | read_send_buffer(sock)

    with connection(lab) as (sender, receiver):
        reader = threading.Thread(target=read_all, args=(receiver,), daemon=True)
        reader.start()
        start, count = time.monotonic(), 0
        with sampling(sender, rtt_ms / 4, read) as samples:
            while time.monotonic() < start + seconds:
                sender.sendall(bytes(buffer_bytes // 2))
                count += buffer_bytes // 2
                time.sleep(3 * rtt_ms / 1e3)
        wall_s = time.monotonic() - start
        info = read_tcp_info(sender)
        sender.shutdown(socket.SHUT_WR)
        reader.join()
    return _limit_from("application", samples, info, count * 8 / wall_s / 1e6, wall_s)


def _limit_from(
    case: Case,
    samples: Sequence[Mapping[str, Any]],
    info: Mapping[str, Any],
    mbit: float,
    wall_s: float,
) -> Limit:
    late = samples[len(samples) // 2 :]

    def median(value: Callable[[Mapping[str, Any]], float]) -> float:
        return statistics.median(value(sample) for sample in late)

    busy_us = max(info["busy_time_us"], 1)
    return Limit(
        case=case,
        mbit=mbit,
        in_flight_bytes=median(lambda sample: sample["unacked"] * MSS_BYTES),
        cwnd_bytes=median(lambda sample: sample["snd_cwnd"] * MSS_BYTES),
        peer_window_bytes=median(lambda sample: sample["snd_wnd_bytes"]),
        unsent_bytes=median(lambda sample: sample["notsent_bytes"]),
        sndbuf_full_share=statistics.fmean(
            3 * sample["sndbuf_used_bytes"] > 2 * sample["sndbuf_bytes"] for sample in late
        ),
        rwnd_share=info["rwnd_limited_us"] / busy_us,
        sndbuf_share=info["sndbuf_limited_us"] / busy_us,
        busy_share=min(info["busy_time_us"] / 1e6 / wall_s, 1.0),
    )
