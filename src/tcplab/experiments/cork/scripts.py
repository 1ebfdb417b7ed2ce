"""Play scripts of calls with the C program writepattern, and record the segments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tcplab.experiments.exchange import Exchanged, segments_of
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
from tcplab.timeline import Exchange

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

#: Pause between the handshake and the first call, in which both ends become idle.
SETTLE_MS: Final = 60


@dataclass(frozen=True, slots=True)
class Played(Exchanged):
    """The record of one script of calls."""

    calls: int  #: number of system calls other than shutdown()
    exchange: Exchange[PatternResult]

    @property
    def log(self) -> Sequence[Event]:
        return self.exchange.log or ()

    @property
    def start_ns(self) -> int:
        """The time of the first call other than a read."""
        return next(event.time_ns for event in self.log if event.name != "read")

    @property
    def data(self) -> SegmentArray:
        return self.exchange.captured.data("client", retransmissions=False)

    @property
    def sizes(self) -> list[int]:
        sizes: list[int] = self.data["payload_bytes"].tolist()
        return sizes

    @property
    def left_ms(self) -> list[float]:
        return [(int(time_ns) - self.start_ns) / 1e6 for time_ns in self.data["time_ns"]]


def script_words(calls: Sequence[Call]) -> str:
    """Return the calls as a script for writepattern."""
    return " ".join(f"{round(call.delay_ms * 1e3)}:{call.kind}={call.value}" for call in calls)


def play(lab: Lab, scripts: Sequence[str], reply: tuple[int, int] | None = None) -> list[Played]:
    """Play scripts at the same time, each on its own connection.

    If `reply` is (n, size), the server sends `size` bytes after every n bytes that it reads.
    """
    run = RunOptions.on_one_cpu()
    with (
        lab.client.capture() as client,
        lab.server.capture() as server,
        writepattern_peer(lab, reply=reply, run=run) as port,
    ):
        results = write_patterns(lab, port, scripts, stagger_us=20_000, run=run)
    rows, peer_rows = segments_of(client), segments_of(server)
    return [_played(lab, result, rows, peer_rows) for result in results]


def _played(lab: Lab, result: PatternResult, rows: SegmentArray, peer_rows: SegmentArray) -> Played:
    port = result.port
    near, far = rows.at_port(port), peer_rows.at_port(port)
    server_port = int(near["dst_port"][0])
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
    exchange = Exchange(result, result.log, near, peer_segments=far, options=options, nodelay=False)
    return Played(calls, exchange)
