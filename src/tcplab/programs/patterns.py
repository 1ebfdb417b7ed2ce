"""Make calls on TCP sockets at exact times: writepattern, writepattern_peer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tcplab.programs.logs import Event
from tcplab.programs.messages import QuickAck
from tcplab.programs.pair import AnyNetwork, Running, RunOptions, long_options
from tcplab.programs.reports import Report

#: Calls that a timeline accepts, with their names there.
_EVENTS: Final[Mapping[str, str | tuple[str, str]]] = {
    "write": "write",
    "writev": "write",
    "more": "more",
    "read": "read",
    "cork": ("uncork", "cork"),
    "nodelay": ("delay", "nodelay"),
}


@dataclass(frozen=True, slots=True)
class PatternResult(Report):
    """Report of writepattern about one schedule."""

    schedule: int  #: Index of the schedule
    port: int  #: Port of the sending socket
    mss_bytes: int  #: TCP_MAXSEG at the start
    #: Calls with "call", "start_ns", "end_ns" and "bytes" or "value". "shutdown" comes last
    calls: Sequence[Mapping[str, Any]]

    @property
    def log(self) -> list[Event]:
        """The calls as a program's log, with writes at their start and reads at their end."""
        return [_event(call) for call in self.calls if call["call"] in _EVENTS]


def _event(call: Mapping[str, Any]) -> Event:
    name = _EVENTS[call["call"]]
    if isinstance(name, tuple):
        name = name[call["value"]]
    time_ns = call["end_ns"] if name == "read" else call["start_ns"]
    return Event(int(time_ns), name, int(call.get("bytes", 0)))


@contextmanager
def writepattern_peer(
    network: AnyNetwork,
    *,
    quickack: QuickAck = "on",
    reply: tuple[int, int] | None = None,
    read_at_end: bool = False,
    run: RunOptions | None = None,
) -> Iterator[int]:
    """Receive on the server until the with statement ends.

    Args:
        reply: (every_bytes, reply_bytes), for a reply of reply_bytes after every every_bytes
        read_at_end: read nothing until the sender has shut down
    """
    run = run or RunOptions()
    argv = ["writepattern_peer", "--port", str(run.port), *run.server_options(network)]
    every, size = reply or (None, None)
    argv += long_options(
        quickack=quickack, reply_every=every, reply_bytes=size, read_at_end=read_at_end
    )
    with Running(network.server, argv) as peer:
        yield peer.port()


def write_patterns(
    network: AnyNetwork,
    port: int,
    schedules: Sequence[str],
    *,
    stagger_us: int | None = None,
    run: RunOptions | None = None,
) -> list[PatternResult]:
    """Make the calls of each schedule (see writepattern.c) on one connection each, all at once."""
    run = run or RunOptions()
    argv = ["writepattern", "--port", str(port), *run.client_options(network)]
    argv += [*long_options(stagger=stagger_us), network.server.address, *schedules]
    with Running(network.client, argv) as sender:
        lines = sender.output(run.timeout_s).splitlines()
    return [PatternResult.from_json(json.loads(line)) for line in lines]
