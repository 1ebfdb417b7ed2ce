"""Measure how much a pause reduces the congestion window of an idle connection.

RFC 5681, section 4.1, recommends restarting with a small window. Linux halves the window once per
retransmission timeout of idle time, down to the initial window (tcp_cwnd_restart()). It does
not if the congestion control sets the rate itself, as BBR does (tcp_slow_start_after_idle_check).
"""

import socket
import time
from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.progress import case_by_case
from tcplab.experiments.quantities import on_off, plus
from tcplab.experiments.short_transfer import flights, until_acknowledged_ms
from tcplab.experiments.sockets import MSS_BYTES, connection, send_and_wait
from tcplab.lab import Lab
from tcplab.segments import SegmentArray
from tcplab.timeline.sockets import read_tcp_info

_DATA_BYTES: Final = 70 * MSS_BYTES  # each of the two writes has this size


class Pause(Variant, key=("pause_ms", "restarts")):
    """The same amount of data, sent before and after a pause over one connection."""

    pause_ms: float = column("pause (ms)", "g")
    restarts: bool = column("tcp_slow_start_after_idle", show=on_off)
    rto_ms: float = column("RTO (ms)", ".0f")  #: the sender's RTO before the pause
    cwnd_before: int = column("cwnd before", "d")
    flights_before: tuple[int, ...] = column("flights before (segments)", show=plus)
    flights_after: tuple[int, ...] = column("flights after (segments)", show=plus)
    before_ms: float = column("time before (ms)", ".0f")  #: time until the ACK of the last byte
    after_ms: float = column("time after (ms)", ".0f")

    @property
    def label(self) -> str:
        return f"{self.pause_ms:g} ms" + ("" if self.restarts else ", restart off")


@experiment(
    "idle-restart",
    figure=("after_ms", "before_ms"),
    finding="After a pause of 1 s, a new slow start makes the same data take "
    "{after_ms[1000 ms/1000 ms, restart off]} times as long",
)
def measure(
    pauses_ms: Annotated[Sequence[float], Between(0, 10_000, "ms"), "pauses"] = (100, 1000),
    restarts: Annotated[Sequence[bool], "tcp_slow_start_after_idle"] = (True, False),
    rtt_ms: Annotated[RttMs, Between(10, 1000, "ms")] = 40.0,
) -> Result[Pause]:
    """Send data twice with a pause in between, and count the segments per flight."""
    with Lab(rtt_ms=rtt_ms, rate_mbit=100, congestion="reno") as lab:

        def run(case: tuple[float, bool]) -> Pause:
            lab.client.sysctl("net.ipv4.tcp_slow_start_after_idle", str(int(case[1])))
            return _paused(lab, *case)

        cases = [(pause_ms, restart) for restart in restarts for pause_ms in pauses_ms]
        return case_by_case(lab, cases, run, data_bytes=_DATA_BYTES)


def _paused(lab: Lab, pause_ms: float, restarts: bool) -> Pause:
    with lab.client.capture() as recorded, connection(lab) as (sender, receiver):
        # The kernel's own send buffer starts small, which would split the flights.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _DATA_BYTES)
        send_and_wait(lab, sender, receiver, _DATA_BYTES)
        info = read_tcp_info(sender)
        time.sleep(pause_ms / 1e3)
        send_and_wait(lab, sender, receiver, _DATA_BYTES)
    parts = _split(recorded.segments)
    before, after = (
        tuple(flight.segments for flight in flights(part, lab.rtt_ms)) for part in parts
    )
    times_ms = map(until_acknowledged_ms, parts)
    return Pause(
        pause_ms, restarts, info["rto_us"] / 1e3, info["snd_cwnd"], before, after, *times_ms
    )


def _split(segments: SegmentArray) -> tuple[SegmentArray, SegmentArray]:
    start = segments.data("client")["seq"].min()
    acks = segments[(segments["direction"] == 1) & (segments["ack"] >= start + _DATA_BYTES)]
    at_ns = acks["time_ns"][0]
    return segments[segments["time_ns"] <= at_ns], segments[segments["time_ns"] > at_ns]
