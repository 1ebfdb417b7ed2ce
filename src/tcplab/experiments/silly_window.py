"""Measure the windows that a receiver offers when it reads one byte at a time.

RFC 9293 (section 3.8.6.2.2) forbids silly windows. A receiver whose buffer was full must not offer
room until it can offer a full segment or half of the buffer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Annotated

from tcplab.experiments import Between, Result, Variant, column, experiment, provenance
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.sockets import connection, sending
from tcplab.lab import Lab
from tcplab.segments import SegmentArray


class Reader(Variant, label="{0.read_bytes} bytes"):
    """A transfer to a program that starts to read when its buffer is full."""

    read_bytes: int = column("bytes per read", ",d", is_setting=True)
    reads: int = column("reads", ",d")
    openings: int = column("window openings", "d")
    #: smallest window that was offered directly after a window of zero
    smallest_window_bytes: int = column("smallest window offered (bytes)", ",d")
    segments: int = column("segments", "d")
    smallest_segment_bytes: int = column("smallest segment except the last (bytes)", ",d")


@experiment("silly-window")
def measure(
    reads_bytes: Annotated[
        Sequence[int], Between(1, 65_536, "bytes"), "sizes of the receiver's reads"
    ] = (1, 65_536),
    data_bytes: Annotated[
        int, Between(20_000, 1_000_000, "bytes"), "data of each transfer"
    ] = 60_000,
    rcvbuf_bytes: Annotated[
        int, Between(4096, 65_536, "bytes"), "SO_RCVBUF of the receiver"
    ] = 8192,
) -> Result[Reader]:
    """Empty a full receive buffer with small or large reads, and record the windows offered."""
    with Lab() as lab:
        variants, done = one_by_one(
            "silly-window",
            reads_bytes,
            lambda read_bytes: _read(lab, read_bytes, data_bytes, rcvbuf_bytes),
        )
        return Result(variants, provenance(lab, data_bytes=data_bytes, **done))


def _read(lab: Lab, read_bytes: int, data_bytes: int, rcvbuf_bytes: int) -> Reader:
    reads, left = 0, data_bytes
    with (
        lab.client.capture() as recorded,
        connection(lab, before=rcvbuf_bytes) as (sender, receiver),
        sending(sender, data_bytes, end=False),
    ):
        _wait_until_full(receiver)
        while left:
            left -= len(receiver.recv(min(read_bytes, left)))
            reads += 1
    windows = _openings(recorded.segments)
    sizes = recorded.segments.data("client", retransmissions=False)["payload_bytes"]
    return Reader(read_bytes, reads, len(windows), min(windows), len(sizes), int(sizes[:-1].min()))


def _wait_until_full(receiver: socket.socket) -> None:
    waiting = -1
    while waiting != (waiting := len(receiver.recv(1 << 20, socket.MSG_PEEK))):
        time.sleep(0.1)


def _openings(segments: SegmentArray) -> list[int]:
    acks = segments.acks("server")
    windows = acks["window"].astype(int) << acks["window_shift"].astype(int)
    after_zero = (windows[:-1] == 0) & (windows[1:] > 0)
    return [int(window) for window in windows[1:][after_zero]]
