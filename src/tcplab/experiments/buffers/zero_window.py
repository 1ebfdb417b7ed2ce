"""Record how the window of a pausing receiver closes, is probed, and reopens.

Sources: RFC 9293, 3.8.6.1 (zero-window probing) and 3.8.6.2.2. The latter forbids silly windows. A
receiver whose buffer was full must not offer room until it can offer a full segment or half of the
buffer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

from tcplab.experiments import Between, Result, Variant, column, experiment, provenance
from tcplab.experiments.exchange import Exchanged, segments_of
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.sockets import connection, sending
from tcplab.lab import Lab
from tcplab.programs import Event
from tcplab.segments import FROM_CLIENT, SegmentArray
from tcplab.timeline import Exchange
from tcplab.timeline.sockets import read_options


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
