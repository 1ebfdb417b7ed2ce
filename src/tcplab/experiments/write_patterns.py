"""Write patterns: which segments leave, and when the last byte arrives, for a few writes in a row.

The rule that decides is Nagle's (RFC 896) with Minshall's change, as in tcp_output.c of Linux: a
segment smaller than the MSS is held while an earlier *small* segment is not yet acknowledged. The
sockets are Python's, opened on the laboratory's hosts, so that a lesson can show every call.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.lab import Lab
from tcplab.tables import Column

__all__ = [
    "Cell",
    "Option",
    "Pattern",
    "Receiver",
    "WriteMatrix",
    "WritePatterns",
    "measure",
    "measure_matrix",
    "send_writes",
]

MSS_BYTES: Final = 1448  # MTU 1500, less 20 (IP), 20 (TCP) and 12 (time stamps option)
DEFAULT_PATTERNS: Final = (
    (100,),
    (4, 100),
    (MSS_BYTES, 100),
    (2 * MSS_BYTES, 100),
    (MSS_BYTES + 1, 100),
)
Option = Literal["default", "no_delay", "cork", "msg_more", "writev"]
Receiver = Literal["linux", "late", "at once"]

#: Shorter than any timer of a delayed ACK (40 ms), longer than an exchange on a busy machine.
STALL_MS: Final = 25.0

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


@dataclass(frozen=True, slots=True)
class Cell:
    """One pattern of writes with one option of the sender, before one receiver.

    Attributes:
        writes: bytes of each write, in order.
        option: how the sender hands them to TCP.
        receiver: when the other end acknowledges: as Linux does, as late as it may, at once.
        segments: payload bytes of the segments of the last exchange, as captured at the sender.
        arrivals_ms: from the first write to the arrival of the last byte, one value an exchange.
    """

    writes: tuple[int, ...]
    option: Option
    receiver: Receiver
    segments: tuple[int, ...]
    arrivals_ms: tuple[float, ...]

    @property
    def name(self) -> str:
        """The writes in a few characters: "4 + 100", "15 × 2"."""
        first = self.writes[0]
        if len(self.writes) > 2 and set(self.writes) == {first}:
            return f"{len(self.writes)} × {first}"
        return " + ".join(map(str, self.writes))

    @property
    def arrival_ms(self) -> float:
        """The median of the exchanges."""
        return statistics.median(self.arrivals_ms)

    @property
    def stalled(self) -> bool:
        """Whether the median exchange waited for a timer."""
        return self.arrival_ms > STALL_MS


@dataclass(frozen=True, slots=True)
class WriteMatrix:
    """Patterns by options by receivers, a connection each."""

    experiment: ClassVar[str] = "write-matrix"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "writes (bytes)"),
        Column("receiver", "receiver's ACKs"),
        Column("option", "sender"),
        Column("segments", "segments (bytes)"),
        Column("arrival_ms", "last byte after (ms)", ".2f"),
        Column("stalled", "waits for a timer"),
    )

    cells: Sequence[Cell]
    provenance: Mapping[str, Any]

    def get(self, writes: Sequence[int], option: Option, receiver: Receiver = "linux") -> Cell:
        """One cell.

        Raises:
            KeyError: it was not measured.
        """
        for cell in self.cells:
            if (cell.writes, cell.option, cell.receiver) == (tuple(writes), option, receiver):
                return cell
        raise KeyError((tuple(writes), option, receiver))

    def rows(self) -> list[dict[str, Any]]:
        """One row a cell."""
        return [
            {
                "variant": each.name,
                "option": each.option,
                "receiver": each.receiver,
                "segments": " + ".join(map(str, each.segments)),
                "arrival_ms": each.arrival_ms,
                "exchanges": len(each.arrivals_ms),
                "stalled": "yes" if each.stalled else "no",
            }
            for each in self.cells
        ]


@experiment("write-patterns")
def measure(
    patterns: Sequence[Sequence[int]] = DEFAULT_PATTERNS,
    exchanges: int = 5,
    nodelay: bool = False,
    network: Lab | None = None,
) -> WritePatterns:
    """Sends each pattern several times, a small reply after each, and records the segments.

    Args:
        patterns: bytes of the writes, each 1 to 65 536, at most 65 536 in all.
        exchanges: how many to measure, after WARM_UP that are not.
        nodelay: TCP_NODELAY on the sender.
        network: a laboratory of its own unless given.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    _check(patterns, exchanges)
    option: Option = "no_delay" if nodelay else "default"
    with ExitStack() as stack:
        lab = network or stack.enter_context(Lab())
        measured = [_measure_one(lab, tuple(each), exchanges, option) for each in patterns]
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


@experiment("write-matrix")
def measure_matrix(
    patterns: Sequence[Sequence[int]] = ((100,), (4, 100), (2,) * 15, (MSS_BYTES, 100)),
    options: Sequence[Option] = get_args(Option),
    receivers: Sequence[Receiver] = ("linux", "at once"),
    exchanges: int = 3,
    network: Lab | None = None,
) -> WriteMatrix:
    """Every pattern with every option before every receiver: which of them wait for a timer?

    Args:
        patterns: bytes of the writes, each 1 to 65 536, at most 65 536 in all.
        options: how the sender hands the writes to TCP.
        receivers: when the other end acknowledges. "late" and "at once" set TCP_QUICKACK anew
            after every read, since it does not last (tcp(7)).
        exchanges: how many to measure in each cell, after WARM_UP that are not.
        network: a laboratory of its own unless given.

    Raises:
        ValueError: a number is out of range, or no such option or receiver.
        LabError: no laboratory can be made here.
    """
    _check(patterns, exchanges)
    for name, chosen, known in (
        ("options", options, get_args(Option)),
        ("receivers", receivers, get_args(Receiver)),
    ):
        if wrong := [each for each in chosen if each not in known]:
            raise ValueError(f"{name}: {wrong[0]!r} is not one of {', '.join(known)}")
    with ExitStack() as stack:
        lab = network or stack.enter_context(Lab())
        cells: list[Cell] = []
        lost = 0
        for writes in patterns:
            for receiver in receivers:
                for option in options:
                    pattern, drops = _measure_one(lab, tuple(writes), exchanges, option, receiver)
                    found = pattern.segments, pattern.arrival_ms
                    cells.append(Cell(pattern.writes, option, receiver, *found))
                    lost += drops
        origin = provenance(lab, exchanges=exchanges, congestion="cubic", capture_drops=lost)
        return WriteMatrix(cells, origin)


def _check(patterns: Sequence[Sequence[int]], exchanges: int) -> None:
    for pattern in patterns:
        if not pattern or min(pattern) < 1 or sum(pattern) > 65_536:
            raise ValueError(f"pattern {tuple(pattern)}: writes of 1 byte or more, 65536 in all")
    if not 1 <= exchanges <= 1000:
        raise ValueError(f"exchanges={exchanges} must be from 1 to 1000")


def _measure_one(
    lab: Lab,
    writes: tuple[int, ...],
    exchanges: int,
    option: Option,
    receiver: Receiver = "linux",
) -> tuple[Pattern, int]:
    nodelay = option == "no_delay"
    with lab.client.capture() as capture, _connection(lab, nodelay) as (client, server):
        times = [
            _exchange(client, server, writes, option, receiver) for _ in range(WARM_UP + exchanges)
        ]
    with capture:
        rows, drops = capture.segments, capture.drops or 0
    sizes = rows.data("client")["payload_bytes"]
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


def _exchange(
    client: socket.socket,
    server: socket.socket,
    writes: Sequence[int],
    option: Option,
    receiver: Receiver,
) -> float:
    """The writes, the wait for the last byte, a reply of two bytes; ms until the last byte."""
    start = time.perf_counter()
    send_writes(client, writes, option)
    missing = sum(writes)
    while missing:
        missing -= len(server.recv(65_536))
        if receiver != "linux":  # what was set does not last
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, receiver == "at once")
    arrival_ms = (time.perf_counter() - start) * 1e3
    server.sendall(b"ok")
    client.recv(2)
    return arrival_ms


def send_writes(client: socket.socket, writes: Sequence[int], option: Option) -> None:
    """One message in pieces, in one of the five ways (TCP_NODELAY is an option of the socket)."""
    pieces = [bytes(size) for size in writes]
    if option == "writev":
        rest = sum(writes) - client.sendmsg(pieces)
        client.sendall(bytes(rest))
        return
    if option == "cork":
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, True)
    for i, piece in enumerate(pieces):
        more = option == "msg_more" and i < len(pieces) - 1
        client.sendall(piece, socket.MSG_MORE if more else 0)
    if option == "cork":
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, False)


def _last_exchange(sizes: list[int], total: int) -> tuple[int, ...]:
    """The segments at the end that together carry one pattern."""
    last: list[int] = []
    while sizes and sum(last) < total:
        last.insert(0, sizes.pop())
    return tuple(last)
