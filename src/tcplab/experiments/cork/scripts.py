"""Scripts of calls, played at the microsecond by the C program writepattern, and what left then."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tcplab.experiments.exchange import segments_of
from tcplab.lab import Lab
from tcplab.models import Call
from tcplab.programs import (
    Event,
    PatternResult,
    RunOptions,
    SocketOptions,
    write_patterns,
    writepattern_peer,
)
from tcplab.timeline import Exchange, Timeline

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

#: Both ends come to rest after the handshake before the first call of a script.
SETTLE_MS: Final = 60


@dataclass(frozen=True, slots=True)
class Played:
    """One script of calls as it was played."""

    calls: int  #: how many system calls that was
    exchange: Exchange[PatternResult]  #: its connection

    @property
    def log(self) -> Sequence[Event]:
        """Each call, on the clock of the segments."""
        return self.exchange.log or ()

    @property
    def start_ns(self) -> int:
        """When the first write began, or a cork was set before it."""
        return next(each.time_ns for each in self.log if each.name != "read")

    @property
    def data(self) -> SegmentArray:
        """Data segments that left for the first time."""
        return self.exchange.captured.data("client", retransmissions=False)

    @property
    def sizes(self) -> list[int]:
        """Payload bytes of each data segment."""
        sizes: list[int] = self.data["payload_bytes"].tolist()
        return sizes

    @property
    def left_ms(self) -> list[float]:
        """When each of them left, after the first call."""
        return [(int(when) - self.start_ns) / 1e6 for when in self.data["time_ns"]]

    def timeline(self) -> Timeline:
        """See :func:`tcplab.timeline.explain`."""
        return self.exchange.timeline()


def script_words(calls: Sequence[Call]) -> str:
    """A script as writepattern reads it; writev is a call of its own there."""
    return " ".join(f"{round(call.delay_ms * 1e3)}:{call.kind}={call.value}" for call in calls)


def play(lab: Lab, scripts: Sequence[str], reply: tuple[int, int] | None = None) -> list[Played]:
    """Plays scripts at the same time, each on a connection of its own."""
    run = RunOptions.on_one_cpu()
    with (
        lab.client.capture() as near,
        lab.server.capture() as far,
        writepattern_peer(lab, reply=reply, run=run) as port,
    ):
        results = write_patterns(lab, port, scripts, stagger_us=20_000, run=run)
    rows, peer_rows = segments_of(near), segments_of(far)
    return [_played(lab, each, rows, peer_rows) for each in results]


def _played(lab: Lab, result: PatternResult, rows: SegmentArray, peer_rows: SegmentArray) -> Played:
    port = result.port
    mine, far = rows.at_port(port), peer_rows.at_port(port)
    server_port = int(mine["dst_port"][0])
    options = SocketOptions(
        sndbuf_bytes=46_080,
        rcvbuf_bytes=131_072,
        local=f"{lab.client.address} port {port}",
        peer=f"{lab.server.address} port {server_port}",
        cpu=min(os.sched_getaffinity(0)),
        deadline_s=30.0,
        congestion=lab.congestion,
        mss_bytes=result.mss_bytes,
        nodelay=False,
    )
    calls = sum(call["call"] != "shutdown" for call in result.calls)
    exchange = Exchange(result, result.log, mine, peer_segments=far, options=options, nodelay=False)
    return Played(calls, exchange)
