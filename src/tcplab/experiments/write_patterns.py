"""Write patterns: the segments that leave, and the arrival of the last byte, for a few writes.

The rule that decides is Nagle's (RFC 896) with Minshall's change, as in tcp_output.c of Linux: a
segment smaller than the MSS is held while an earlier *small* segment is not yet acknowledged. The
sockets are Python's, opened on the laboratory's hosts, so that a lesson can show every call.
"""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Final, Literal, TypeAlias, get_args

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, Spelled, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.quantities import Variant, column, computed, derived, plus, yes_no
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

#: Shorter than any timer of a delayed ACK (40 ms), longer than a message on a busy machine.
STALL_MS: Final = 25.0

# A receiver delays its ACKs only after a message or two (quickack mode).
WARM_UP: Final = 3


class Pattern(Variant, heading="writes (bytes)"):
    """A pattern of writes, repeated over one connection."""

    writes: tuple[int, ...]  #: bytes of each write, in order
    #: payload bytes of the segments of the last message, as captured at the sender
    segments: tuple[int, ...] = column("segments (bytes)", show=plus)
    #: from the first write to the arrival of the last byte, one value per message
    arrivals_ms: tuple[float, ...]

    @property
    def label(self) -> str:
        """The writes in a few characters: "4 + 100", "15 × 2"."""
        first = self.writes[0]
        if len(self.writes) > 2 and set(self.writes) == {first}:
            return f"{len(self.writes)} × {first}"
        return plus(self.writes)

    @derived("last byte after (ms)", ".2f")
    def arrival_ms(self) -> float:
        """The median of the messages."""
        return statistics.median(self.arrivals_ms)

    messages = computed(lambda each: len(each.arrivals_ms))


WritePatterns: TypeAlias = Result[Pattern]


class Cell(Pattern, key=("writes", "option", "receiver")):
    """A pattern of writes with one option of the sender and one receiver."""

    columns = (
        Column("variant", "writes (bytes)"),
        Column("receiver", "receiver's ACKs"),
        Column("option", "sender"),
        Column("segments", "segments (bytes)"),
        Column("arrival_ms", "last byte after (ms)", ".2f"),
        Column("stalled", "waits for a timer"),
    )

    option: Option  #: how the sender hands the writes to TCP
    #: when the other end acknowledges: as Linux does, as late as it may, at once
    receiver: Receiver

    @derived(show=yes_no)
    def stalled(self) -> bool:
        """Whether the median message waited for a timer."""
        return self.arrival_ms > STALL_MS


WriteMatrix: TypeAlias = Result[Cell]


def _parse_pattern(word: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(\+\d+)*", word):
        raise ParameterError(f"pattern {word!r}: give bytes joined by +, such as 4+100")
    return tuple(map(int, word.split("+")))


Patterns: TypeAlias = Sequence[Annotated[Sequence[int], Spelled(_parse_pattern, "4+100")]]
Messages: TypeAlias = Annotated[int, Between(1, 1000)]


@experiment("write-patterns")
def measure(
    patterns: Patterns = DEFAULT_PATTERNS,
    messages: Messages = 5,
    nodelay: bool = False,
    network: Lab | None = None,
) -> WritePatterns:
    """A few writes in a row: the segments that leave, and the arrival of the last byte.

    A reply of two bytes follows each message.

    Args:
        patterns: sizes of the writes of a message, joined by +: 1 to 65536 bytes in all.
        messages: messages per pattern, after three that do not count.
        nodelay: set TCP_NODELAY on the sender.
        network: a laboratory of its own unless given.
    """
    _check(patterns)
    option: Option = "no_delay" if nodelay else "default"
    with nullcontext(network) if network else Lab() as lab:
        measured = [_measure_one(lab, tuple(each), messages, option) for each in patterns]
        return WritePatterns(measured, provenance(lab, messages=messages, nodelay=nodelay))


@experiment("write-matrix")
def measure_matrix(
    patterns: Patterns = ((100,), (4, 100), (2,) * 15, (MSS_BYTES, 100)),
    options: Sequence[Option] = get_args(Option),
    receivers: Sequence[Receiver] = ("linux", "at once"),
    messages: Messages = 3,
    network: Lab | None = None,
) -> WriteMatrix:
    """Every pattern of writes with every option and every receiver: which of them wait for a timer.

    Args:
        patterns: sizes of the writes of a message, joined by +: 1 to 65536 bytes in all.
        options: how the sender hands the writes to TCP.
        receivers: when the other end acknowledges. "late" and "at once" set TCP_QUICKACK anew
            after every read, since it does not last (tcp(7)).
        messages: messages per variant, after three that do not count.
        network: a laboratory of its own unless given.
    """
    _check(patterns)
    cases = [(tuple(each), to, by) for each in patterns for to in receivers for by in options]
    with nullcontext(network) if network else Lab() as lab:
        cells: list[Cell] = []
        for writes, receiver, option in cases:
            found = _measure_one(lab, writes, messages, option, receiver)
            cells.append(Cell(writes, found.segments, found.arrivals_ms, option, receiver))
        return WriteMatrix(cells, provenance(lab, messages=messages))


def _check(patterns: Sequence[Sequence[int]]) -> None:
    for pattern in patterns:
        if not pattern or min(pattern) < 1 or sum(pattern) > 65_536:
            raise ParameterError(
                f"pattern {tuple(pattern)} must be writes of 1 byte or more, 65536 bytes in all"
            )


def _measure_one(
    lab: Lab, writes: tuple[int, ...], messages: int, option: Option, receiver: Receiver = "linux"
) -> Pattern:
    with lab.client.capture() as capture, connection(lab) as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, option == "no_delay")
        times = [
            _send_message(client, server, writes, option, receiver)
            for _ in range(WARM_UP + messages)
        ]
    sizes = segments_of(capture).data("client")["payload_bytes"]
    segments = _last_message(sizes.tolist(), sum(writes))
    return Pattern(writes, segments, tuple(times[WARM_UP:]))


def _send_message(
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
    """Sends one message in several writes (TCP_NODELAY is an option of the socket)."""
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
    """The segments at the end that together carry one pattern."""
    last: list[int] = []
    while sizes and sum(last) < total:
        last.insert(0, sizes.pop())
    return tuple(last)
