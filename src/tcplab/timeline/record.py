"""Define the record of a conversation between two programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tcplab.programs import Event, SocketOptions, TcpInfo
from tcplab.segments import SegmentArray

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Record(Generic[R]):
    """Everything that both programs reported and logged, and that both hosts captured."""

    #: The report of the programs, or None.
    result: R
    #: Calls of the sender's application (see programs.read_log). "write" and "more" (a write with
    #: MSG_MORE) have the time at which the call began. "wrote" (optional, with the bytes that TCP
    #: took), "read", "acknowledged" and a client's "reply" have the time at which the call ended,
    #: and "cork", "uncork" and "nodelay" may have either. None means that there is no log, in which
    #: case only full segments and retransmissions can be explained.
    log: Sequence[Event] | None = None
    #: The capture on the sender's interface, or None if none was made (on plain loopback).
    segments: SegmentArray | None = None
    #: Calls of the peer's application, or None.
    peer_log: Sequence[Event] | None = None
    #: The capture on the peer's interface, on the same clock, or None. It shows the delay of each
    #: ACK and the queueing on the link.
    peer_segments: SegmentArray | None = None
    #: Number of packets that the recorders dropped, or None if nothing was recorded.
    drops: int | None = None
    #: Options of the sender's socket, with its ports, TCP_NODELAY and SO_SNDBUF, or None.
    options: SocketOptions | None = None
    #: TCP_INFO of the sender at the end, or None.
    tcp_info: TcpInfo | None = None
    #: Samples of the sender's TCP_INFO, each with the key "time_ns" (CLOCK_REALTIME).
    samples: Sequence[Mapping[str, Any]] = ()
    #: Rate of the link in 10^6 bit/s, infinite if it has no limit, or None if it is unknown.
    rate_mbit: float | None = None
    #: TCP_NODELAY at the start, or None to use the value in the options, if there are any.
    nodelay: bool | None = None

    @property
    def captured(self) -> SegmentArray:
        """The segments on the sender's interface. Raises ValueError if there is no capture."""
        if self.segments is None:
            raise ValueError("no segments were recorded on plain loopback; measure in a Lab")
        return self.segments
