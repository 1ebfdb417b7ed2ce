"""Make a few writes in a row, and see which segments leave and when the last byte arrives.

Nagle's rule (RFC 896), with Minshall's change as in Linux's tcp_output.c, decides which segments
wait. A segment smaller than the MSS is held while an earlier small segment is unacknowledged.
"""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, Spelled, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.quantities import Variant, column, computed, plus, yes_no
from tcplab.experiments.sockets import MSS_BYTES, connection
from tcplab.lab import Lab
from tcplab.tables import Column

DEFAULT_PATTERNS: Final = (
    (100,),
    (4, 100),
    (MSS_BYTES, 100),
    (2 * MSS_BYTES, 100),
    (MSS_BYTES + 1, 100),
)
Option = Literal["default", "no_delay", "cork", "msg_more", "writev"]
Receiver = Literal["linux", "late", "at once"]

#: Longer than a message takes on a busy machine, and shorter than a delayed-ACK timer (40 ms).
_STALL_MS: Final = 25.0

#: Number of messages after which a Linux receiver has left quick-ACK mode and delays its ACKs.
_WARM_UP: Final = 3


class Pattern(Variant, heading="writes (bytes)"):
    """A pattern of writes that is repeated over one connection."""

    writes: tuple[int, ...]
    segments: tuple[int, ...] = column("segments (bytes)", show=plus)  #: sizes in the last message
    #: time from the first write to the arrival of the last byte, for each message
    arrivals_ms: tuple[float, ...]

    @property
    def label(self) -> str:
        first = self.writes[0]
        if len(self.writes) > 2 and set(self.writes) == {first}:
            return f"{len(self.writes)} × {first}"
        return plus(self.writes)

    arrival_ms = computed(
        lambda case: statistics.median(case.arrivals_ms), "last byte arrives after (ms)", ".2f"
    )
    messages = computed(lambda case: len(case.arrivals_ms))


class Cell(Pattern, key=("writes", "option", "receiver")):
    """A pattern of writes with one option of the sender and one kind of receiver."""

    columns = (
        Column("variant", "writes (bytes)"),
        Column("receiver", "receiver's ACKs"),
        Column("option", "sender's option"),
        Column("segments", "segments (bytes)"),
        Column("arrival_ms", "last byte arrives after (ms)", ".2f"),
        Column("stalled", "waits for a timer"),
    )

    option: Option
    receiver: Receiver  #: when it sends ACKs: as Linux decides, late, or at once

    stalled = computed(lambda cell: cell.arrival_ms > _STALL_MS, show=yes_no)


WriteMatrix: TypeAlias = Result[Cell]


def _parse_pattern(word: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(\+\d+)*", word):
        raise ParameterError(f"pattern {word!r}: give bytes joined by +, such as 4+100")
    return tuple(map(int, word.split("+")))


Patterns: TypeAlias = Annotated[
    Sequence[Annotated[Sequence[int], Spelled(_parse_pattern, "4+100")]],
    "sizes of the writes of a message, joined by +, 65536 bytes in all",
]


@experiment("write-patterns")
def measure(
    patterns: Patterns = DEFAULT_PATTERNS,
    messages: Annotated[int, Between(1, 1000), "messages per pattern, after three others"] = 5,
    nodelay: Annotated[bool, "set TCP_NODELAY on the sender"] = False,
) -> Result[Pattern]:
    """Make a few writes in a row, and show which segments leave and when the last byte arrives.

    A reply of two bytes follows each message.
    """
    _check(patterns)
    option: Option = "no_delay" if nodelay else "default"
    with Lab() as lab:
        measured = [_measure_one(lab, tuple(writes), messages, option) for writes in patterns]
        return Result(measured, provenance(lab, messages=messages, nodelay=nodelay))


@experiment("write-matrix")
def measure_matrix(
    patterns: Patterns = ((100,), (4, 100), (2,) * 15, (MSS_BYTES, 100)),
    options: Annotated[Sequence[Option], "how the sender sends the writes"] = get_args(Option),
    receivers: Sequence[Receiver] = ("linux", "at once"),
    messages: Annotated[int, Between(1, 1000), "messages per case, after three others"] = 3,
) -> WriteMatrix:
    """Make each pattern of writes with each option and receiver; show which ones wait for a timer.

    Args:
        receivers: when the other end acknowledges. "late" and "at once" set TCP_QUICKACK again
            after every read, because it is not permanent (tcp(7))
    """
    _check(patterns)
    cases = [
        (tuple(writes), receiver, option)
        for writes in patterns
        for receiver in receivers
        for option in options
    ]
    with Lab() as lab:
        cells: list[Cell] = []
        for writes, receiver, option in cases:
            pattern = _measure_one(lab, writes, messages, option, receiver)
            cells.append(Cell(writes, pattern.segments, pattern.arrivals_ms, option, receiver))
        return Result(cells, provenance(lab, messages=messages))


def _check(patterns: Sequence[Sequence[int]]) -> None:
    for pattern in patterns:
        if not pattern or min(pattern) < 1 or sum(pattern) > 65_536:
            raise ParameterError(
                f"pattern {tuple(pattern)} must be writes of at least 1 byte each and at"
                " most 65536 bytes in all"
            )


def _measure_one(
    lab: Lab, writes: tuple[int, ...], messages: int, option: Option, receiver: Receiver = "linux"
) -> Pattern:
    with lab.client.capture() as capture, connection(lab) as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, option == "no_delay")
        times = [
            _send_message(client, server, writes, option, receiver)
            for _ in range(_WARM_UP + messages)
        ]
    sizes = segments_of(capture).data("client")["payload_bytes"]
    segments = _last_message(sizes.tolist(), sum(writes))
    return Pattern(writes, segments, tuple(times[_WARM_UP:]))


def _send_message(
    client: socket.socket,
    server: socket.socket,
    writes: Sequence[int],
    option: Option,
    receiver: Receiver,
) -> float:
    """Send a message, and await a reply of two bytes; return the ms until the last byte arrived."""
    start = time.perf_counter()
    send_writes(client, writes, option)
    missing = sum(writes)
    while missing:
        missing -= len(server.recv(65_536))
        if receiver != "linux":  # the option is not permanent
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, receiver == "at once")
    arrival_ms = (time.perf_counter() - start) * 1e3
    server.sendall(b"ok")
    client.recv(2)
    return arrival_ms


def send_writes(client: socket.socket, writes: Sequence[int], option: Option) -> None:
    """Send one message in several writes. TCP_NODELAY, if chosen, is already set on the socket."""
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


def _last_message(sizes: list[int], total: int) -> tuple[int, ...]:
    """Return the last segments that together carry one message of `total` bytes."""
    last: list[int] = []
    while sizes and sum(last) < total:
        last.insert(0, sizes.pop())
    return tuple(last)
