"""Throughput against the size of a buffer: fixed sizes, and one that the kernel chooses.

Sources: RFC 7323 (throughput ≤ window / RTT), tcp(7) (SO_RCVBUF disables autotuning).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.checks import number
from tcplab.experiments import provenance
from tcplab.experiments.buffers.common import (
    MOST_BYTES,
    MSS_BYTES,
    Sample,
    core_limit,
    held_bytes,
    kernel_version,
    limited_share,
    samples_of,
    send_window,
    steady_mbit,
    within_all,
)
from tcplab.experiments.declaration import experiment
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab
from tcplab.models import bdp_bytes, goodput_mbyte_s, throughput_mbit, window_from_buffer
from tcplab.programs import tcp_bulk
from tcplab.tables import Column

__all__ = [
    "REQUESTS",
    "SIDES",
    "Autotuning",
    "Path",
    "Point",
    "Side",
    "Sweep",
    "measure",
    "measure_autotuning",
]

Side = Literal["receive", "send"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
REQUESTS: Final = (8192, 16_384, 32_768, 65_536, 131_072, 262_144)


# ---- fixed sizes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """One transfer.

    Attributes:
        rtt_ms: of the wire.
        requested_bytes: SO_RCVBUF or SO_SNDBUF as asked for.
        granted_bytes: as granted.
        window_bytes: the largest window that the receiver offered; for the send buffer, what the
            sender held (unacknowledged or unsent), median of the second half.
        model_window_bytes: what the model makes of the grant.
        mbit: throughput of the second half of the transfer.
        model_mbit: window / RTT, or the wire's goodput if that is less.
        rwnd_share: of the busy time, how much the receiver's window was in the way (TCP_INFO).
        sndbuf_share: the same of the send buffer, as far as TCP_INFO notices.
    """

    rtt_ms: float
    requested_bytes: int
    granted_bytes: int
    window_bytes: int
    model_window_bytes: int
    mbit: float
    model_mbit: float
    rwnd_share: float
    sndbuf_share: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """Throughput against the size of one buffer.

    Attributes:
        side: which buffer.
        rate_mbit: of the wire.
        points: in order of round-trip time and size.
        provenance: see tcplab.experiments.provenance.
    """

    experiment: ClassVar[str] = "buffers"
    columns: ClassVar[Sequence[Column]] = (
        Column("rtt_ms", "RTT (ms)", "g"),
        Column("requested_bytes", "asked for (bytes)", ",d"),
        Column("granted_bytes", "granted", ",d"),
        Column("window_bytes", "window offered, or data held", ",d"),
        Column("model_window_bytes", "by the model", ",d"),
        Column("mbit", "Mbit/s", ".1f"),
        Column("model_mbit", "model's Mbit/s", ".1f"),
        Column("rwnd_share", "window in the way", ".0%"),
    )

    side: Side
    rate_mbit: float
    points: Sequence[Point]
    provenance: Mapping[str, Any]

    @property
    def goodput_mbit(self) -> float:
        """What the wire carries of the application's data."""
        return 8 * goodput_mbyte_s(self.rate_mbit)

    @property
    def rtts_ms(self) -> list[float]:
        """The round-trip times, each once."""
        return list(dict.fromkeys(each.rtt_ms for each in self.points))

    def knee_bytes(self, rtt_ms: float) -> float:
        """The window that just fills the wire: goodput times round-trip time."""
        return bdp_bytes(self.goodput_mbit, rtt_ms)

    def of(self, rtt_ms: float) -> list[Point]:
        """The points of one round-trip time, by size."""
        return [each for each in self.points if each.rtt_ms == rtt_ms]

    def rows(self) -> list[dict[str, Any]]:
        """One row a transfer."""
        return [
            {
                "variant": f"{each.rtt_ms:g} ms, {each.requested_bytes} bytes",
                **{name: getattr(each, name) for name in Point.__slots__},
                "bdp_bytes": self.knee_bytes(each.rtt_ms),
            }
            for each in self.points
        ]


@experiment("buffers")
def measure(
    rtts_ms: Sequence[float] = (10, 20, 40),
    requests: Sequence[int] = REQUESTS,
    rate_mbit: float = 50,
    side: Side = "receive",
) -> Sweep:
    """One transfer for each round-trip time and buffer size; the other buffer is the kernel's.

    A send buffer is filled by writes of one MSS: larger ones make it hold more than its size (see
    measure_held).

    Args:
        rtts_ms: of the wire, 1 to 500 ms each.
        requests: SO_RCVBUF or SO_SNDBUF, 1 to 2^30 bytes each.
        rate_mbit: of the wire, 1 to 1000 Mbit/s.
        side: which buffer.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    within_all("rtts_ms", rtts_ms, 1, 500, " ms")
    within_all("requests", requests, 1, MOST_BYTES, " bytes")
    number("rate_mbit", rate_mbit, 1, 1000, unit=" Mbit/s")
    if side not in SIDES:
        raise ValueError(f"side={side!r} must be one of {', '.join(SIDES)}")
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    points: list[Point] = []
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit) as lab:
        with Rounds(len(pairs), "buffers") as rounds:
            for turn in rounds:
                rtt_ms, request = pairs[turn]
                lab.link.update(rtt_ms=rtt_ms)
                points.append(_point(lab, rtt_ms, rate_mbit, request, side))
        return Sweep(
            side,
            rate_mbit,
            points,
            provenance(
                lab,
                congestion=lab.congestion,
                rmem_max_bytes=core_limit("rmem_max"),
                wmem_max_bytes=core_limit("wmem_max"),
                interrupted=rounds.interrupted,
                runs=rounds.done,
            ),
        )


def _point(lab: Lab, rtt_ms: float, rate_mbit: float, request: int, side: Side) -> Point:
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
    return Point(
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


@dataclass(frozen=True, slots=True)
class Path:
    """A transfer over a path, with a receive buffer that is fixed or left to the kernel.

    Attributes:
        rtt_ms: of the wire.
        requested_bytes: SO_RCVBUF asked for; None for not set.
        start_bytes: SO_RCVBUF at the start.
        end_bytes: SO_RCVBUF at the end.
        mbit: throughput of the second half.
        samples: over time.
    """

    rtt_ms: float
    requested_bytes: int | None
    start_bytes: int
    end_bytes: int
    mbit: float
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True)
class Autotuning:
    """Fixed sizes and the kernel's own, over paths of different length."""

    experiment: ClassVar[str] = "autotuning"
    columns: ClassVar[Sequence[Column]] = (
        Column("rtt_ms", "RTT (ms)", "g"),
        Column("asked", "asked for (bytes)"),
        Column("start_bytes", "SO_RCVBUF at the start", ",d"),
        Column("end_bytes", "at the end", ",d"),
        Column("window_bytes", "largest window", ",d"),
        Column("mbit", "Mbit/s", ".1f"),
    )

    rate_mbit: float
    paths: Sequence[Path]
    provenance: Mapping[str, Any]

    def at(self, rtt_ms: float, requested_bytes: int | None) -> Path:
        """The transfer over one path with one size.

        Raises:
            KeyError: it was not measured.
        """
        for each in self.paths:
            if (each.rtt_ms, each.requested_bytes) == (rtt_ms, requested_bytes):
                return each
        raise KeyError((rtt_ms, requested_bytes))

    def rows(self) -> list[dict[str, Any]]:
        """One row a transfer."""
        found = []
        for each in self.paths:
            size = each.requested_bytes
            asked = "nothing" if size is None else f"{size:,}"
            found.append(
                {
                    "variant": f"{each.rtt_ms:g} ms, {asked}",
                    "asked": asked,
                    **{name: getattr(each, name) for name in Path.__slots__ if name != "samples"},
                    "window_bytes": max(sample.window_bytes for sample in each.samples),
                }
            )
        return found


@experiment("autotuning")
def measure_autotuning(
    rtts_ms: Sequence[float] = (2, 40),
    requests: Sequence[int | None] = (32_768, 65_536, None),
    rate_mbit: float = 100,
    duration_s: float = 0.8,
) -> Autotuning:
    """A transfer over each path with each receive buffer, sampled over time.

    65 536 is doubled to 131 072, which is what an unset socket starts with (tcp_rmem): the same
    size, once fixed and once free to grow.

    Args:
        rtts_ms: of the wire, 1 to 500 ms each.
        requests: SO_RCVBUF asked for, 1 to 2^30 bytes; None leaves it to the kernel.
        rate_mbit: of the wire, 1 to 1000.
        duration_s: of each transfer, 0.2 to 60.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    within_all("rtts_ms", rtts_ms, 1, 500, " ms")
    within_all("requests", [each or 1 for each in requests], 1, MOST_BYTES, " bytes")
    number("rate_mbit", rate_mbit, 1, 1000, unit=" Mbit/s")
    number("duration_s", duration_s, 0.2, 60, unit=" s")
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    paths: list[Path] = []
    # A queue that loses nothing: what follows a loss is another lesson.
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit, queue_packets=5000) as lab:
        with Rounds(len(pairs), "autotuning") as rounds:
            for turn in rounds:
                rtt_ms, request = pairs[turn]
                lab.link.update(rtt_ms=rtt_ms)
                paths.append(_path(lab, rtt_ms, request, duration_s))
        return Autotuning(
            rate_mbit,
            paths,
            provenance(
                lab,
                congestion=lab.congestion,
                rmem_max_bytes=core_limit("rmem_max"),
                interrupted=rounds.interrupted,
                runs=rounds.done,
            ),
        )


def _path(lab: Lab, rtt_ms: float, request: int | None, duration_s: float) -> Path:
    result = tcp_bulk(
        lab,
        write_bytes=65_536,
        duration_s=duration_s,
        sndbuf_bytes=None,
        rcvbuf_bytes=request,
        read_bytes=131_072,
        interval_ms=20,
    )
    return Path(
        rtt_ms=rtt_ms,
        requested_bytes=request,
        start_bytes=result.sink.rcvbuf_granted_bytes,
        end_bytes=result.sink.rcvbuf_end_bytes,
        mbit=steady_mbit(result),
        samples=samples_of(result),
    )
