"""Play scripts of calls with the C program writepattern, and record the segments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcplab.experiments.exchange import Exchanged, segments_of
from tcplab.lab import Lab
from tcplab.models import Call
from tcplab.programs import (
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


class Played(Exchanged):
    """Base class of variants that consist of one script of calls."""

    @property
    def start_ns(self) -> int:
        return next(event.time_ns for event in self.exchange.log or () if event.name != "read")

    @property
    def sizes(self) -> list[int]:
        sizes: list[int] = self.segments.data("client", retransmissions=False)[
            "payload_bytes"
        ].tolist()
        return sizes

    @property
    def left_ms(self) -> list[float]:
        data = self.segments.data("client", retransmissions=False)
        return [(int(time_ns) - self.start_ns) / 1e6 for time_ns in data["time_ns"]]


def script_words(calls: Sequence[Call]) -> str:
    """Return the calls as a script for writepattern."""
    return " ".join(f"{round(call.delay_ms * 1e3)}:{call.kind}={call.value}" for call in calls)


def play(
    lab: Lab, scripts: Sequence[str], reply: tuple[int, int] | None = None
) -> list[Exchange[PatternResult]]:
    """Play scripts at once, one per connection. `reply` is (bytes read, bytes sent in answer)."""
    run = RunOptions.on_one_cpu()
    with (
        lab.client.capture() as client,
        lab.server.capture() as server,
        writepattern_peer(lab, reply=reply, run=run) as port,
    ):
        results = write_patterns(lab, port, scripts, stagger_us=20_000, run=run)
    rows, peer_rows = segments_of(client), segments_of(server)
    return [_played(lab, result, rows, peer_rows) for result in results]


def _played(
    lab: Lab, result: PatternResult, rows: SegmentArray, peer_rows: SegmentArray
) -> Exchange[PatternResult]:
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
    return Exchange(result, result.log, near, peer_segments=far, options=options, nodelay=False)
