"""Measure throughput against the size of a buffer, which is fixed or chosen by the kernel.

Sources: RFC 7323 (throughput ≤ window / RTT), tcp(7) (SO_RCVBUF disables autotuning).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.buffers.common import (
    MOST_BYTES,
    core_limit,
    held_bytes,
    send_window,
    steady_mbit,
    usable_window,
)
from tcplab.experiments.parameters import RateMbit
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.models import bdp_bytes, goodput_mbyte_s, throughput_mbit
from tcplab.programs import SinkOptions, tcp_bulk

Side = Literal["receive", "send"]
REQUESTS: Final = (8192, 16_384, 32_768, 65_536, 131_072, 262_144)


# ---- fixed sizes ---------------------------------------------------------------------------------


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

    @property
    def goodput_mbit(self) -> float:
        return 8 * goodput_mbyte_s(self.rate_mbit)

    @property
    def rtts_ms(self) -> list[float]:
        return list(dict.fromkeys(transfer.rtt_ms for transfer in self.variants))

    def knee_bytes(self, rtt_ms: float) -> float:
        """Return the window that just fills the link, which is goodput times round-trip time."""
        return bdp_bytes(self.goodput_mbit, rtt_ms)

    def of(self, rtt_ms: float) -> list[BufferedTransfer]:
        """Return the transfers with this round-trip time, in the order of the requested sizes."""
        return [transfer for transfer in self.variants if transfer.rtt_ms == rtt_ms]


@experiment("buffers", figure=lambda figures, result: figures.buffer_sweep(result))
def measure(
    rtts_ms: Annotated[Sequence[float], Between(1, 500, "ms"), "round-trip times"] = (10, 20, 40),
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

        transfers, done = one_by_one("buffers", pairs, run)
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
    source = result.source
    granted = result.sink.rcvbuf_granted_bytes if receiving else source.sndbuf_granted_bytes
    if receiving:
        window = max(sample["snd_wnd_bytes"] for sample in result.samples)
    else:
        late = result.samples[len(result.samples) // 2 :]
        window = statistics.median(map(held_bytes, late))
    return BufferedTransfer(
        rtt_ms=rtt_ms,
        requested_bytes=request,
        granted_bytes=granted,
        window_bytes=int(window),
        mbit=steady_mbit(result),
        rwnd_share=source.tcp_info["rwnd_limited_us"] / max(source.tcp_info["busy_time_us"], 1),
    )


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
    rtts_ms: Annotated[Sequence[float], Between(1, 500, "ms")] = (2, 40),
    requests: Annotated[Sequence[int | None], Between(1, MOST_BYTES, "bytes")] = (
        32_768,
        65_536,
        None,
    ),
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 100,
    duration_s: Annotated[float, Between(0.2, 60, "s"), "duration of each transfer"] = 0.8,
) -> Result[Tuned]:
    """Compare fixed receive buffers with one that the kernel tunes, on short and long paths.

    The kernel doubles 65,536 to 131,072, which is also the size that an unset socket starts with
    (tcp_rmem).

    Args:
        rtts_ms: round-trip times of the link
        requests: sizes of SO_RCVBUF to request; auto lets the kernel tune it
    """
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    # The queue is so long that it drops no packets, because recovery belongs to another lesson.
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit, queue_packets=5000) as lab:

        def run(pair: tuple[float, int | None]) -> Tuned:
            lab.link.update(rtt_ms=pair[0])
            return _tuned(lab, *pair, duration_s)

        transfers, done = one_by_one("autotuning", pairs, run)
        origin = provenance(lab, rmem_max_bytes=core_limit("rmem_max"), **done)
        return Result(transfers, origin)


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
    return Tuned(
        rtt_ms=rtt_ms,
        requested_bytes=request,
        start_bytes=result.sink.rcvbuf_granted_bytes,
        end_bytes=result.sink.rcvbuf_end_bytes,
        window_bytes=max(sample["snd_wnd_bytes"] for sample in result.samples),
        mbit=steady_mbit(result),
    )
