"""Define the record of a run of a lesson's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcplab.programs.calls import CallLog, SocketCalls
from tcplab.segments import SegmentArray
from tcplab.segments.table import Int64Array


@dataclass(frozen=True, slots=True)
class Ran:
    """The record of a program's run on two hosts."""

    commands: Sequence[str]  #: the commands as a user would type them on each host
    output: str  #: what the lesson's program printed
    segments: SegmentArray  #: the segments that passed the client's interface
    #: all bytes that the client sent; empty if offload made packets too long to record completely,
    #: or if programs ran together
    stream: bytes
    arguments: Sequence[str] = ()  #: the program's arguments after address and port
    ended_ns: int = 0  #: time at which the program had ended, on the clock of the segments
    file: bytes = b""  #: content of the file that the client was given
    log: CallLog | None = None  #: the client's calls, or None if they were not recorded
    #: bytes that read() copied into the client if its input is a pipe, otherwise 0; -1 if the
    #: kernel does not count them
    entered_bytes: int = 0
    datagrams: Sequence[bytes] = ()  #: what the receiver got, if the peer is a UDP socket
    rival: Ran | None = None  #: the run of the original on a second client at the same time
    original: Ran | None = None  #: the run of the original just before, if a check compares

    @property
    def calls(self) -> int:
        """Number of the client's reads, writes and similar calls; 0 if not recorded."""
        return self.log.calls if self.log else 0

    @property
    def sockets(self) -> Sequence[SocketCalls]:
        """The recorded calls of each connection."""
        return self.log.sockets if self.log else ()

    @property
    def sizes(self) -> list[int]:
        """Payload sizes of the client's data segments, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    @property
    def acknowledged(self) -> int:
        """Number of the client's bytes that the server has acknowledged."""
        ends = np.minimum(self._left, self._acked)  # the ACK of a FIN counts one more
        return int(ends.max(axis=1, initial=0).sum())

    @property
    def first_ns(self) -> int:
        """Time of the first data segment of the client, or 0."""
        return int(self.segments.data("client")["time_ns"].min(initial=2**62)) % 2**62

    @property
    def span_ms(self) -> float:
        """Time from the first data segment of the client to the last ACK of new data."""
        acks = self.segments[self.segments.from_server]
        if not len(acks):
            return 0.0
        return (int(acks["time_ns"][int(np.argmax(acks["ack"]))]) - self.first_ns) / 1e6

    @property
    def gaps_ms(self) -> list[float]:
        """Time from each answer of the server to the client's next data."""
        rows = self.segments.data(retransmissions=False)
        mine, times = rows.from_client, rows["time_ns"].astype(np.int64)
        return list((np.diff(times)[mine[1:] & ~mine[:-1]] / 1e6).tolist())

    @property
    def in_flight(self) -> list[int]:
        """Bytes in flight just after each data segment of the client left."""
        mine = self.segments.from_client & self.segments.carries_data
        return list((self._left - self._acked).sum(axis=0)[mine].tolist())

    @property
    def left_at_each_reply(self) -> list[int]:
        """Number of bytes that had left the client when each data segment of the server came."""
        rows = self.segments  # a question that the server sent again is there twice
        replies = rows.from_server & rows.carries_data & ~rows["is_retransmission"]
        return list(self._left.sum(axis=0)[replies].tolist())

    @property
    def _left(self) -> Int64Array:
        """Number of bytes that had left the client at each segment, per connection."""
        mine = self.segments.from_client & self.segments.carries_data
        return self._reached(mine, self.segments["seq"] + self.segments["payload_bytes"])

    @property
    def _acked(self) -> Int64Array:
        return self._reached(self.segments.from_server, self.segments["ack"])

    def _reached(self, counted: Any, ends: Any) -> Int64Array:
        connections = self.segments["connection"]
        own = counted & (connections == np.unique(connections)[:, None])
        return np.maximum.accumulate(np.where(own, ends, 1).astype(np.int64), axis=1) - 1

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])
