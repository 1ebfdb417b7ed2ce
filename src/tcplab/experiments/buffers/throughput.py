"""Throughput against the size of a buffer: fixed sizes, and one that the kernel chooses.

Sources: RFC 7323 (throughput ≤ window / RTT), tcp(7) (SO_RCVBUF disables autotuning).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from tcplab.experiments import Between, Result, Variant, column, derived, experiment, provenance
from tcplab.experiments.buffers.common import (
    MOST_BYTES,
    Sample,
    core_limit,
    held_bytes,
    kernel_version,
    limited_share,
    samples_of,
    send_window,
    steady_mbit,
)
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.models import bdp_bytes, goodput_mbyte_s, throughput_mbit, window_from_buffer
from tcplab.programs import SinkOptions, tcp_bulk

Side = Literal["receive", "send"]
REQUESTS: Final = (8192, 16_384, 32_768, 65_536, 131_072, 262_144)


# ---- fixed sizes ---------------------------------------------------------------------------------


class Transfer(
    Variant, key=("rtt_ms", "requested_bytes"), label="{0.rtt_ms:g} ms, {0.requested_bytes} bytes"
):
    """One transfer."""

    rtt_ms: float = column("RTT (ms)", "g", is_setting=True)
    requested_bytes: int = column("asked for (bytes)", ",d")  #: SO_RCVBUF or SO_SNDBUF
    granted_bytes: int = column("granted", ",d")
    #: the largest window that the receiver offered; for the send buffer, what the sender held
    #: (unacknowledged or unsent), median of the second half
    window_bytes: int = column("window offered, or data held", ",d")
    model_window_bytes: int = column("by the model", ",d")  #: what the model makes of the grant
    mbit: float = column("Mbit/s", ".1f")  #: throughput of the second half of the transfer
    #: window / RTT, or the wire's goodput if that is less
    model_mbit: float = column("model's Mbit/s", ".1f")
    #: of the busy time, how much the receiver's window was in the way (TCP_INFO)
    rwnd_share: float = column("window in the way", ".0%")
    sndbuf_share: float  #: the same of the send buffer, as far as TCP_INFO notices


class Sweep(Result[Transfer]):
    """Throughput against the size of one buffer, in order of round-trip time and size."""

    side: Side
    rate_mbit: float

    @property
    def goodput_mbit(self) -> float:
        """The wire's rate for the application's data."""
        return 8 * goodput_mbyte_s(self.rate_mbit)

    @property
    def rtts_ms(self) -> list[float]:
        """The round-trip times, each once."""
        return list(dict.fromkeys(each.rtt_ms for each in self.variants))

    def knee_bytes(self, rtt_ms: float) -> float:
        """The window that just fills the wire: goodput times round-trip time."""
        return bdp_bytes(self.goodput_mbit, rtt_ms)

    def of(self, rtt_ms: float) -> list[Transfer]:
        """The points of one round-trip time, by size."""
        return [each for each in self.variants if each.rtt_ms == rtt_ms]

    def rows(self) -> list[dict[str, Any]]:
        """One row per transfer, with the window that just fills its wire."""
        return [each.row() | {"bdp_bytes": self.knee_bytes(each.rtt_ms)} for each in self.variants]


@experiment("buffers")
def measure(
    rtts_ms: Annotated[Sequence[float], Between(1, 500, "ms")] = (10, 20, 40),
    requests: Annotated[Sequence[int], Between(1, MOST_BYTES, "bytes")] = REQUESTS,
    rate_mbit: Annotated[float, Between(1, 1000, "Mbit/s")] = 50,
    side: Side = "receive",
) -> Sweep:
    """Throughput against the size of a socket buffer, for several round-trip times.

    The other buffer is the kernel's. A send buffer is filled by writes of one MSS: larger ones make
    it hold more than its size (see measure_held).

    Args:
        rtts_ms: round-trip times of the wire.
        requests: sizes of SO_RCVBUF or SO_SNDBUF to ask for.
        rate_mbit: rate of the wire.
        side: whose buffer is set.
    """
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit) as lab:

        def run(pair: tuple[float, int]) -> Transfer:
            lab.link.update(rtt_ms=pair[0])
            return _transfer(lab, *pair, rate_mbit, side)

        transfers, done = one_by_one("buffers", pairs, run)
        limits = {f"{name}_bytes": core_limit(name) for name in ("rmem_max", "wmem_max")}
        return Sweep(transfers, provenance(lab, **limits, **done), side, rate_mbit)


def _transfer(lab: Lab, rtt_ms: float, request: int, rate_mbit: float, side: Side) -> Transfer:
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
        window = max(each["snd_wnd_bytes"] for each in result.samples)
        model = window_from_buffer(granted, kernel_version())
    else:
        late = result.samples[len(result.samples) // 2 :]
        window = statistics.median(held_bytes(each) for each in late)
        model = send_window(granted)
    return Transfer(
        rtt_ms=rtt_ms,
        requested_bytes=request,
        granted_bytes=granted,
        window_bytes=int(window),
        model_window_bytes=model,
        mbit=steady_mbit(result),
        model_mbit=throughput_mbit(model, rtt_ms, rate_mbit),
        rwnd_share=limited_share(source, "rwnd_limited_us"),
        sndbuf_share=limited_share(source, "sndbuf_limited_us"),
    )


# ---- autotuning ----------------------------------------------------------------------------------


class Tuned(Variant, key=("rtt_ms", "requested_bytes"), label="{0.rtt_ms:g} ms, {0.asked}"):
    """A transfer over a path, with a receive buffer that is fixed or left to the kernel."""

    rtt_ms: float = column("RTT (ms)", "g", is_setting=True)
    requested_bytes: int | None  #: SO_RCVBUF asked for; None for not set

    @derived("asked for (bytes)")
    def asked(self) -> str:
        return "nothing" if self.requested_bytes is None else f"{self.requested_bytes:,}"

    start_bytes: int = column("SO_RCVBUF at the start", ",d")
    end_bytes: int = column("at the end", ",d")

    @derived("largest window", ",d")
    def window_bytes(self) -> int:
        return max(sample.window_bytes for sample in self.samples)

    mbit: float = column("Mbit/s", ".1f")  #: throughput of the second half
    samples: Sequence[Sample]  #: over time


class Autotuning(Result[Tuned]):
    """Fixed sizes and the kernel's own, over paths of different length."""

    rate_mbit: float


@experiment("autotuning")
def measure_autotuning(
    rtts_ms: Annotated[Sequence[float], Between(1, 500, "ms")] = (2, 40),
    requests: Annotated[Sequence[int | None], Between(1, MOST_BYTES, "bytes")] = (
        32_768,
        65_536,
        None,
    ),
    rate_mbit: Annotated[float, Between(1, 1000, "Mbit/s")] = 100,
    duration_s: Annotated[float, Between(0.2, 60, "s")] = 0.8,
) -> Autotuning:
    """Fixed receive buffers beside one that the kernel tunes, over short and long paths.

    65 536 is doubled to 131 072, which is what an unset socket starts with (tcp_rmem): the same
    size, once fixed and once free to grow.

    Args:
        rtts_ms: round-trip times of the wire.
        requests: sizes of SO_RCVBUF to ask for; auto leaves it to the kernel.
        rate_mbit: rate of the wire.
        duration_s: duration of each transfer.
    """
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    # A queue that loses nothing: what follows a loss is another lesson.
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit, queue_packets=5000) as lab:

        def run(pair: tuple[float, int | None]) -> Tuned:
            lab.link.update(rtt_ms=pair[0])
            return _tuned(lab, *pair, duration_s)

        transfers, done = one_by_one("autotuning", pairs, run)
        origin = provenance(lab, rmem_max_bytes=core_limit("rmem_max"), **done)
        return Autotuning(transfers, origin, rate_mbit)


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
        mbit=steady_mbit(result),
        samples=samples_of(result),
    )
