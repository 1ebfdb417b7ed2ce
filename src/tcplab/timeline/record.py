"""Hold the recording of a conversation between two programs."""

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

    #: The programs' report, or None.
    result: R
    #: Calls of the sender's application (see programs.read_log). "write" and "more" (a write with
    #: MSG_MORE) carry the time at which the call began. "wrote" (optional, with the bytes that TCP
    #: took), "reply", "read" and "acknowledged" carry the time at which it ended, and "cork",
    #: "uncork" and "nodelay" either of the two. None without a log, in which case only full
    #: segments and retransmissions can be explained.
    log: Sequence[Event] | None = None
    #: Capture on the sender's interface, or None if nothing could be recorded (plain loopback).
    segments: SegmentArray | None = None
    #: Calls of the peer's application.
    peer_log: Sequence[Event] | None = None
    #: Capture on the peer's interface, on the same clock. It shows the delay of each ACK and
    #: queueing on the link.
    peer_segments: SegmentArray | None = None
    #: Packets that the recorders dropped, or None if nothing was recorded.
    drops: int | None = None
    #: Options of the sender's socket: its ports, TCP_NODELAY, SO_SNDBUF.
    options: SocketOptions | None = None
    #: TCP_INFO of the sender at the end.
    tcp_info: TcpInfo | None = None
    #: TCP_INFO of the sender over time, each with the key "time_ns" (CLOCK_REALTIME).
    samples: Sequence[Mapping[str, Any]] = ()
    #: Growth of TcpExt counters on the sender's host, such as "TCPAutoCorking".
    counters: Mapping[str, int] | None = None
    #: Rate of the link in 10^6 bit/s, if known.
    rate_mbit: float | None = None
    #: TCP_NODELAY at the start, if the options do not include it.
    nodelay: bool | None = None

    @property
    def captured(self) -> SegmentArray:
        """Return the segments on the sender's interface. Plain loopback has no recording."""
        if self.segments is None:
            raise ValueError("no segments were recorded on plain loopback; measure in a Lab")
        return self.segments
