"""The record of a run of a lesson's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from tcplab.segments import SegmentArray


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a program on two hosts."""

    commands: Sequence[str]  #: the commands as typed on each host
    output: str  #: output of the lesson's program
    segments: SegmentArray  #: all that the client's interface sent and received
    #: all bytes that the client sent; none if offload hides them or programs ran together
    stream: bytes
    file: bytes = b""  #: content of the file that the client was given
    calls: int = 0  #: reads, writes and the like that the client made, where they were counted
    #: that read() copied into the client, where its input is a pipe; -1: the kernel does not count
    entered_bytes: int = 0
    beside: Ran | None = None  #: the original, which ran on a second client meanwhile

    @property
    def sizes(self) -> list[int]:
        """Bytes of each data segment from the client, in order, without retransmissions."""
        return list(self.segments.data("client", retransmissions=False)["payload_bytes"].tolist())

    @property
    def bursts(self) -> list[list[int]]:
        """The sizes again, in one list until the client hears from the server, and so on."""
        sent = self.segments.data("client", retransmissions=False)
        heard = self.segments[self.segments.from_server]["time_ns"]
        rows = zip(heard.searchsorted(sent["time_ns"]).tolist(), self.sizes, strict=True)
        return [[size for _heard, size in group] for _key, group in groupby(rows, itemgetter(0))]

    @property
    def in_flight(self) -> list[int]:
        """Bytes sent and not acknowledged when each data segment left, itself among them."""
        rows = self.segments
        mine = rows.from_client & rows.carries_data
        ends = np.where(mine, rows["seq"] + rows["payload_bytes"], 1)
        acks = np.where(rows.from_server, rows["ack"], 1)
        unacknowledged = np.maximum.accumulate(ends) - np.maximum.accumulate(acks)
        return list(unacknowledged[mine].tolist())

    def __str__(self) -> str:
        return "\n".join([*self.commands, self.output])
