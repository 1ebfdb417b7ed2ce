"""Define the record of a run of a lesson's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from tcplab.segments import SegmentArray


@dataclass(frozen=True, slots=True)
class Ran:
    """The record of a program's run on two hosts."""

    commands: Sequence[str]  #: the commands as a user would type them on each host
    output: str  #: what the lesson's program printed
    segments: SegmentArray  #: the segments that passed the client's interface
    #: all bytes that the client sent; empty if offload made packets too long to record completely,
    #: or if programs ran together
    stream: bytes
    file: bytes = b""  #: content of the file that the client was given
    calls: int = 0  #: number of the client's reads, writes and similar calls; 0 if not counted
    #: bytes that read() copied into the client if its input is a pipe, otherwise 0; -1 if the
    #: kernel does not count them
    entered_bytes: int = 0
    beside: Ran | None = None  #: the run of the original on a second client at the same time

    @property
    def sizes(self) -> list[int]:
        """Payload sizes of the client's data segments, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    @property
    def bursts(self) -> list[list[int]]:
        """The `sizes` in groups. A new group begins once the server has sent something."""
        sent = self.segments.data("client", retransmissions=False)
        heard = self.segments[self.segments.from_server]["time_ns"]
        rows = zip(heard.searchsorted(sent["time_ns"]).tolist(), self.sizes, strict=True)
        return [[size for _heard, size in group] for _key, group in groupby(rows, itemgetter(0))]

    @property
    def in_flight(self) -> list[int]:
        """Bytes in flight just after each data segment of the client left."""
        rows = self.segments
        mine = rows.from_client & rows.carries_data
        ends = np.where(mine, rows["seq"] + rows["payload_bytes"], 1)
        acks = np.where(rows.from_server, rows["ack"], 1)
        unacknowledged = np.maximum.accumulate(ends) - np.maximum.accumulate(acks)
        return list(unacknowledged[mine].tolist())

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])
