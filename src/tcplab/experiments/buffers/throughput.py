"""Measure throughput against the size of a buffer, which is fixed or chosen by the kernel.

Sources: RFC 7323 (throughput ≤ window / RTT), tcp(7) (SO_RCVBUF disables autotuning).
"""

import platform
import re
import socket
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from tcplab.errors import LabError
from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.parameters import RateMbit, RttMs, RttsMs
from tcplab.experiments.progress import case_by_case, one_by_one
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.experiments.sockets import MSS_BYTES, connection, read_all
from tcplab.lab import Lab
from tcplab.models import receive_window, throughput_mbit
from tcplab.programs import SinkOptions, TcpBulkResult, tcp_bulk
from tcplab.timeline.sockets import read_send_buffer, read_tcp_info, sampling

_REQUESTS: Final = (32_768, 65_536, None)
#: Overhead that the kernel charges to the send buffer per packet (measured on Linux 6.18).
SEND_OVERHEAD_BYTES: Final = 832
MOST_BYTES: Final = 1 << 30  #: the largest request that the experiments accept


def core_limit(name: str) -> int:
    """Return a limit of this machine, net.core.rmem_max or net.core.wmem_max."""
    return int(Path("/proc/sys/net/core", name).read_text())


def usable_window(granted_bytes: int, release: str = "") -> int:
    """Return the largest window of a fixed receive buffer with the given or the running kernel."""
    major, minor = map(int, re.findall(r"\d+", release or platform.release())[:2])
    return receive_window(granted_bytes, (major, minor))


def steady_mbit(result: TcpBulkResult) -> float:
    """Return the rate in a transfer's second half; LabError if that has fewer than two samples."""
    samples = result.samples
    half = [sample for sample in samples if sample["sample_s"] >= samples[-1]["sample_s"] / 2]
    if len(half) < 2:
        raise LabError(
            f"only {len(samples)} samples of TCP_INFO: the machine is too busy; run again"
        )
    bits = 8 * (half[-1]["bytes_acked"] - half[0]["bytes_acked"])
    return float(bits / (half[-1]["sample_s"] - half[0]["sample_s"]) / 1e6)


def held_bytes(sample: Mapping[str, Any]) -> int:
    """Return the number of bytes that a sender holds, in flight or not yet sent."""
    return int(sample["unacked"] * MSS_BYTES + sample["notsent_bytes"])


def send_window(granted_bytes: int, mss: int = MSS_BYTES) -> int:
    """Return the number of bytes that a send buffer accepts if they form full segments.

    A new segment may begin as long as the charge for the earlier ones is below the limit.
    """
    return -(-granted_bytes // (mss + SEND_OVERHEAD_BYTES)) * mss


Requests: TypeAlias = Annotated[
    Sequence[int | None], Between(1, MOST_BYTES, "bytes"), "sizes to request; auto requests none"
]


# ---- sizes of one buffer -------------------------------------------------------------------------


Side = Literal["receive", "send"]
REQUESTS: Final = (8192, 16_384, 32_768, 65_536, 131_072, 262_144)


class BufferedTransfer(
    Variant, key=("rtt_ms", "requested_bytes"), label="{0.rtt_ms:g} ms, {0.requested_bytes} bytes"
):
    """One transfer with a buffer of fixed size."""

    rtt_ms: float = column("RTT (ms)", "g", is_setting=True)
    requested_bytes: int = column("requested (bytes)", ",d")
    granted_bytes: int = column("granted (bytes)", ",d")
    #: Largest window that the receiver offered. If the send buffer is set, this is the median of
    #: the data that the sender held in the second half.
    window_bytes: int = column("window or data held (bytes)", ",d")

    @derived("model (bytes)", ",d")
    def model_window_bytes(self) -> int:
        size = self.granted_bytes
        return send_window(size) if self.within.side == "send" else usable_window(size, self.kernel)

    mbit: float = column("Mbit/s", ".1f")  #: rate in the second half
    model_mbit = computed(
        lambda case: throughput_mbit(case.model_window_bytes, case.rtt_ms, case.within.rate_mbit),
        "model (Mbit/s)",
        ".1f",
    )
    rwnd_share: float = column("rwnd_limited", ".0%")  #: rwnd_limited / busy time (TCP_INFO)


class Sweep(Result[BufferedTransfer]):
    """Transfers with several round-trip times and several sizes of one kind of buffer."""

    side: Side
    rate_mbit: float


@experiment(
    "buffers",
    figure=lambda figures, result: figures.draw_curves(
        result, "window_bytes", "mbit", "model_mbit", by="rtt_ms", log="xy"
    ),
    finding="Throughput is window / RTT until the link is full, to within {mbit.error}",
)
def measure(
    rtts_ms: Annotated[RttsMs, Between(1, 500, "ms")] = (10, 20, 40),
    requests: Annotated[Sequence[int], Between(1, MOST_BYTES, "bytes"), "buffer sizes"] = REQUESTS,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 50,
    side: Annotated[Side, "whose buffer is set: SO_RCVBUF or SO_SNDBUF"] = "receive",
) -> Sweep:
    """Measure throughput against the size of a socket buffer, for several round-trip times.

    The kernel tunes the other buffer. A send buffer is filled by writes of one MSS, because larger
    writes make it hold more than its size (see measure_held).
    """
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit) as lab:

        def run(pair: tuple[float, int]) -> BufferedTransfer:
            lab.link.update(rtt_ms=pair[0])
            return _transfer(lab, *pair, side)

        transfers, done = one_by_one(pairs, run)
        limits = {f"{name}_bytes": core_limit(name) for name in ("rmem_max", "wmem_max")}
        return Sweep(transfers, provenance(lab, **limits, **done), side, rate_mbit)


def _transfer(lab: Lab, rtt_ms: float, request: int, side: Side) -> BufferedTransfer:
    receiving = side == "receive"
    result = tcp_bulk(
        lab,
        write_bytes=65_536 if receiving else MSS_BYTES,
        duration_s=0.25 + 0.01 * rtt_ms,
        sndbuf_bytes=None if receiving else request,
        rcvbuf_bytes=request if receiving else None,
        interval_ms=max(5.0, rtt_ms / 4),
    )
    if receiving:
        granted = result.sink.rcvbuf_granted_bytes
        window = max(sample["snd_wnd_bytes"] for sample in result.samples)
    else:
        granted = result.source.sndbuf_granted_bytes
        late = result.samples[len(result.samples) // 2 :]
        window = int(statistics.median(map(held_bytes, late)))
    info = result.source.tcp_info
    rwnd_share = info["rwnd_limited_us"] / max(info["busy_time_us"], 1)
    return BufferedTransfer(rtt_ms, request, granted, window, steady_mbit(result), rwnd_share)


# ---- autotuning ----------------------------------------------------------------------------------


class Tuned(Variant, key=("rtt_ms", "requested_bytes"), label="{0.rtt_ms:g} ms, {0.asked}"):
    """A transfer with a receive buffer that is fixed, or tuned by the kernel."""

    rtt_ms: float = column("RTT (ms)", "g", is_setting=True)
    requested_bytes: int | None  #: requested SO_RCVBUF, or None for autotuning

    @derived("requested (bytes)")
    def asked(self) -> str:
        return "nothing" if self.requested_bytes is None else f"{self.requested_bytes:,}"

    start_bytes: int = column("SO_RCVBUF at the start", ",d")
    end_bytes: int = column("SO_RCVBUF at the end", ",d")
    window_bytes: int = column("largest window (bytes)", ",d")
    mbit: float = column("Mbit/s", ".1f")  #: rate in the second half


@experiment(
    "autotuning",
    figure=("mbit", "window_bytes"),
    finding="At an RTT of 40 ms, autotuning carries {mbit[40 ms, nothing/40 ms, "
    "32,768]} times as much as a buffer of 32,768 bytes",
)
def measure_autotuning(
    rtts_ms: Annotated[RttsMs, Between(1, 500, "ms")] = (2, 40),
    requests: Requests = _REQUESTS,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 100,
    duration_s: Annotated[float, Between(0.2, 60, "s"), "duration of each transfer"] = 0.8,
) -> Result[Tuned]:
    """Compare fixed receive buffers with one that the kernel tunes, on short and long paths.

    The kernel doubles 65,536 to 131,072, which is also the size that an unset socket starts with
    (tcp_rmem).
    """
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    # The queue is so long that it drops no packets, because recovery belongs to another lesson.
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit, queue_packets=5000) as lab:

        def run(pair: tuple[float, int | None]) -> Tuned:
            lab.link.update(rtt_ms=pair[0])
            return _tuned(lab, *pair, duration_s)

        return case_by_case(lab, pairs, run, rmem_max_bytes=core_limit("rmem_max"))


def _tuned(lab: Lab, rtt_ms: float, request: int | None, duration_s: float) -> Tuned:
    result = tcp_bulk(
        lab,
        write_bytes=65_536,
        duration_s=duration_s,
        sndbuf_bytes=None,
        rcvbuf_bytes=request,
        interval_ms=20,
        sink=SinkOptions(read_bytes=131_072),
    )
    window = max(sample["snd_wnd_bytes"] for sample in result.samples)
    sizes = result.sink.rcvbuf_granted_bytes, result.sink.rcvbuf_end_bytes, window
    return Tuned(rtt_ms, request, *sizes, steady_mbit(result))


# ---- the cause of a slow transfer ----------------------------------------------------------------


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

    @derived("limit found")
    def verdict(self) -> Verdict:
        if self.rwnd_share > 0.5:
            return "receive window"
        if self.unsent_bytes > MSS_BYTES:
            return "congestion window"
        # No data is waiting to be sent, so the writer lacks either room or data.
        return "send buffer" if self.sndbuf_full_share > 0.25 else "application"


@experiment(
    "buffer-limits",
    figure=lambda figures, result: figures.draw_bars(
        result, "in_flight_bytes", marks=["peer_window_bytes", "cwnd_bytes"]
    ),
    finding="The network lets {in_flight_bytes[network/receive buffer]} times as "
    "many bytes fly as the receive buffer",
)
def measure_limits(
    variants: Annotated[Sequence[Case], "bottlenecks to create, one per transfer"] = get_args(Case),
    rtt_ms: Annotated[RttMs, Between(5, 500, "ms")] = 20,
    rate_mbit: Annotated[RateMbit, Between(5, 1000, "Mbit/s")] = 20,
    buffer_bytes: Annotated[int, Between(4096, 1_000_000, "bytes")] = 8192,
) -> Result[Limit]:
    """Run four slow transfers, and show which of the kernel's numbers reveals the cause of each.

    Args:
        buffer_bytes: size of the small buffer. The slow application alternately writes half as many
            bytes and pauses for three round-trip times
    """
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, queue_packets=100) as lab:
        details = {"buffer_bytes": buffer_bytes}
        return case_by_case(lab, variants, lambda case: _limit_of(lab, case, **details), **details)


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
    late = samples[len(samples) // 2 :]
    first, last = late[0], late[-1]
    busy_us = max(last["busy_time_us"], 1)
    late_us = (last["time_ns"] - first["time_ns"]) / 1e3
    median = {key: statistics.median(sample[key] for sample in late) for key in last}
    return Limit(
        case=case,
        mbit=8 * (last["bytes_acked"] - first["bytes_acked"]) / late_us,
        in_flight_bytes=median["unacked"] * MSS_BYTES,
        cwnd_bytes=median["snd_cwnd"] * MSS_BYTES,
        peer_window_bytes=median["snd_wnd_bytes"],
        unsent_bytes=median["notsent_bytes"],
        sndbuf_full_share=statistics.fmean(
            3 * sample["sndbuf_used_bytes"] > 2 * sample["sndbuf_bytes"] for sample in late
        ),
        rwnd_share=last["rwnd_limited_us"] / busy_us,
        sndbuf_share=last["sndbuf_limited_us"] / busy_us,
    )


def _read(sock: socket.socket) -> dict[str, int]:
    return read_tcp_info(sock) | read_send_buffer(sock)
