"""Socket buffers: what is asked for, what is granted, what comes of it, and what it costs.

J. Snader's advice (Effective TCP/IP Programming, tip 32) is to choose the buffers' sizes, and to
set them before listen() and connect(). Each part of that is an experiment of its own here:

=================  =============================================================================
:func:`measure`    throughput against the size of a buffer, for several round-trip times
``grants``         what the kernel grants, and what window comes of it
``order``          SO_RCVBUF set before listen() and after accept(): the window scale tells
``limits``         four slow transfers, and which number of TCP_INFO names the cause of each
``zero_window``    a receiver that does not read: the window closes, probes, and opens
``autotuning``     fixed sizes, and one that is left to the kernel, on a short and a long path
``held``           how much a send buffer really holds
``one_segment``    a send buffer too small for the receiver's delayed ACK (the rule of 3 × MSS)
``queues``         a queue that is too long: the round-trip time under load ("bufferbloat")
=================  =============================================================================

Sources: socket(7), tcp(7), RFC 7323 (window scale, throughput ≤ window/RTT), RFC 9293 (3.8.6),
net/ipv4/tcp.c of Linux 6.18 (tcp_sendmsg_locked: the send buffer's limit is looked at only when a
new packet buffer begins).
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import re
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast, get_args

from tcplab.experiments import Result, provenance
from tcplab.experiments.ladder import on_the_ladder
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab, LabError
from tcplab.models import (
    bdp_bytes,
    goodput_mbyte_s,
    receive_buffer_grant,
    receive_window,
    send_buffer_grant,
    serialisation_ms,
    throughput_mbit,
    window_from_buffer,
)
from tcplab.models.checks import within
from tcplab.programs import Event, SocketOptions, TcpBulkResult, TcpSource, small_writes, tcp_bulk
from tcplab.tables import Column

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tcplab.timeline import Timeline

__all__ = [
    "PARTS",
    "Autotuning",
    "Grant",
    "Grants",
    "Held",
    "Holding",
    "Limit",
    "Limits",
    "Order",
    "Ordered",
    "Path",
    "Point",
    "Queue",
    "Queues",
    "Sample",
    "SmallBuffer",
    "SmallBuffers",
    "Sweep",
    "ZeroWindow",
    "measure",
    "measure_autotuning",
    "measure_grants",
    "measure_held",
    "measure_limits",
    "measure_one_segment",
    "measure_order",
    "measure_queues",
    "measure_zero_window",
]

SUMMARY = "socket buffers: grants, windows, throughput, autotuning, and queues that are too long"

Side = Literal["receive", "send"]
Part = Literal[
    "sweep",
    "grants",
    "order",
    "limits",
    "zero-window",
    "autotuning",
    "held",
    "one-segment",
    "queues",
]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

MSS_BYTES: Final = 1448  # MTU 1500, less 20 (IP), 20 (TCP) and 12 (time stamps option)
REQUESTS: Final = (8192, 16_384, 32_768, 65_536, 131_072, 262_144)
#: What the kernel charges the send buffer for each packet beyond its data [measured, Linux 6.18].
SEND_OVERHEAD_BYTES: Final = 832
_SYN_ACK: Final = 0x12
_MOST_BYTES: Final = 1 << 30


# ---- what the parts share ------------------------------------------------------------------------


def _within_all(
    name: str, values: Sequence[float], low: float, high: float, unit: str = ""
) -> None:
    if not values:
        raise ValueError(f"{name} is empty; give at least one of {low:,.12g} to {high:,.12g}{unit}")
    for value in values:
        within(name, value, low, high, unit)


def _limit(name: str) -> int:
    """net.core.rmem_max or wmem_max, of the whole machine."""
    return int(File("/proc/sys/net/core", name).read_text())


def _kernel() -> tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)", platform.release()).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


def _steady_mbit(result: TcpBulkResult) -> float:
    """The rate of the second half of a transfer, when slow start is over."""
    samples = result.samples
    half = [each for each in samples if each["sample_s"] >= samples[-1]["sample_s"] / 2]
    if len(half) < 2:
        raise LabError(
            f"only {len(samples)} samples of TCP_INFO: the machine is too busy; run again"
        )
    bits = 8 * (half[-1]["bytes_acked"] - half[0]["bytes_acked"])
    return float(bits / (half[-1]["sample_s"] - half[0]["sample_s"]) / 1e6)


def _share(source: TcpSource, name: str) -> float:
    """The part of the time with data outstanding in which one thing was in the way, 0 to 1."""
    return float(source.tcp_info[name] / max(source.tcp_info["busy_time_us"], 1))


@contextmanager
def _connection(
    lab: Lab, *, before: int | None = None, after: int | None = None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A sender on the client and a receiver on the server, whose SO_RCVBUF is set before listen()
    or after accept()."""
    with lab.server.socket() as listener, lab.client.socket() as sender:
        for end in (listener, sender):
            end.settimeout(30)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, lab.congestion.encode())
        if before is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, before)
        listener.bind((lab.server.address, 0))
        listener.listen()
        sender.connect(listener.getsockname())
        receiver, _address = listener.accept()
        with receiver:
            receiver.settimeout(30)
            if after is not None:
                receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, after)
            yield sender, receiver
        # What is still under way reaches the recorders.
        time.sleep(lab.rtt_ms / 1e3 + 0.02)


@contextmanager
def _sending(sender: socket.socket, size: int) -> Iterator[None]:
    """Sends so many bytes and the end of the stream, in a thread, during a with statement."""

    def send() -> None:
        sender.sendall(bytes(size))
        sender.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    thread.join()


def _read_all(receiver: socket.socket) -> int:
    total = 0
    while got := len(receiver.recv(1 << 16)):
        total += got
    return total


# ---- throughput against the size of a buffer -----------------------------------------------------


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


@on_the_ladder("buffers")
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
    _within_all("rtts_ms", rtts_ms, 1, 500, " ms")
    _within_all("requests", requests, 1, _MOST_BYTES, " bytes")
    within("rate_mbit", rate_mbit, 1, 1000, " Mbit/s")
    if side not in get_args(Side):
        raise ValueError(f"side={side!r} must be one of {', '.join(get_args(Side))}")
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    points: list[Point] = []
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit) as lab:
        with Rounds(len(pairs), "buffers") as rounds:
            for number in rounds:
                rtt_ms, request = pairs[number]
                lab.link.update(rtt_ms=rtt_ms)
                points.append(_point(lab, rtt_ms, rate_mbit, request, side))
        return Sweep(
            side,
            rate_mbit,
            points,
            provenance(
                lab,
                congestion=lab.congestion,
                rmem_max_bytes=_limit("rmem_max"),
                wmem_max_bytes=_limit("wmem_max"),
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
        model = window_from_buffer(granted, _kernel())
    else:
        late = result.samples[len(result.samples) // 2 :]
        window = statistics.median(_held(each) for each in late)
        model = _send_window(granted)
    return Point(
        rtt_ms=rtt_ms,
        requested_bytes=request,
        granted_bytes=granted,
        window_bytes=int(window),
        model_window_bytes=model,
        mbit=_steady_mbit(result),
        model_mbit=throughput_mbit(model, rtt_ms, rate_mbit),
        rwnd_share=_share(source, "rwnd_limited_us"),
        sndbuf_share=_share(source, "sndbuf_limited_us"),
    )


def _held(sample: Mapping[str, Any], mss: int = MSS_BYTES) -> int:
    """What a sender keeps: sent and not acknowledged, and not sent yet."""
    return int(sample["unacked"] * mss + sample["notsent_bytes"])


def _send_window(granted_bytes: int, mss: int = MSS_BYTES) -> int:
    """What fits into a send buffer in segments of one MSS: a new one may begin while the charge of
    those before is less than the limit."""
    return -(-granted_bytes // (mss + SEND_OVERHEAD_BYTES)) * mss


# ---- grants --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """What became of one request; the windows are those of a transfer into such a buffer.

    Attributes:
        requested_bytes: given to setsockopt(); None for a socket that nobody set.
        sndbuf_bytes: SO_SNDBUF as getsockopt() returns it.
        rcvbuf_bytes: SO_RCVBUF as getsockopt() returns it.
        model_sndbuf_bytes: what the model says of the first.
        model_rcvbuf_bytes: and of the second.
        syn_window_bytes: the window in the SYN-ACK, which is never scaled.
        window_scale: in the same segment.
        largest_window_bytes: that the receiver offered later.
        model_window_bytes: the largest that the model expects of a buffer that does not grow.
        rcvbuf_end_bytes: SO_RCVBUF at the end of the transfer.
    """

    requested_bytes: int | None
    sndbuf_bytes: int
    rcvbuf_bytes: int
    model_sndbuf_bytes: int | None
    model_rcvbuf_bytes: int | None
    syn_window_bytes: int
    window_scale: int
    largest_window_bytes: int
    model_window_bytes: int | None
    rcvbuf_end_bytes: int


@dataclass(frozen=True, slots=True)
class Grants:
    """Requests, grants and windows."""

    experiment: ClassVar[str] = "buffer-grants"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "asked for (bytes)"),
        Column("sndbuf_bytes", "SO_SNDBUF", ",d"),
        Column("rcvbuf_bytes", "SO_RCVBUF", ",d"),
        Column("syn_window_bytes", "window in the SYN-ACK", ",d"),
        Column("window_scale", "scale", "d"),
        Column("largest_window_bytes", "largest window", ",d"),
        Column("model_window_bytes", "model's largest", ",d"),
        Column("share", "window / SO_RCVBUF", ".3f"),
    )

    grants: Sequence[Grant]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a request."""
        return [
            {
                "variant": "nothing"
                if each.requested_bytes is None
                else f"{each.requested_bytes:,}",
                **{name: getattr(each, name) for name in Grant.__slots__},
                "share": each.largest_window_bytes / each.rcvbuf_end_bytes,
            }
            for each in self.grants
        ]


@on_the_ladder("buffer-grants")
def measure_grants(
    requests: Sequence[int | None] = (1, 4096, 32_768, 65_536, 200_000, _MOST_BYTES, None),
    transfer_bytes: int = 1_000_000,
) -> Grants:
    """Asks for each size on both kinds of buffer, and watches the window of a transfer into it.

    Args:
        requests: bytes, 1 to 2^30; None for a socket that is left alone.
        transfer_bytes: how much to send into each, 1 to 10^8.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    _within_all("requests", [each or 1 for each in requests], 1, _MOST_BYTES, " bytes")
    within("transfer_bytes", transfer_bytes, 1, 1e8, " bytes")
    rmem_max, wmem_max = _limit("rmem_max"), _limit("wmem_max")
    with Lab(rtt_ms=2) as lab:
        measured = [_grant(lab, each, transfer_bytes, rmem_max, wmem_max) for each in requests]
        return Grants(
            [grant for grant, _drops in measured],
            provenance(
                lab,
                congestion=lab.congestion,
                rmem_max_bytes=rmem_max,
                wmem_max_bytes=wmem_max,
                capture_drops=sum(drops for _grant, drops in measured),
            ),
        )


def _grant(
    lab: Lab, request: int | None, transfer_bytes: int, rmem_max: int, wmem_max: int
) -> tuple[Grant, int]:
    # A receiver with a window of one small packet takes long for much.
    size = transfer_bytes if request is None or request >= 4096 else min(transfer_bytes, 5000)
    with (
        lab.client.capture() as capture,
        _connection(lab, before=request) as (sender, receiver),
    ):
        if request is not None:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, request)
        sndbuf = sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        rcvbuf = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        with _sending(sender, size):
            _read_all(receiver)
        rcvbuf_end = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    with capture:
        rows, drops = capture.segments, capture.drops or 0
    syn_ack, largest = _windows(rows)
    tcp_rmem_max = int(lab.server.sysctl("net.ipv4.tcp_rmem").split()[2])
    model = receive_window(
        rcvbuf_end,
        autotuned=request is None,
        tcp_rmem_max_bytes=tcp_rmem_max,
        rmem_max_bytes=rmem_max,
        kernel=_kernel(),
    )
    return Grant(
        requested_bytes=request,
        sndbuf_bytes=sndbuf,
        rcvbuf_bytes=rcvbuf,
        model_sndbuf_bytes=request and send_buffer_grant(request, wmem_max).granted_bytes,
        model_rcvbuf_bytes=request and receive_buffer_grant(request, rmem_max).granted_bytes,
        syn_window_bytes=int(syn_ack["window"]),
        window_scale=int(syn_ack["wscale"]),
        largest_window_bytes=largest,
        model_window_bytes=None if request is None else model.usable_bytes,
        rcvbuf_end_bytes=rcvbuf_end,
    ), drops


def _windows(rows: npt.NDArray[np.void]) -> tuple[Any, int]:
    """The SYN-ACK, and the largest window that the receiver offered after it."""
    is_syn_ack = (rows["flags"] & _SYN_ACK) == _SYN_ACK
    offers = rows[(rows["direction"] == 1) & ~is_syn_ack]
    return rows[is_syn_ack][0], int(offers["window"].max())


# ---- before or after -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ordered:
    """One transfer, with the receive buffer set at one moment or another.

    Attributes:
        before: SO_RCVBUF asked for before listen(); None for not set.
        after: asked for after accept(); None for not set.
        rcvbuf_bytes: SO_RCVBUF at the end.
        syn_window_bytes: the window in the SYN-ACK.
        window_scale: in the same segment.
        largest_window_bytes: that the receiver offered.
        mbit: of the whole transfer.
        retransmissions: segments that were sent again.
        zero_windows: segments that said that there is no room.
    """

    before: int | None
    after: int | None
    rcvbuf_bytes: int
    syn_window_bytes: int
    window_scale: int
    largest_window_bytes: int
    mbit: float
    retransmissions: int
    zero_windows: int


@dataclass(frozen=True, slots=True)
class Order:
    """The same sizes, set before listen() and after accept()."""

    experiment: ClassVar[str] = "buffer-order"
    columns: ClassVar[Sequence[Column]] = (
        Column("before", "before listen()", ",d"),
        Column("after", "after accept()", ",d"),
        Column("window_scale", "scale in the SYN-ACK", "d"),
        Column("rcvbuf_bytes", "SO_RCVBUF at the end", ",d"),
        Column("largest_window_bytes", "largest window", ",d"),
        Column("mbit", "Mbit/s", ".1f"),
        Column("retransmissions", "sent again", "d"),
        Column("zero_windows", "zero windows", "d"),
    )

    transfers: Sequence[Ordered]
    provenance: Mapping[str, Any]

    def __getitem__(self, sizes: tuple[int | None, int | None]) -> Ordered:
        for each in self.transfers:
            if (each.before, each.after) == sizes:
                return each
        raise KeyError(sizes)

    def rows(self) -> list[dict[str, Any]]:
        """One row a transfer."""
        return [
            {
                "variant": f"{each.before or 'unset'} before, {each.after or 'unset'} after",
                **{name: getattr(each, name) for name in Ordered.__slots__},
            }
            for each in self.transfers
        ]


@on_the_ladder("buffer-order")
def measure_order(
    sizes: Sequence[tuple[int | None, int | None]] = (
        (262_144, None),
        (None, 262_144),
        (16_384, 262_144),
        (262_144, 4096),
    ),
    rtt_ms: float = 20,
    transfer_bytes: int = 2_000_000,
) -> Order:
    """A transfer for each pair (SO_RCVBUF before listen(), SO_RCVBUF after accept()).

    The receiver begins to read three round trips late, as a busy one does: a buffer that is smaller
    than the window it offered cannot hide it then.

    Args:
        sizes: bytes, 1 to 2^30; None for not set.
        rtt_ms: of the wire, 1 to 500.
        transfer_bytes: how much to send each time, 1 to 10^8.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    _within_all("sizes", [size or 1 for pair in sizes for size in pair], 1, _MOST_BYTES, " bytes")
    within("rtt_ms", rtt_ms, 1, 500, " ms")
    within("transfer_bytes", transfer_bytes, 1, 1e8, " bytes")
    with Lab(rtt_ms=rtt_ms) as lab:
        measured = [_ordered(lab, before, after, transfer_bytes) for before, after in sizes]
        return Order(
            [transfer for transfer, _drops in measured],
            provenance(
                lab,
                congestion=lab.congestion,
                rmem_max_bytes=_limit("rmem_max"),
                capture_drops=sum(drops for _transfer, drops in measured),
            ),
        )


def _ordered(
    lab: Lab, before: int | None, after: int | None, transfer_bytes: int
) -> tuple[Ordered, int]:
    # A buffer of 8 KiB takes a few packets a round trip.
    size = transfer_bytes if min(before or 65_536, after or 65_536) > 8192 else transfer_bytes // 20
    with (
        lab.client.capture() as capture,
        _connection(lab, before=before, after=after) as (sender, receiver),
    ):
        start = time.perf_counter()
        with _sending(sender, size):
            time.sleep(3 * lab.rtt_ms / 1e3)
            total = _read_all(receiver)
        seconds = time.perf_counter() - start
        granted = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    with capture:
        rows, drops = capture.segments, capture.drops or 0
    syn_ack, largest = _windows(rows)
    return Ordered(
        before=before,
        after=after,
        rcvbuf_bytes=granted,
        syn_window_bytes=int(syn_ack["window"]),
        window_scale=int(syn_ack["wscale"]),
        largest_window_bytes=largest,
        mbit=total * 8 / seconds / 1e6,
        retransmissions=int(rows["is_retransmission"].sum()),
        zero_windows=int(rows["is_zero_window"].sum()),
    ), drops


# ---- who is in the way ---------------------------------------------------------------------------

Case = Literal["receive buffer", "send buffer", "network", "application"]
Verdict = Literal[
    "receive window", "congestion window", "application", "send buffer or application"
]
CASES: Final[tuple[Case, ...]] = get_args(Case)


@dataclass(frozen=True, slots=True)
class Limit:
    """A transfer with one thing in its way, and what TCP_INFO says; the bytes are medians.

    Attributes:
        case: what was made small.
        mbit: throughput of its second half.
        in_flight_bytes: sent and not acknowledged.
        cwnd_bytes: the congestion window.
        peer_window_bytes: the receiver's window.
        unsent_bytes: written, and not sent yet.
        rwnd_share: of the busy time, what the receiver's window is blamed for.
        sndbuf_share: of the busy time, what the send buffer is blamed for.
        busy_share: of the whole time, when data was outstanding.
    """

    case: Case
    mbit: float
    in_flight_bytes: float
    cwnd_bytes: float
    peer_window_bytes: float
    unsent_bytes: float
    rwnd_share: float
    sndbuf_share: float
    busy_share: float

    @property
    def verdict(self) -> Verdict:
        """Which bound is met: read off the numbers, without knowing the case."""
        if self.rwnd_share > 0.5:
            return "receive window"
        if self.unsent_bytes > MSS_BYTES:
            return "congestion window"
        # Nothing waits to be sent: the writer is late. One that is blocked for want of room
        # goes on as soon as an ACK makes some, so that data is outstanding all the time.
        return "application" if self.busy_share < 0.75 else "send buffer or application"


@dataclass(frozen=True, slots=True)
class Limits:
    """Four slow transfers."""

    experiment: ClassVar[str] = "buffer-limits"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "what was made small"),
        Column("mbit", "Mbit/s", ".1f"),
        Column("in_flight_bytes", "in flight (bytes)", ",.0f"),
        Column("peer_window_bytes", "peer's window", ",.0f"),
        Column("cwnd_bytes", "congestion window", ",.0f"),
        Column("unsent_bytes", "written, unsent", ",.0f"),
        Column("rwnd_share", "rwnd_limited", ".0%"),
        Column("sndbuf_share", "sndbuf_limited", ".0%"),
        Column("busy_share", "busy", ".0%"),
        Column("verdict", "so the limit is"),
    )

    limits: Sequence[Limit]
    provenance: Mapping[str, Any]

    def __getitem__(self, case: str) -> Limit:
        for each in self.limits:
            if each.case == case:
                return each
        raise KeyError(case)

    def rows(self) -> list[dict[str, Any]]:
        """One row a transfer."""
        return [
            {
                "variant": each.case,
                **{name: getattr(each, name) for name in Limit.__slots__},
                "verdict": each.verdict,
            }
            for each in self.limits
        ]


@on_the_ladder("buffer-limits")
def measure_limits(
    cases: Sequence[Case] = CASES, rtt_ms: float = 20, rate_mbit: float = 20, size_bytes: int = 8192
) -> Limits:
    """Transfers over one wire, each with something else in its way, and TCP_INFO of the sender.

    Args:
        cases: which.
        rtt_ms: of the wire, 5 to 500.
        rate_mbit: of the wire, 5 to 1000.
        size_bytes: what the small buffer asks for, 4096 to 10^6; the slow application writes half
            as much, and pauses for three round-trip times.

    Raises:
        ValueError: a number is out of range, or no such case.
        LabError: no laboratory can be made here, or a program failed.
    """
    within("rtt_ms", rtt_ms, 5, 500, " ms")
    within("rate_mbit", rate_mbit, 5, 1000, " Mbit/s")
    within("size_bytes", size_bytes, 4096, 1e6, " bytes")
    for case in cases:
        if case not in CASES:
            raise ValueError(f"case {case!r} is not one of {', '.join(CASES)}")
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, queue_packets=100) as lab:
        limits = [_limit_of(lab, case, rtt_ms, size_bytes) for case in cases]
        return Limits(
            limits,
            provenance(
                lab,
                size_bytes=size_bytes,
                congestion=lab.congestion,
            ),
        )


def _limit_of(lab: Lab, case: Case, rtt_ms: float, size_bytes: int) -> Limit:
    seconds = 0.4 + 0.02 * rtt_ms
    if case == "application":
        return _slow_application(lab, rtt_ms, size_bytes, seconds)
    result = tcp_bulk(
        lab,
        write_bytes=MSS_BYTES,
        duration_s=seconds,
        sndbuf_bytes=size_bytes if case == "send buffer" else None,
        rcvbuf_bytes=size_bytes if case == "receive buffer" else None,
        interval_ms=rtt_ms / 4,
    )
    # What TCP_INFO blames is counted to the very end, when the buffers drain.
    info, mbit = result.source.tcp_info, _steady_mbit(result)
    return _limit_from(case, result.samples, info, mbit, result.source.usage.wall_s)


def _slow_application(lab: Lab, rtt_ms: float, size_bytes: int, seconds: float) -> Limit:
    """Writes a little, pauses for three round-trip times, and is never stopped by anything."""
    from tcplab.timeline.sockets import read_tcp_info, sampling

    with _connection(lab) as (sender, receiver):
        reader = threading.Thread(target=_read_all, args=(receiver,), daemon=True)
        reader.start()
        start, count = time.monotonic(), 0
        with sampling(sender, rtt_ms / 4) as samples:
            while time.monotonic() < start + seconds:
                sender.sendall(bytes(size_bytes // 2))
                count += size_bytes // 2
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
        return statistics.median(value(each) for each in late)

    busy_us = max(info["busy_time_us"], 1)
    return Limit(
        case=case,
        mbit=mbit,
        in_flight_bytes=median(lambda each: each["unacked"] * MSS_BYTES),
        cwnd_bytes=median(lambda each: each["snd_cwnd"] * MSS_BYTES),
        peer_window_bytes=median(lambda each: each["snd_wnd_bytes"]),
        unsent_bytes=median(lambda each: each["notsent_bytes"]),
        rwnd_share=info["rwnd_limited_us"] / busy_us,
        sndbuf_share=info["sndbuf_limited_us"] / busy_us,
        busy_share=min(info["busy_time_us"] / 1e6 / wall_s, 1.0),
    )


# ---- a receiver that does not read ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZeroWindow:
    """A receiver that pauses, as seen beside the sender.

    Attributes:
        pause_ms: how long the receiver read nothing.
        rcvbuf_bytes: its buffer.
        read_at_ms: when it began to read, after the first segment of the connection.
        log: what the sender's application did.
        options: the sender's socket.
        segments: on the sender's interface.
        provenance: see tcplab.experiments.provenance.
    """

    experiment: ClassVar[str] = "zero-window"
    columns: ClassVar[Sequence[Column]] = (
        Column("time_ms", "time (ms)", ".1f"),
        Column("variant", "what"),
        Column("window_bytes", "window (bytes)", ",d"),
    )

    pause_ms: float
    rcvbuf_bytes: int
    read_at_ms: float
    log: Sequence[Event]
    options: SocketOptions
    segments: npt.NDArray[np.void]
    provenance: Mapping[str, Any]

    def time_ms(self, time_ns: int) -> float:
        """After the first segment of the connection."""
        return float(int(time_ns) - int(self.segments["time_ns"][0])) / 1e6

    @property
    def accepted_bytes(self) -> int:
        """How much the receiver's kernel took before the window closed."""
        rows = self.segments
        closed = rows[rows["is_zero_window"]]
        return int(closed["ack"][0]) - 1 if len(closed) else 0

    def probes_ms(self) -> list[float]:
        """When the sender asked for the window: a segment without data, one byte behind."""
        rows = self.segments
        closed = [self.time_ms(each["time_ns"]) for each in rows if each["is_zero_window"]]
        if not closed:
            return []
        mine = rows[(rows["direction"] == 0) & (rows["payload_bytes"] == 0) & rows["is_pure_ack"]]
        return [
            when
            for each in mine
            if closed[0] < (when := self.time_ms(each["time_ns"])) < self.reopened_ms
            and int(each["seq"]) == self.accepted_bytes
        ]

    @property
    def reopened_ms(self) -> float:
        """When the news that there is room again came to the sender."""
        rows = self.segments
        shut = False
        for each in rows[rows["direction"] == 1]:
            shut = shut or bool(each["is_zero_window"])
            if shut and each["window"]:
                return self.time_ms(each["time_ns"])
        return float("inf")

    def timeline(self) -> Timeline:
        """Why each segment left when it did: see tcplab.timeline."""
        from tcplab.timeline import explain

        return explain(self.log, self.segments, self.options)

    def rows(self) -> list[dict[str, Any]]:
        """The moments that matter, in order."""
        probes, first_ms = self.probes_ms(), float("inf")
        found = []
        for each in self.segments:
            when, window = self.time_ms(each["time_ns"]), int(each["window"])
            if each["is_zero_window"]:
                what = "the window is closed" if first_ms == float("inf") else "still closed"
                first_ms = min(first_ms, when)
            elif when in probes:
                what = "the sender asks (window probe)"
            elif when == self.reopened_ms:
                what = "the window is open again"
            else:
                continue
            offered = None if when in probes else window
            found.append({"variant": what, "time_ms": when, "window_bytes": offered})
        return found


@on_the_ladder("zero-window")
def measure_zero_window(
    pause_ms: float = 1500, rcvbuf_bytes: int = 16_384, rtt_ms: float = 10
) -> ZeroWindow:
    """Sends 100 kB to a receiver that reads nothing for a while, and then everything.

    Args:
        pause_ms: how long it does not read, 300 to 10 000.
        rcvbuf_bytes: SO_RCVBUF asked for, 4096 to 49 152.
        rtt_ms: of the wire, 0 to 500.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    from tcplab.timeline.sockets import read_options

    within("pause_ms", pause_ms, 300, 10_000, " ms")
    within("rcvbuf_bytes", rcvbuf_bytes, 4096, 49_152, " bytes")
    within("rtt_ms", rtt_ms, 0, 500, " ms")
    with Lab(rtt_ms=rtt_ms) as lab:
        with (
            lab.client.capture() as capture,
            _connection(lab, before=rcvbuf_bytes) as (sender, receiver),
        ):
            granted = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            options = read_options(sender)
            log = [Event(time.time_ns(), "write", 100_000)]
            with _sending(sender, 100_000):
                time.sleep(pause_ms / 1e3)
                read_at_ns = time.time_ns()
                _read_all(receiver)
        with capture:
            rows, drops = capture.segments, capture.drops or 0
        return ZeroWindow(
            pause_ms=pause_ms,
            rcvbuf_bytes=granted,
            read_at_ms=(read_at_ns - int(rows["time_ns"][0])) / 1e6,
            log=log,
            options=options,
            segments=rows,
            provenance=provenance(lab, congestion=lab.congestion, capture_drops=drops),
        )


# ---- autotuning ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a transfer.

    Attributes:
        time_s: since its start.
        acked_bytes: acknowledged so far.
        window_bytes: the receiver's window.
        rtt_ms: the smoothed round-trip time.
        cwnd_bytes: the congestion window.
        retransmissions: segments sent again so far.
    """

    time_s: float
    acked_bytes: int
    window_bytes: int
    rtt_ms: float
    cwnd_bytes: int
    retransmissions: int


def _samples(result: TcpBulkResult) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            time_s=each["sample_s"],
            acked_bytes=each["bytes_acked"],
            window_bytes=each["snd_wnd_bytes"],
            rtt_ms=each["rtt_us"] / 1e3,
            cwnd_bytes=each["snd_cwnd"] * MSS_BYTES,
            retransmissions=each["total_retrans"],
        )
        for each in result.samples
    )


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


@on_the_ladder("autotuning")
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
    _within_all("rtts_ms", rtts_ms, 1, 500, " ms")
    _within_all("requests", [each or 1 for each in requests], 1, _MOST_BYTES, " bytes")
    within("rate_mbit", rate_mbit, 1, 1000, " Mbit/s")
    within("duration_s", duration_s, 0.2, 60, " s")
    pairs = [(rtt_ms, request) for rtt_ms in rtts_ms for request in requests]
    paths: list[Path] = []
    # A queue that loses nothing: what follows a loss is another lesson.
    with Lab(rtt_ms=rtts_ms[0], rate_mbit=rate_mbit, queue_packets=5000) as lab:
        with Rounds(len(pairs), "autotuning") as rounds:
            for number in rounds:
                rtt_ms, request = pairs[number]
                lab.link.update(rtt_ms=rtt_ms)
                paths.append(_path(lab, rtt_ms, request, duration_s))
        return Autotuning(
            rate_mbit,
            paths,
            provenance(
                lab,
                congestion=lab.congestion,
                rmem_max_bytes=_limit("rmem_max"),
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
        mbit=_steady_mbit(result),
        samples=_samples(result),
    )


# ---- how much a send buffer holds ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holding:
    """How much of what one kind of write wrote was in the sender at most.

    Attributes:
        write_bytes: size of each write.
        granted_bytes: SO_SNDBUF as granted.
        held_bytes: the most that was written and not acknowledged.
        mbit: throughput of the second half.
    """

    write_bytes: int
    granted_bytes: int
    held_bytes: int
    mbit: float


@dataclass(frozen=True, slots=True)
class Held:
    """One send buffer, filled by writes of different sizes."""

    experiment: ClassVar[str] = "send-buffer-held"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "each write (bytes)"),
        Column("segments", "in segments of 1448", ".2f"),
        Column("granted_bytes", "SO_SNDBUF", ",d"),
        Column("held_bytes", "held at most (bytes)", ",d"),
        Column("times", "held / SO_SNDBUF", ".1f"),
        Column("mbit", "Mbit/s", ".1f"),
    )

    holdings: Sequence[Holding]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a size."""
        return [
            {
                "variant": f"{each.write_bytes:,}",
                **{name: getattr(each, name) for name in Holding.__slots__},
                "segments": each.write_bytes / MSS_BYTES,
                "times": each.held_bytes / each.granted_bytes,
            }
            for each in self.holdings
        ]


@on_the_ladder("send-buffer-held")
def measure_held(
    write_sizes: Sequence[int] = (1448, 2896, 4096, 65_536),
    sndbuf_bytes: int = 8192,
    rtt_ms: float = 20,
) -> Held:
    """Fills the same send buffer with writes of different sizes, and looks how much is in it.

    Args:
        write_sizes: bytes of each write, 1 to 2^20.
        sndbuf_bytes: SO_SNDBUF asked for, 1 to 10^6.
        rtt_ms: of the wire, 5 to 500.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    _within_all("write_sizes", write_sizes, 1, 1 << 20, " bytes")
    within("sndbuf_bytes", sndbuf_bytes, 1, 1e6, " bytes")
    within("rtt_ms", rtt_ms, 5, 500, " ms")
    with Lab(rtt_ms=rtt_ms) as lab:
        holdings = []
        for size in write_sizes:
            result = tcp_bulk(
                lab,
                write_bytes=size,
                duration_s=0.3 + 0.01 * rtt_ms,
                sndbuf_bytes=sndbuf_bytes,
                rcvbuf_bytes=1_000_000,
                interval_ms=rtt_ms / 4,
            )
            held = max(_held(each) for each in result.samples)
            granted = result.source.sndbuf_granted_bytes
            holdings.append(Holding(size, granted, held, _steady_mbit(result)))
        return Held(
            holdings,
            provenance(
                lab,
                sndbuf_bytes=sndbuf_bytes,
                congestion=lab.congestion,
            ),
        )


# ---- the rule of 3 × MSS -------------------------------------------------------------------------

Receiver = Literal["linux", "delaying"]
_LARGE_MTU: Final = 9000
_LARGE_MSS: Final = 8948


@dataclass(frozen=True, slots=True)
class SmallBuffer:
    """Writes of one MSS through one send buffer.

    Attributes:
        requested_bytes: SO_SNDBUF asked for.
        granted_bytes: as granted.
        segments: how many full segments it holds, by the model.
        receiver: "linux" acknowledges as its kernel likes, "delaying" as late as it may.
        nodelay: TCP_NODELAY of the sender.
        writes: how many.
        stalls: how often the sender waited 20 ms or more for an ACK.
        ms_per_write: wall time over writes.
    """

    requested_bytes: int
    granted_bytes: int
    segments: int
    receiver: Receiver
    nodelay: bool
    writes: int
    stalls: int
    ms_per_write: float


@dataclass(frozen=True, slots=True)
class SmallBuffers:
    """Send buffer × Nagle × delayed ACK."""

    experiment: ClassVar[str] = "send-buffer-rule"
    columns: ClassVar[Sequence[Column]] = (
        Column("requested_bytes", "asked for (bytes)", ",d"),
        Column("granted_bytes", "granted", ",d"),
        Column("segments", "full segments in it", "d"),
        Column("linux", "ms/write, Linux receiver", ".2f"),
        Column("linux_nodelay", "the same, TCP_NODELAY", ".2f"),
        Column("delaying", "ms/write, ACKs delayed", ".2f"),
        Column("delaying_nodelay", "the same, TCP_NODELAY", ".2f"),
        Column("stalls", "stalls, ACKs delayed", "d"),
    )

    runs: Sequence[SmallBuffer]
    provenance: Mapping[str, Any]

    def of(self, requested_bytes: int, receiver: Receiver, nodelay: bool = False) -> SmallBuffer:
        """One run.

        Raises:
            KeyError: it was not measured.
        """
        for each in self.runs:
            if (each.requested_bytes, each.receiver, each.nodelay) == (
                requested_bytes,
                receiver,
                nodelay,
            ):
                return each
        raise KeyError((requested_bytes, receiver, nodelay))

    def rows(self) -> list[dict[str, Any]]:
        """One row a size, its four runs side by side."""
        found: dict[int, dict[str, Any]] = {}
        for each in self.runs:
            row = found.setdefault(
                each.requested_bytes,
                {
                    "variant": f"{each.requested_bytes} bytes",
                    "requested_bytes": each.requested_bytes,
                    "granted_bytes": each.granted_bytes,
                    "segments": each.segments,
                    "writes": each.writes,
                },
            )
            row[each.receiver + ("_nodelay" if each.nodelay else "")] = each.ms_per_write
            if each.receiver == "delaying" and not each.nodelay:
                row["stalls"] = each.stalls
        return list(found.values())


@on_the_ladder("send-buffer-rule")
def measure_one_segment(
    requests: Sequence[int] = (1, 4096, 8192, 13_422), writes: int = 20
) -> SmallBuffers:
    """Writes of one MSS on a wire with jumbo frames (MTU 9000, MSS 8948), by the send buffer.

    Args:
        requests: SO_SNDBUF asked for, 1 to 10^6 bytes each.
        writes: how many of 8948 bytes each, 4 to 1000.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    _within_all("requests", requests, 1, 1e6, " bytes")
    within("writes", writes, 4, 1000)
    receivers: tuple[Receiver, ...] = get_args(Receiver)
    with Lab(mtu=_LARGE_MTU) as lab:
        measured = [
            _small_buffer(lab, request, receiver, nodelay, writes)
            for request in requests
            for receiver in receivers
            for nodelay in (False, True)
        ]
        return SmallBuffers(
            [run for run, _drops in measured],
            provenance(
                lab,
                writes=writes,
                congestion=lab.congestion,
                capture_drops=sum(drops for _run, drops in measured),
            ),
        )


def _small_buffer(
    lab: Lab, request: int, receiver: Receiver, nodelay: bool, writes: int
) -> tuple[SmallBuffer, int]:
    words = ["tcpsource", "-b", str(request), "-s", str(_LARGE_MSS), "-c", str(writes), "--json"]
    words += ["--congestion", lab.congestion, *(["--nodelay"] if nodelay else [])]
    with _acknowledging(lab, receiver) as port, lab.client.capture() as capture:
        ran = lab.client.run([*words, "-p", port, lab.server.address])
    report = json.loads(ran.stdout.splitlines()[-1])
    with capture:
        rows, drops = capture.segments, capture.drops or 0
    sent = rows[(rows["direction"] == 0) & (rows["payload_bytes"] > 0)]["time_ns"]
    waits = [(int(b) - int(a)) / 1e6 for a, b in itertools.pairwise(sent)]
    granted = report["sndbuf_granted_bytes"]
    return SmallBuffer(
        requested_bytes=request,
        granted_bytes=granted,
        segments=_send_window(granted, _LARGE_MSS) // _LARGE_MSS,
        receiver=receiver,
        nodelay=nodelay,
        writes=writes,
        stalls=sum(wait >= 20 for wait in waits),
        ms_per_write=report["wall_s"] * 1e3 / writes,
    ), drops


@contextmanager
def _acknowledging(lab: Lab, receiver: Receiver) -> Iterator[str]:
    """A receiver that acknowledges in the way asked for; its port."""
    when = "on" if receiver == "linux" else "off"
    words = ["writepattern_peer", "--port", "0", "--json", "--quickack", when]
    words += ["--congestion", lab.congestion]
    process = lab.server.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise LabError(f"writepattern_peer did not start: {process.communicate()[1].strip()}")
        yield str(json.loads(line)["listening"])
    finally:
        process.kill()
        process.communicate()


# ---- queues that are too long --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queue:
    """A transfer through a queue of one length.

    Attributes:
        queue_packets: the queue before the bottleneck.
        rcvbuf_bytes: SO_RCVBUF asked for; None for not set.
        mbit: throughput of the second half.
        rtt_ms: the transfer's smoothed round-trip time, median of the second half.
        most_rtt_ms: its largest.
        full_queue_rtt_ms: what it is when the queue is full.
        most_queued_packets: the longest that the queue was.
        retransmissions: segments sent again.
        other_ms: median time of a small question and answer on another connection meanwhile.
        samples: over time.
    """

    queue_packets: int
    rcvbuf_bytes: int | None
    mbit: float
    rtt_ms: float
    most_rtt_ms: float
    full_queue_rtt_ms: float
    most_queued_packets: int
    retransmissions: int
    other_ms: float
    samples: Sequence[Sample]

    @property
    def name(self) -> str:
        """The queue, and the receive buffer if one was set."""
        name = f"queue of {self.queue_packets}"
        return name if self.rcvbuf_bytes is None else f"{name}, SO_RCVBUF {self.rcvbuf_bytes:,}"


@dataclass(frozen=True, slots=True)
class Queues:
    """Round-trip time under load, by the length of the queue."""

    experiment: ClassVar[str] = "bufferbloat"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "at the bottleneck"),
        Column("mbit", "Mbit/s", ".2f"),
        Column("rtt_ms", "RTT, median (ms)", ".0f"),
        Column("most_rtt_ms", "largest (ms)", ".0f"),
        Column("full_queue_rtt_ms", "with a full queue (ms)", ".0f"),
        Column("most_queued_packets", "queued at most", "d"),
        Column("retransmissions", "sent again", "d"),
        Column("other_ms", "a stranger's question (ms)", ".0f"),
    )

    rate_mbit: float
    rtt_ms: float
    queues: Sequence[Queue]
    provenance: Mapping[str, Any]

    def __getitem__(self, case: tuple[int, int | None]) -> Queue:
        for each in self.queues:
            if (each.queue_packets, each.rcvbuf_bytes) == case:
                return each
        raise KeyError(case)

    @property
    def bdp_packets(self) -> float:
        """What fills the wire, in full packets."""
        return bdp_bytes(self.rate_mbit, self.rtt_ms) / (MSS_BYTES + 90)

    def rows(self) -> list[dict[str, Any]]:
        """One row a queue."""
        return [
            {
                "variant": each.name,
                **{name: getattr(each, name) for name in Queue.__slots__ if name != "samples"},
            }
            for each in self.queues
        ]


@on_the_ladder("bufferbloat")
def measure_queues(
    cases: Sequence[tuple[int, int | None]] = (
        (20, None),
        (100, None),
        (1000, None),
        (1000, 24_576),
    ),
    rate_mbit: float = 10,
    rtt_ms: float = 20,
    duration_s: float = 2.0,
) -> Queues:
    """A transfer through each queue, and a small question beside it.

    Args:
        cases: pairs of queue length (1 to 10^5 packets) and SO_RCVBUF (bytes, or None).
        rate_mbit: of the wire, 1 to 1000.
        rtt_ms: of the wire when it is idle, 1 to 500.
        duration_s: of each transfer, 0.5 to 60.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    _within_all("queue_packets", [packets for packets, _size in cases], 1, 1e5)
    _within_all("rcvbuf_bytes", [size or 1 for _queue, size in cases], 1, _MOST_BYTES, " bytes")
    within("rate_mbit", rate_mbit, 1, 1000, " Mbit/s")
    within("rtt_ms", rtt_ms, 1, 500, " ms")
    within("duration_s", duration_s, 0.5, 60, " s")
    queues: list[Queue] = []
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit) as lab:
        with Rounds(len(cases), "queues") as rounds:
            for number in rounds:
                queues.append(_queue(lab, *cases[number], rate_mbit, rtt_ms, duration_s))
        return Queues(
            rate_mbit,
            rtt_ms,
            queues,
            provenance(
                lab,
                congestion=lab.congestion,
                interrupted=rounds.interrupted,
                runs=rounds.done,
            ),
        )


def _queue(
    lab: Lab, packets: int, size: int | None, rate_mbit: float, rtt_ms: float, duration_s: float
) -> Queue:
    lab.link.update("client->server", queue_packets=packets)
    lab.link.command("reset")
    transfer: list[TcpBulkResult] = []

    def send() -> None:
        transfer.append(
            tcp_bulk(
                lab,
                write_bytes=16_384,
                duration_s=duration_s,
                sndbuf_bytes=None,
                rcvbuf_bytes=size,
                read_bytes=131_072,
                interval_ms=25,
            )
        )

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(0.6 * duration_s)
    other = small_writes(lab, "writev", messages=3, writes=1, cpu=None)
    thread.join()
    if not transfer:
        raise LabError(f"the transfer through the queue of {packets} packets failed")
    (result,) = transfer
    samples = _samples(result)
    late = [each.rtt_ms for each in samples if each.time_s >= samples[-1].time_s / 2]
    counted = lab.link.counters()["client->server"]
    return Queue(
        queue_packets=packets,
        rcvbuf_bytes=size,
        mbit=_steady_mbit(result),
        rtt_ms=statistics.median(late),
        most_rtt_ms=max(each.rtt_ms for each in samples),
        full_queue_rtt_ms=rtt_ms + packets * serialisation_ms(MSS_BYTES, rate_mbit),
        most_queued_packets=int(counted["queue_packets_max"]),
        retransmissions=result.source.tcp_info["total_retrans"],
        other_ms=other.message_us.median / 1e3,
        samples=samples,
    )


# ---- the command line ----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab run buffers`."""
    parser.add_argument(
        "part", nargs="?", choices=PARTS, default="sweep", help="which part (default sweep)"
    )
    parser.add_argument(
        "--side", choices=get_args(Side), default="receive", help="of sweep: which buffer"
    )
    parser.add_argument(
        "--rtt-ms", type=float, nargs="+", help="of the wire (sweep 10 20 40, autotuning 2 40)"
    )
    parser.add_argument(
        "--rate-mbit",
        type=float,
        help="of the wire (sweep 50, limits 20, autotuning 100, queues 10)",
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        help="bytes to ask for (sweep, grants, autotuning, one-segment)",
    )


def from_arguments(arguments: argparse.Namespace) -> Result:
    """`measure`, or the part that was asked for, with the options of the command line."""
    part = cast(Part, arguments.part)
    given = {
        name: value
        for name, value in (
            ("rtts_ms", arguments.rtt_ms),
            ("rate_mbit", arguments.rate_mbit),
            ("requests", arguments.sizes),
        )
        if value is not None
    }
    run, takes = _COMMANDS[part]
    if extra := sorted(set(given) - set(takes)):
        option = {"rtts_ms": "--rtt-ms", "rate_mbit": "--rate-mbit", "requests": "--sizes"}[
            extra[0]
        ]
        raise ValueError(f"{option} does not go with '{part}': leave it out")
    if part == "sweep":
        given["side"] = arguments.side
    result: Result = run(**given)
    return result


#: Part -> function, and which of the options it takes.
_COMMANDS: Final[Mapping[Part, tuple[Callable[..., Any], Sequence[str]]]] = {
    "sweep": (measure, ("rtts_ms", "rate_mbit", "requests")),
    "grants": (measure_grants, ("requests",)),
    "order": (measure_order, ()),
    "limits": (measure_limits, ("rate_mbit",)),
    "zero-window": (measure_zero_window, ()),
    "autotuning": (measure_autotuning, ("rtts_ms", "rate_mbit", "requests")),
    "held": (measure_held, ()),
    "one-segment": (measure_one_segment, ("requests",)),
    "queues": (measure_queues, ("rate_mbit",)),
}
