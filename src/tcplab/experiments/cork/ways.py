"""One message in pieces and its reply, in each way that TCP offers."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from tcplab.checks import number
from tcplab.experiments import provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play, run_lengths, script_words
from tcplab.experiments.declaration import experiment
from tcplab.lab import Lab
from tcplab.models import message_calls
from tcplab.tables import Column

if TYPE_CHECKING:
    from tcplab.timeline import Timeline

__all__ = ["BOOK_MS_PER_MESSAGE", "BOOK_PIECES", "WAYS", "Cork", "Way", "WayName", "measure"]

WayName = Literal["default", "no_delay", "cork", "msg_more", "writev", "cork+no_delay"]
WAYS: Final[tuple[WayName, ...]] = get_args(WayName)

#: The text's own figures: 10 000 messages of 30 bytes on loopback took 400 129.78, 1 649.77 and
#: 850.80 ms.
BOOK_MS_PER_MESSAGE: Final[Mapping[str, float]] = {
    "default": 40.0129781250,
    "no_delay": 0.1649771240,
    "cork": 0.0850796448,
}
BOOK_PIECES: Final = (2,) * 15


@dataclass(frozen=True, slots=True)
class Way:
    """One way of sending a message, and what was seen of it.

    Attributes:
        name: how the pieces are handed to TCP.
        pieces: bytes of each.
        messages: how many.
        played: calls and segments.
        message_ms: from the first call of each message to its reply.
    """

    name: WayName
    pieces: tuple[int, ...]
    messages: int
    played: Played
    message_ms: tuple[float, ...]

    def message_sizes(self) -> list[tuple[int, ...]]:
        """Payload bytes of the data segments of each message: those whose first byte is of it."""
        found: list[list[int]] = [[] for _ in range(self.messages)]
        sent = 0
        for size in self.played.sizes:
            found[sent // sum(self.pieces)].append(size)
            sent += size
        return [tuple(sizes) for sizes in found]

    def usual_sizes(self) -> tuple[int, ...]:
        """The most frequent of them."""
        return statistics.mode(self.message_sizes())

    def timeline(self) -> Timeline:
        """Why each segment left when it did: see tcplab.timeline."""
        return self.played.timeline()

    def row(self) -> dict[str, Any]:
        """One row of plain data; times and counts are medians over the messages."""
        counts = [len(sizes) for sizes in self.message_sizes()]
        return {
            "variant": self.name,
            "ms_per_message": statistics.median(self.message_ms),
            "book_ms_per_message": BOOK_MS_PER_MESSAGE.get(self.name)
            if self.pieces == BOOK_PIECES
            else None,
            "data_segments_per_message": statistics.median(counts),
            "sizes": run_lengths(self.usual_sizes()),
            "calls_per_message": self.played.calls // self.messages,
            "messages": self.messages,
        }


@dataclass(frozen=True, slots=True)
class Cork:
    """The ways side by side."""

    experiment: ClassVar[str] = "cork"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "way"),
        Column("ms_per_message", "ms/message", ".3f"),
        Column("data_segments_per_message", "segments/message", "g"),
        Column("sizes", "their sizes (bytes)"),
        Column("calls_per_message", "calls/message", "d"),
    )

    pieces: tuple[int, ...]
    rtt_ms: float
    ways: Sequence[Way]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> Way:
        for way in self.ways:
            if way.name == name:
                return way
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """One row a way."""
        return [way.row() for way in self.ways]


@experiment("cork")
def measure(
    pieces: Sequence[int] = BOOK_PIECES,
    messages: int = 20,
    rtt_ms: float = 0,
    ways: Sequence[WayName] = WAYS,
) -> Cork:
    """Sends messages in pieces, each answered by two bytes when it is complete.

    Args:
        pieces: bytes of each piece, 2 to 64 pieces, 65 536 bytes in all.
        messages: how many in each way, 1 to 60.
        rtt_ms: of the wire, 0 to 500.
        ways: which, in this order.

    Raises:
        ValueError: a number is out of range, or no such way.
        LabError: no laboratory can be made here, or a program failed.
    """
    sizes = tuple(pieces)
    if not 2 <= len(sizes) <= 64 or min(sizes) < 1 or sum(sizes) > 65_536:
        raise ValueError(f"pieces={sizes}: give 2 to 64 of 1 byte or more, 65536 bytes in all")
    number("messages", messages, 1, 60)
    number("rtt_ms", rtt_ms, 0, 500, unit=" ms")
    for name in ways:
        if name not in WAYS:
            raise ValueError(f"way {name!r} is not one of {', '.join(WAYS)}")
    if not ways:
        raise ValueError(f"ways is empty; give some of {', '.join(WAYS)}")
    with Lab(rtt_ms=rtt_ms) as lab:
        measured = [_measure_way(lab, name, sizes, messages) for name in ways]
        return Cork(
            sizes,
            rtt_ms,
            [way for way, _drops in measured],
            provenance(
                lab,
                pieces=sizes,
                messages=messages,
                congestion=lab.congestion,
                pinned_to_cpu=min(os.sched_getaffinity(0)),
                capture_drops=sum(drops for _way, drops in measured),
            ),
        )


def _measure_way(
    lab: Lab, name: WayName, pieces: tuple[int, ...], messages: int
) -> tuple[Way, int]:
    script = " ".join([_first_calls(name), *[_message_script(name, pieces)] * messages])
    # Connections of their own take turns: a busy neighbour would be a cause of its own.
    (played,), drops = play(lab, [script], reply=(sum(pieces), 2))
    times, start_ns = [], None
    for event in played.log:
        if event.name in ("nodelay", "delay"):
            continue
        if event.name == "read" and start_ns is not None:
            times.append((event.time_ns - start_ns) / 1e6)
            start_ns = None
        elif start_ns is None:
            start_ns = event.time_ns
    return Way(name, pieces, messages, played, tuple(times)), drops


def _first_calls(name: WayName) -> str:
    return f"{1000 * SETTLE_MS}:nodelay={int('no_delay' in name)}"


def _message_script(name: WayName, pieces: tuple[int, ...]) -> str:
    """One message and the wait for its reply, in the words of writepattern."""
    if name == "writev":
        body = "0:writev=" + ",".join(map(str, pieces))
    else:
        body = script_words(message_calls(pieces, name.removesuffix("+no_delay")))
    return f"{body} 0:read=2"
