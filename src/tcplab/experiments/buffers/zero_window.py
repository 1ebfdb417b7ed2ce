"""Record how the window of a pausing receiver closes, is probed, and reopens.

Source: RFC 9293, 3.8.6.1 (zero-window probing).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.sockets import connection, read_all, sending
from tcplab.lab import Lab
from tcplab.programs import Event, SocketOptions
from tcplab.segments import FROM_SERVER
from tcplab.tables import Column

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray
    from tcplab.timeline import Timeline


@dataclass(frozen=True, slots=True)
class ZeroWindow:
    """A transfer to a receiver that pauses, recorded at the sender."""

    columns: ClassVar[Sequence[Column]] = (
        Column("time_ms", "time (ms)", ".1f"),
        Column("variant", "event"),
        Column("window_bytes", "window (bytes)", ",d"),
    )

    pause_ms: float
    rcvbuf_bytes: int
    read_at_ms: float  #: time from the first segment until the receiver began to read
    log: Sequence[Event]  #: calls of the sender
    options: SocketOptions  #: options of the sender's socket
    segments: SegmentArray  #: segments on the sender's interface
    provenance: Mapping[str, Any]

    def time_ms(self, time_ns: int) -> float:
        """Convert a time in ns to ms since the first segment of the connection."""
        return float(int(time_ns) - self.segments.first_time_ns) / 1e6

    @property
    def accepted_bytes(self) -> int:
        """Number of bytes accepted by the receiver when the window first closed, 0 if never."""
        rows = self.segments
        closed = rows[rows["is_zero_window"]]
        return int(closed["ack"][0]) - 1 if len(closed) else 0

    def probes_ms(self) -> list[float]:
        """Return the times in ms of the window probes before the window first reopened.

        A probe is an empty segment with an old sequence number.
        """
        rows = self.segments
        closed_ms = [self.time_ms(row["time_ns"]) for row in rows if row["is_zero_window"]]
        if not closed_ms:
            return []
        return [
            time_ms
            for row in rows.acks("client")
            if closed_ms[0] < (time_ms := self.time_ms(row["time_ns"])) < self.reopened_ms
            and int(row["seq"]) == self.accepted_bytes
        ]

    @property
    def reopened_ms(self) -> float:
        """Time in ms of the first ACK that reopened the window, or infinity if there was none."""
        shut = False
        for row in self.segments.sent_by("server"):
            shut = shut or bool(row["is_zero_window"])
            if shut and row["window"]:
                return self.time_ms(row["time_ns"])
        return float("inf")

    def timeline(self) -> Timeline:
        """Return segments and ACKs on one clock, with the reason for each wait."""
        from tcplab.timeline import Exchange

        return Exchange(None, self.log, self.segments, options=self.options).timeline()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each zero window, each reopening and each probe of the first closure.

        On a busy machine the reader may fall behind again, which closes the window again.
        """
        probes, rows = self.probes_ms(), list[dict[str, Any]]()
        shut = False
        for segment in self.segments:
            time_ms, window = self.time_ms(segment["time_ns"]), int(segment["window"])
            if segment["is_zero_window"]:
                if shut:
                    what = "still closed"
                else:
                    what = "the window is closed again" if rows else "the window is closed"
                shut = True
            elif time_ms in probes:
                what = "the sender asks (window probe)"
            elif shut and window and segment["direction"] == FROM_SERVER:
                what, shut = "the window is open again", False
            else:
                continue
            offered = None if time_ms in probes else window
            rows.append({"variant": what, "time_ms": time_ms, "window_bytes": offered})
        return rows


@experiment("zero-window")
def measure_zero_window(
    pause_ms: Annotated[
        float, Between(300, 10_000, "ms"), "time during which the receiver does not read"
    ] = 1500,
    rcvbuf_bytes: Annotated[int, Between(4096, 49_152, "bytes"), "requested SO_RCVBUF"] = 16_384,
    rtt_ms: Annotated[RttMs, Between(0, 500, "ms")] = 10,
) -> ZeroWindow:
    """Record how the window of a pausing receiver closes, is probed, and reopens."""
    from tcplab.timeline.sockets import read_options

    with Lab(rtt_ms=rtt_ms) as lab:
        with (
            lab.client.capture() as capture,
            connection(lab, before=rcvbuf_bytes) as (sender, receiver),
        ):
            granted = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            options = read_options(sender)
            log = [Event(time.time_ns(), "write", 100_000)]
            with sending(sender, 100_000):
                time.sleep(pause_ms / 1e3)
                read_at_ns = time.time_ns()
                read_all(receiver)
        rows = segments_of(capture)
        return ZeroWindow(
            pause_ms=pause_ms,
            rcvbuf_bytes=granted,
            read_at_ms=(read_at_ns - rows.first_time_ns) / 1e6,
            log=log,
            options=options,
            segments=rows,
            provenance=provenance(lab),
        )
