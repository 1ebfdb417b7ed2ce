"""One message in several writes and its reply, sent by each means that TCP offers."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, Variant, computed, derived, experiment, provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play, script_words
from tcplab.experiments.small_writes import PUBLISHED_MS_PER_MESSAGE
from tcplab.lab import Lab
from tcplab.models import message_calls
from tcplab.tables import run_lengths

if TYPE_CHECKING:
    from tcplab.timeline import Timeline

SendMode = Literal[
    "default", "no_delay", "cork", "msg_more", "writev", "cork+no_delay", "forgotten"
]
#: The last takes a fifth of a second per message, and is measured on request.
MODES: Final[tuple[SendMode, ...]] = get_args(SendMode)[:-1]

PUBLISHED_WRITES_BYTES: Final = (2,) * 15


class Message(Variant, heading="sent by"):
    """Messages sent by one means."""

    mode: SendMode  #: how the writes are handed to TCP
    writes_bytes: tuple[int, ...]  #: sizes of the writes of a message
    messages: int  #: number of messages
    played: Played  #: calls and segments
    message_ms: tuple[float, ...]  #: from the first call of each message to its reply

    def message_sizes(self) -> list[tuple[int, ...]]:
        """Payload bytes of the data segments of each message: those whose first byte is of it."""
        found: list[list[int]] = [[] for _ in range(self.messages)]
        sent = 0
        for size in self.played.sizes:
            found[sent // sum(self.writes_bytes)].append(size)
            sent += size
        return [tuple(sizes) for sizes in found]

    def usual_sizes(self) -> tuple[int, ...]:
        """The most frequent of them."""
        return statistics.mode(self.message_sizes())

    def timeline(self) -> Timeline:
        """See :func:`tcplab.timeline.explain`."""
        return self.played.timeline()

    @derived("ms/message", ".3f")
    def ms_per_message(self) -> float:
        """The median, as of the segments."""
        return statistics.median(self.message_ms)

    @derived()
    def published_ms_per_message(self) -> float | None:
        published = self.writes_bytes == PUBLISHED_WRITES_BYTES
        return PUBLISHED_MS_PER_MESSAGE.get(self.mode) if published else None

    @derived("segments/message", "g")
    def data_segments_per_message(self) -> float:
        return statistics.median(len(sizes) for sizes in self.message_sizes())

    sizes = computed(lambda each: run_lengths(each.usual_sizes()), "their sizes (bytes)")

    @derived("calls/message", "d")
    def calls_per_message(self) -> int:
        return self.played.calls // self.messages


class Cork(Result[Message]):
    """One message in several writes, sent by each means."""

    writes_bytes: tuple[int, ...]
    rtt_ms: float


@experiment("cork")
def measure(
    writes_bytes: Annotated[Sequence[int], Between(1, 65_536, "bytes")] = PUBLISHED_WRITES_BYTES,
    messages: Annotated[int, Between(1, 60)] = 20,
    rtt_ms: Annotated[float, Between(0, 500, "ms")] = 0,
    variants: Sequence[SendMode] = MODES,
    network: Lab | None = None,
) -> Cork:
    """One message in several writes: cork, MSG_MORE, writev, TCP_NODELAY and none of them.

    Each message is answered by two bytes when it is complete.

    Args:
        writes_bytes: sizes of the writes of one message, 2 to 64 writes, 65536 bytes in all.
        messages: messages per variant.
        rtt_ms: round-trip time of the wire.
        variants: means of sending to compare, in this order.
        network: a Lab of its own unless given.
    """
    sizes = tuple(writes_bytes)
    if not 2 <= len(sizes) <= 64 or sum(sizes) > 65_536:
        raise ParameterError(f"writes_bytes={sizes} must be 2 to 64 writes, 65536 bytes in all")
    with nullcontext(network) if network else Lab(rtt_ms=rtt_ms) as lab:
        measured = [_send(lab, mode, sizes, messages) for mode in variants]
        cpu = min(os.sched_getaffinity(0))
        details = {"writes_bytes": sizes, "messages": messages, "pinned_to_cpu": cpu}
        return Cork(measured, provenance(lab, **details), sizes, rtt_ms)


def _send(lab: Lab, mode: SendMode, writes_bytes: tuple[int, ...], messages: int) -> Message:
    first = f"{1000 * SETTLE_MS}:nodelay={int('no_delay' in mode)}"
    script = " ".join([first, *[_message_script(mode, writes_bytes)] * messages])
    # Connections of their own take turns: a busy neighbour would be a cause of its own.
    (played,) = play(lab, [script], reply=(sum(writes_bytes), 2))
    times, start_ns = [], None
    for event in played.log:
        if event.name in ("nodelay", "delay"):
            continue
        if event.name == "read" and start_ns is not None:
            times.append((event.time_ns - start_ns) / 1e6)
            start_ns = None
        elif start_ns is None:
            start_ns = event.time_ns
    return Message(mode, writes_bytes, messages, played, tuple(times))


def _message_script(mode: SendMode, writes_bytes: tuple[int, ...]) -> str:
    """One message and the wait for its reply, in the words of writepattern."""
    if mode == "writev":
        body = "0:writev=" + ",".join(map(str, writes_bytes))
    else:
        body = script_words(message_calls(writes_bytes, mode.removesuffix("+no_delay")))
    return f"{body} 0:read=2"
