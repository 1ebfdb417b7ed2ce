"""Make calls on TCP sockets at exact times with writepattern and writepattern_peer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tcplab.programs.logs import Event
from tcplab.programs.messages import QuickAck
from tcplab.programs.pair import AnyNetwork, Running, RunOptions, arguments
from tcplab.programs.reports import Report

#: Event in a timeline's log for each call of writepattern. A pair is for the values 0 and 1.
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
    """The report of writepattern on one schedule."""

    schedule: int  #: Index of the schedule among those given
    port: int  #: Port of the sending socket
    mss_bytes: int  #: TCP_MAXSEG at the start
    #: The calls, each with "call", "start_ns", "end_ns", and "bytes" or "value"; "shutdown" is last
    calls: Sequence[Mapping[str, Any]]

    @property
    def log(self) -> list[Event]:
        """The calls as a log, with the start of each write and the end of each read."""
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
    """Run writepattern_peer on the server until the with statement ends; yield its port.

    Args:
        reply: (every_bytes, reply_bytes), to send reply_bytes whenever every_bytes have arrived
        read_at_end: read nothing until the sender has shut down
    """
    run = run or RunOptions()
    argv = ["writepattern_peer", "--port", "0", *run.server_options(network)]
    every, size = reply or (None, None)
    argv += arguments(
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
    """Make the calls of each schedule on a separate connection, with all connections in parallel.

    The schedules are described in writepattern.c. Connections start `stagger_us` apart, by default
    2 ms.
    """
    run = run or RunOptions()
    argv = ["writepattern", "--port", str(port), *run.client_options(network)]
    argv += [*arguments(stagger=stagger_us), network.server.address, *schedules]
    with Running(network.client, argv) as sender:
        lines = sender.output().splitlines()
    return [PatternResult.from_json(json.loads(line)) for line in lines]
