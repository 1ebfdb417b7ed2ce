"""Run four slow transfers, and find the cause of each in the kernel's data on the socket."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, Variant, column, derived, experiment, provenance
from tcplab.experiments.parameters import RateMbit, RttMs
from tcplab.experiments.sockets import MSS_BYTES, connection, read_all
from tcplab.lab import Lab
from tcplab.timeline.sockets import read_send_buffer, read_tcp_info, sampling

Case = Literal["receive buffer", "send buffer", "network", "application"]
Verdict = Literal["receive window", "congestion window", "application", "send buffer"]


class Limit(Variant):
    """A transfer with one limit. The sizes are medians over the second half of the samples."""

    case: Case = column("bottleneck")
    mbit: float = column("Mbit/s", ".1f")  #: rate in the second half
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


@experiment(
    "buffer-limits",
    figure=("in_flight_bytes", "peer_window_bytes", "cwnd_bytes", "unsent_bytes"),
    finding="The network lets {in_flight_bytes[network/receive buffer]} times as "
    "many bytes fly as the receive buffer",
)
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
        limits = [_limit_of(lab, case, buffer_bytes) for case in variants]
        return Result(limits, provenance(lab, buffer_bytes=buffer_bytes))


def _limit_of(lab: Lab, case: Case, buffer_bytes: int) -> Limit:
    slow = case == "application"
    size = buffer_bytes // 2 if slow else MSS_BYTES
    duration_s = 0.4 + 0.02 * lab.rtt_ms
    before = buffer_bytes if case == "receive buffer" else None
    with connection(lab, before=before) as (sender, receiver):
        if case == "send buffer":
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        reader = threading.Thread(target=read_all, args=(receiver,), daemon=True)
        reader.start()
        end_s = time.monotonic() + duration_s
        with sampling(sender, lab.rtt_ms / 4, _read) as samples:
            while time.monotonic() < end_s:
                sender.sendall(bytes(size))
                time.sleep(3 * lab.rtt_ms / 1e3 if slow else 0)
        sender.shutdown(socket.SHUT_WR)
        reader.join()
    return _limit_from(case, samples)


def _read(sock: socket.socket) -> dict[str, int]:
    return read_tcp_info(sock) | read_send_buffer(sock)


def _limit_from(case: Case, samples: Sequence[Mapping[str, int]]) -> Limit:
    late = samples[len(samples) // 2 :]
    first, last = late[0], late[-1]

    def median(value: Callable[[Mapping[str, int]], float]) -> float:
        return statistics.median(value(sample) for sample in late)

    busy_us = max(last["busy_time_us"], 1)
    took_us = (last["time_ns"] - samples[0]["time_ns"]) / 1e3
    late_us = (last["time_ns"] - first["time_ns"]) / 1e3
    return Limit(
        case=case,
        mbit=8 * (last["bytes_acked"] - first["bytes_acked"]) / late_us,
        in_flight_bytes=median(lambda sample: sample["unacked"] * MSS_BYTES),
        cwnd_bytes=median(lambda sample: sample["snd_cwnd"] * MSS_BYTES),
        peer_window_bytes=median(lambda sample: sample["snd_wnd_bytes"]),
        unsent_bytes=median(lambda sample: sample["notsent_bytes"]),
        sndbuf_full_share=statistics.fmean(
            3 * sample["sndbuf_used_bytes"] > 2 * sample["sndbuf_bytes"] for sample in late
        ),
        rwnd_share=last["rwnd_limited_us"] / busy_us,
        sndbuf_share=last["sndbuf_limited_us"] / busy_us,
        busy_share=min(last["busy_time_us"] / took_us, 1.0),
    )
