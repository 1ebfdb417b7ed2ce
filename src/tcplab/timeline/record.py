"""The record of a conversation of two programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tcplab.programs import Event, SocketOptions, TcpInfo
from tcplab.segments import SegmentArray

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Record(Generic[R]):
    """All that both programs report and log, and that both hosts saw."""

    #: What the programs report; None where there is no report.
    result: R
    #: Calls of the sender's application (see programs.read_log). "write" and "more" (a write with
    #: MSG_MORE) stand at the start of the call; "wrote" (optional, with the bytes that TCP took),
    #: "reply", "read" and "acknowledged" at the end; "cork", "uncork" and "nodelay" at either.
    #: None without a log: then only full segments and retransmissions can be explained.
    log: Sequence[Event] | None = None
    #: Capture on the sender's interface; None where nothing could be recorded (plain loopback).
    segments: SegmentArray | None = None
    #: Calls of the peer's application.
    peer_log: Sequence[Event] | None = None
    #: Capture on the peer's interface, on the same clock: shows the delay of each ACK, and what
    #: waited in the wire.
    peer_segments: SegmentArray | None = None
    #: Packets that the recorders lost; None where nothing was recorded.
    drops: int | None = None
    #: The sender's socket: which connection, TCP_NODELAY, SO_SNDBUF.
    options: SocketOptions | None = None
    #: TCP_INFO of the sender at the end.
    tcp_info: TcpInfo | None = None
    #: TCP_INFO of the sender now and then, each with the key "time_ns" (CLOCK_REALTIME).
    samples: Sequence[Mapping[str, Any]] = ()
    #: Growth of TcpExt counters of the sender's host, such as "TCPAutoCorking".
    counters: Mapping[str, int] | None = None
    #: Rate of the wire in 10^6 bit/s, if it is known.
    rate_mbit: float | None = None
    #: Whether TCP_NODELAY was set at the start, if the options do not say.
    nodelay: bool | None = None

    @property
    def captured(self) -> SegmentArray:
        """The segments on the sender's interface.

        Raises:
            ValueError: nothing was recorded (plain loopback).
        """
        if self.segments is None:
            raise ValueError("no segments were recorded on plain loopback; measure in a Lab")
        return self.segments
