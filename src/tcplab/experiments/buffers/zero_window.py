"""A receiver that does not read: the window closes, is asked for, and opens again.

Source: RFC 9293, 3.8.6.1 (zero-window probing).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.exchange import segments_of
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
    """A receiver that pauses, as seen beside the sender."""

    columns: ClassVar[Sequence[Column]] = (
        Column("time_ms", "time (ms)", ".1f"),
        Column("variant", "what"),
        Column("window_bytes", "window (bytes)", ",d"),
    )

    pause_ms: float  #: how long the receiver read nothing
    rcvbuf_bytes: int  #: its buffer
    read_at_ms: float  #: when it began to read, after the first segment of the connection
    log: Sequence[Event]  #: what the sender's application did
    options: SocketOptions  #: the sender's socket
    segments: SegmentArray  #: on the sender's interface
    provenance: Mapping[str, Any]  #: see tcplab.experiments.provenance.

    def time_ms(self, time_ns: int) -> float:
        """After the first segment of the connection."""
        return float(int(time_ns) - self.segments.first_time_ns) / 1e6

    @property
    def accepted_bytes(self) -> int:
        """Bytes that the receiver's kernel took before the window closed."""
        rows = self.segments
        closed = rows[rows["is_zero_window"]]
        return int(closed["ack"][0]) - 1 if len(closed) else 0

    def probes_ms(self) -> list[float]:
        """When the sender asked for the window: a segment without data, one byte behind."""
        rows = self.segments
        closed = [self.time_ms(each["time_ns"]) for each in rows if each["is_zero_window"]]
        if not closed:
            return []
        return [
            when
            for each in rows.acks("client")
            if closed[0] < (when := self.time_ms(each["time_ns"])) < self.reopened_ms
            and int(each["seq"]) == self.accepted_bytes
        ]

    @property
    def reopened_ms(self) -> float:
        """When the news that there is room again came to the sender."""
        rows = self.segments
        shut = False
        for each in rows.sent_by("server"):
            shut = shut or bool(each["is_zero_window"])
            if shut and each["window"]:
                return self.time_ms(each["time_ns"])
        return float("inf")

    def timeline(self) -> Timeline:
        """Why each segment left when it did: see tcplab.timeline."""
        from tcplab.timeline import Exchange

        return Exchange(None, self.log, self.segments, options=self.options).timeline()

    def rows(self) -> list[dict[str, Any]]:
        """The moments that matter, in order.

        On a busy machine the reader may fall behind once more, and the window closes again.
        """
        probes, found = self.probes_ms(), list[dict[str, Any]]()
        shut = False
        for each in self.segments:
            when, window = self.time_ms(each["time_ns"]), int(each["window"])
            if each["is_zero_window"]:
                if shut:
                    what = "still closed"
                else:
                    what = "the window is closed again" if found else "the window is closed"
                shut = True
            elif when in probes:
                what = "the sender asks (window probe)"
            elif shut and window and each["direction"] == FROM_SERVER:
                what, shut = "the window is open again", False
            else:
                continue
            offered = None if when in probes else window
            found.append({"variant": what, "time_ms": when, "window_bytes": offered})
        return found


@experiment("zero-window")
def measure_zero_window(
    pause_ms: Annotated[float, Between(300, 10_000, "ms")] = 1500,
    rcvbuf_bytes: Annotated[int, Between(4096, 49_152, "bytes")] = 16_384,
    rtt_ms: Annotated[float, Between(0, 500, "ms")] = 10,
    network: Lab | None = None,
) -> ZeroWindow:
    """A receiver that stops reading: its window closes, is probed, and opens again.

    Args:
        pause_ms: time during which the receiver does not read.
        rcvbuf_bytes: SO_RCVBUF to ask for.
        rtt_ms: round-trip time of the wire.
        network: a laboratory of its own unless given.
    """
    from tcplab.timeline.sockets import read_options

    with nullcontext(network) if network else Lab(rtt_ms=rtt_ms) as lab:
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
