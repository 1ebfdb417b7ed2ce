"""Write patterns: which segments leave, and when the last byte arrives, for a few writes in a row.

The rule that decides is Nagle's (RFC 896) with Minshall's change, as in tcp_output.c of Linux: a
segment smaller than the MSS is held while an earlier *small* segment is not yet acknowledged. The
sockets are Python's, opened on the laboratory's hosts, so that a lesson can show every call.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tcplab.experiments import provenance
from tcplab.lab import Lab
from tcplab.tables import Column

__all__ = ["Pattern", "WritePatterns", "measure"]

SUMMARY = "a few writes in a row: which segments leave, and when the last byte arrives"

MSS_BYTES: Final = 1448  # MTU 1500, less 20 (IP), 20 (TCP) and 12 (time stamps option)
DEFAULT_PATTERNS: Final = (
    (100,),
    (4, 100),
    (MSS_BYTES, 100),
    (2 * MSS_BYTES, 100),
    (MSS_BYTES + 1, 100),
)
# Before the receiver delays its ACKs it must have seen an exchange or two (quickack mode).
WARM_UP: Final = 3


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one pattern of writes did.

    Attributes:
        writes: bytes of each write, in order.
        segments: payload bytes of the segments of the last exchange, as captured at the sender.
        arrival_ms: from the first write to the arrival of the last byte, one value an exchange.
    """

    writes: tuple[int, ...]
    segments: tuple[int, ...]
    arrival_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WritePatterns:
    """All patterns, measured over one connection each."""

    experiment: ClassVar[str] = "write-patterns"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "writes (bytes)"),
        Column("segments", "segments (bytes)"),
        Column("arrival_ms", "last byte after (ms)", ".2f"),
    )

    patterns: Sequence[Pattern]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a pattern; the arrival is the median of its exchanges."""
        return [
            {
                "variant": " + ".join(map(str, each.writes)),
                "segments": " + ".join(map(str, each.segments)),
                "arrival_ms": statistics.median(each.arrival_ms),
                "exchanges": len(each.arrival_ms),
            }
            for each in self.patterns
        ]


def measure(
    patterns: Sequence[Sequence[int]] = DEFAULT_PATTERNS,
    exchanges: int = 5,
    nodelay: bool = False,
    place: Lab | None = None,
) -> WritePatterns:
    """Sends each pattern several times, a small reply after each, and records the segments.

    Args:
        patterns: bytes of the writes, each 1 to 65 536, at most 65 536 in all.
        exchanges: how many to measure, after WARM_UP that are not.
        nodelay: TCP_NODELAY on the sender.
        place: a laboratory of its own unless given.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    for pattern in patterns:
        if not pattern or min(pattern) < 1 or sum(pattern) > 65_536:
            raise ValueError(f"pattern {tuple(pattern)}: writes of 1 byte or more, 65536 in all")
    if not 1 <= exchanges <= 1000:
        raise ValueError(f"exchanges={exchanges} must be from 1 to 1000")
    with ExitStack() as stack:
        lab = place or stack.enter_context(Lab())
        measured = [_measure_one(lab, tuple(each), exchanges, nodelay) for each in patterns]
        return WritePatterns(
            [pattern for pattern, _drops in measured],
            provenance(
                lab,
                exchanges=exchanges,
                nodelay=nodelay,
                congestion="cubic",
                capture_drops=sum(drops for _pattern, drops in measured),
            ),
        )


def _measure_one(
    lab: Lab, writes: tuple[int, ...], exchanges: int, nodelay: bool
) -> tuple[Pattern, int]:
    with lab.client.capture() as capture, _connection(lab, nodelay) as (client, server):
        times = [_exchange(client, server, writes) for _ in range(WARM_UP + exchanges)]
    with capture:
        rows, drops = capture.segments, capture.drops or 0
    sizes = rows["payload_bytes"][(rows["direction"] == 0) & (rows["payload_bytes"] > 0)]
    segments = _last_exchange(sizes.tolist(), sum(writes))
    return Pattern(writes, segments, tuple(times[WARM_UP:])), drops


def _connection(lab: Lab, nodelay: bool) -> _Pair:
    listener = lab.server.socket()
    with listener:
        _pin_congestion(listener)
        listener.bind((lab.server.address, 0))
        listener.listen(1)
        client = lab.client.socket()
        _pin_congestion(client)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
        client.connect(listener.getsockname())
        server, _address = listener.accept()
    return _Pair(client, server)


def _pin_congestion(end: socket.socket) -> None:
    end.settimeout(30)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")


class _Pair(tuple[socket.socket, socket.socket]):
    """Both ends of a connection, closed together."""

    __slots__ = ()

    def __new__(cls, client: socket.socket, server: socket.socket) -> _Pair:
        return super().__new__(cls, (client, server))

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for end in self:
            end.close()


def _exchange(client: socket.socket, server: socket.socket, writes: Sequence[int]) -> float:
    """The writes, the wait for the last byte, a reply of two bytes; ms until the last byte."""
    start = time.perf_counter()
    for size in writes:
        client.sendall(bytes(size))
    missing = sum(writes)
    while missing:
        missing -= len(server.recv(65_536))
    arrival_ms = (time.perf_counter() - start) * 1e3
    server.sendall(b"ok")
    client.recv(2)
    return arrival_ms


def _last_exchange(sizes: list[int], total: int) -> tuple[int, ...]:
    """The segments at the end that together carry one pattern."""
    last: list[int] = []
    while sizes and sum(last) < total:
        last.insert(0, sizes.pop())
    return tuple(last)


# ---- the command line ----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab run write-patterns`."""
    parser.add_argument(
        "patterns", nargs="*", help="bytes of the writes, such as 4+100 (default: five patterns)"
    )
    parser.add_argument("--exchanges", type=int, default=5, help="to measure (default 5)")
    parser.add_argument("--nodelay", action="store_true", help="TCP_NODELAY on the sender")


def from_arguments(arguments: argparse.Namespace) -> WritePatterns:
    """`measure` with the options of the command line."""
    patterns = [_parse(text) for text in arguments.patterns] or DEFAULT_PATTERNS
    return measure(patterns, arguments.exchanges, arguments.nodelay)


def _parse(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split("+"))
    except ValueError:
        raise ValueError(f"pattern '{text}': give bytes joined by +, such as 4+100") from None
