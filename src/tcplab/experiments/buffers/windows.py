"""Measure the sizes and windows that the kernel grants, when to set a buffer, and closed windows.

Sources: socket(7), RFC 7323 (only the SYN carries the window scale), RFC 9293, 3.8.6.1 (zero-window
probing) and 3.8.6.2.2. The latter forbids silly windows. A receiver whose buffer was full must not
offer room until it can offer a full segment or half of the buffer.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from tcplab.checks import whole
from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.buffers.throughput import MOST_BYTES, Requests, core_limit, usable_window
from tcplab.experiments.exchange import Exchanged, segments_of
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.progress import case_by_case
from tcplab.experiments.quantities import Variant, column, computed
from tcplab.experiments.sockets import connection, read_all, sending
from tcplab.lab import Lab
from tcplab.programs import Event
from tcplab.segments import FROM_CLIENT, SegmentArray
from tcplab.timeline import Exchange
from tcplab.timeline.sockets import read_options

_SIZES: Final = ((262_144, None), (None, 262_144), (16_384, 262_144), (262_144, 4096))
_REQUESTS: Final = (1, 4096, 32_768, 65_536, 200_000, MOST_BYTES, None)


class Grant(Variant, heading="requested (bytes)"):
    """A requested buffer size, the granted sizes, and the windows of a transfer."""

    requested_bytes: int | None  #: size given to setsockopt(), or None if it was not called
    sndbuf_bytes: int = column("SO_SNDBUF", ",d", is_setting=True)
    rcvbuf_bytes: int = column("SO_RCVBUF", ",d")
    syn_window_bytes: int = column("window in the SYN-ACK", ",d")  #: never scaled
    window_scale: int = column("window scale", "d")
    largest_window_bytes: int = column("largest window (bytes)", ",d")  #: not counting the SYN-ACK
    #: None if autotuned
    model_window_bytes = computed(
        lambda case: case.requested_bytes and usable_window(case.rcvbuf_end_bytes, case.kernel),
        "model (bytes)",
        ",d",
    )
    rcvbuf_end_bytes: int  #: SO_RCVBUF at the end of the transfer

    @property
    def label(self) -> str:
        return "nothing" if self.requested_bytes is None else f"{self.requested_bytes:,}"

    share = computed(
        lambda case: case.largest_window_bytes / case.rcvbuf_end_bytes, "window / SO_RCVBUF", ".3f"
    )


@experiment("buffer-grants", figure=("largest_window_bytes",))
def measure_grants(requests: Requests = _REQUESTS) -> Result[Grant]:
    """Request buffers of several sizes, and measure the granted sizes and the windows."""
    limits = {f"{name}_bytes": core_limit(name) for name in ("rmem_max", "wmem_max")}
    with Lab(rtt_ms=2) as lab:
        return case_by_case(lab, requests, lambda request: _grant(lab, request), **limits)


def _grant(lab: Lab, request: int | None) -> Grant:
    # With a window of one small packet, a large transfer would take too long.
    size = 1_000_000 if request is None or request >= 4096 else 5000
    with lab.client.capture() as capture, connection(lab, before=request) as (sender, receiver):
        if request is not None:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, request)
        sndbuf = sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        rcvbuf = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        with sending(sender, size):
            read_all(receiver)
        rcvbuf_end = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return Grant(request, sndbuf, rcvbuf, *_windows(segments_of(capture)), rcvbuf_end)


def _windows(rows: SegmentArray) -> tuple[int, int, int]:
    """Return the window and the scale in the SYN-ACK, and the largest window after it."""
    sent = rows.sent_by("server")
    (syn_ack,) = sent[sent.is_syn][:1]
    largest = sent[~sent.is_syn]["window"].max()
    return int(syn_ack["window"]), int(syn_ack["wscale"]), int(largest)


# ---- before listen(), or after accept() ----------------------------------------------------------


class Ordered(Variant, key=("before", "after")):
    """A transfer whose receive buffer is set before listen(), after accept(), or at both times."""

    before: int | None = column("before listen()", ",d")
    after: int | None = column("after accept()", ",d")
    window_scale: int = column("window scale", "d")
    rcvbuf_bytes: int = column("SO_RCVBUF at the end", ",d")
    largest_window_bytes: int = column("largest window (bytes)", ",d")  #: not counting the SYN-ACK
    mbit: float = column("Mbit/s", ".1f")
    retransmissions: int = column("retransmissions", "d")
    zero_windows: int = column("zero windows", "d")

    @property
    def label(self) -> str:
        return f"{self.before or 'unset'} before, {self.after or 'unset'} after"


@experiment(
    "buffer-order",
    figure=("mbit",),
    finding="Set before listen(), the buffer carries {mbit[262144 before, unset "
    "after/16384 before, 262144 after]} times as much as set after accept()",
)
def measure_order(
    sizes: Sequence[tuple[int | None, int | None]] = _SIZES,
    rtt_ms: Annotated[RttMs, Between(1, 500, "ms")] = 20,
) -> Result[Ordered]:
    """Set SO_RCVBUF before listen() or after accept(), and measure which setting counts.

    The receiver starts to read three round trips late, as a busy program does. This exposes a
    buffer that is smaller than the window offered.

    Args:
        sizes: pairs of bytes before listen() and after accept(), 1 to 2^30, or None to set nothing
    """
    for size in (size for pair in sizes for size in pair if size is not None):
        whole("sizes", size, 1, MOST_BYTES, unit=" bytes")
    with Lab(rtt_ms=rtt_ms) as lab:
        limit = core_limit("rmem_max")
        return case_by_case(lab, sizes, lambda pair: _ordered(lab, *pair), rmem_max_bytes=limit)


def _ordered(lab: Lab, before: int | None, after: int | None) -> Ordered:
    # With a buffer of 8 KiB or less, few packets pass per round trip, so less data is sent.
    size = 2_000_000 if min(before or 65_536, after or 65_536) > 8192 else 100_000
    with (
        lab.client.capture() as capture,
        connection(lab, before=before, after=after) as (sender, receiver),
    ):
        start = time.perf_counter()
        with sending(sender, size):
            time.sleep(3 * lab.rtt_ms / 1e3)
            total = read_all(receiver)
        seconds = time.perf_counter() - start
        granted = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    rows = segments_of(capture)
    _window, scale, largest = _windows(rows)
    return Ordered(
        before=before,
        after=after,
        rcvbuf_bytes=granted,
        window_scale=scale,
        largest_window_bytes=largest,
        mbit=total * 8 / seconds / 1e6,
        retransmissions=int(rows["is_retransmission"].sum()),
        zero_windows=int(rows["is_zero_window"].sum()),
    )


# ---- a closed window -----------------------------------------------------------------------------


class WindowEvent(Variant, key=("event", "time_ms"), label="{0.event}", heading="event"):
    """A change of the receiver's window, or a probe of the sender."""

    event: str
    time_ms: float = column("time (ms)", ".1f")  #: time since the first segment
    window_bytes: int | None = column("window (bytes)", ",d")


class ZeroWindow(Exchanged, Result[WindowEvent]):
    """A transfer to a receiver that pauses, recorded at the sender."""

    exchange: Exchange[None]
    read_at_ms: float  #: time from the first segment until the receiver began to read

    def openings(self) -> list[int]:
        """Return the sizes of the windows with which the receiver reopened a closed window."""
        return [event.window_bytes or 0 for event in self.variants if event.event == _OPEN]


@experiment("zero-window", figure=lambda figures, result: figures.in_flight(result.timeline()))
def measure_zero_window(
    pause_ms: Annotated[
        float, Between(300, 10_000, "ms"), "time during which the receiver does not read"
    ] = 1500,
    read_bytes: Annotated[int, Between(1, 65_536, "bytes"), "bytes per read"] = 65_536,
    rtt_ms: Annotated[RttMs, Between(0, 500, "ms")] = 10,
) -> ZeroWindow:
    """Record how the window of a pausing receiver closes, is probed, and reopens."""
    with Lab(rtt_ms=rtt_ms) as lab:
        with lab.client.capture() as capture, connection(lab, before=16_384) as (sender, receiver):
            options = read_options(sender)
            log = [Event(time.time_ns(), "write", 100_000)]
            with sending(sender, 100_000):
                time.sleep(pause_ms / 1e3)
                read_at_ns, reads = time.time_ns(), 0
                while receiver.recv(read_bytes):
                    reads += 1
        segments = segments_of(capture)
        return ZeroWindow(
            list(_events(segments)),
            provenance(lab, reads=reads),
            Exchange(None, log, segments, options=options),
            (read_at_ns - segments.first_time_ns) / 1e6,
        )


_OPEN = "the window is open again"


def _events(segments: SegmentArray) -> Iterator[WindowEvent]:
    """Yield each zero window, each empty segment that probes it, and each reopening."""
    is_closed = False
    for segment in segments:
        time_ms = (int(segment["time_ns"]) - segments.first_time_ns) / 1e6
        if segment["direction"] == FROM_CLIENT:
            if is_closed and segment["is_pure_ack"]:
                yield WindowEvent("the sender asks (window probe)", time_ms, None)
        elif segment["is_zero_window"]:
            yield WindowEvent("still closed" if is_closed else "the window is closed", time_ms, 0)
            is_closed = True
        elif is_closed:
            yield WindowEvent(_OPEN, time_ms, int(segment["window"]))
            is_closed = False
