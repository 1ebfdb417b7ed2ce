"""Send one message in several writes, in each way that TCP offers, and await the reply."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Final, Literal, TypeAlias, get_args

from tcplab.errors import ParameterError
from tcplab.experiments import Between, Result, Variant, computed, derived, experiment, provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play, script_words
from tcplab.experiments.exchange import sizes_by_message, times_of_messages_ms
from tcplab.experiments.parameters import RttMs
from tcplab.lab import Lab
from tcplab.models import message_calls
from tcplab.programs import PatternResult
from tcplab.tables import run_lengths
from tcplab.timeline import Exchange

SendMode = Literal[
    "default", "no_delay", "cork", "msg_more", "writev", "cork+no_delay", "forgotten"
]
#: All modes except "forgotten", which takes a fifth of a second per message.
MODES: Final[tuple[SendMode, ...]] = get_args(SendMode)[:-1]

PUBLISHED_WRITES_BYTES: Final = (2,) * 15
#: Calls and events that do not belong to a message. "delay" clears TCP_NODELAY.
_SET_UP: Final = ("nodelay", "delay", "shutdown")


class Message(Played, Variant, heading="method"):
    """Messages that were sent in one mode."""

    mode: SendMode
    writes_bytes: tuple[int, ...]  #: sizes of the writes of each message
    messages: int
    exchange: Exchange[PatternResult]

    @derived("ms/message", ".3f")
    def ms_per_message(self) -> float:
        log = [event for event in self.exchange.log or () if event.name not in _SET_UP]
        return statistics.median(times_of_messages_ms(log, "read"))

    @derived("segments/message", "g")
    def data_segments_per_message(self) -> float:
        return statistics.median(map(len, self.message_sizes()))

    @derived("segment sizes (bytes)", show=run_lengths)
    def usual_sizes(self) -> tuple[int, ...]:
        return statistics.mode(self.message_sizes())

    calls_per_message = computed(
        lambda case: (
            sum(call["call"] not in _SET_UP for call in case.exchange.result.calls) // case.messages
        ),
        "calls/message",
        "d",
    )

    def message_sizes(self) -> list[tuple[int, ...]]:
        """Return the payload sizes of each message's segments."""
        return sizes_by_message(self.sizes, sum(self.writes_bytes), self.messages)


Cork: TypeAlias = Result[Message]


@experiment("cork")
def measure(
    writes_bytes: Annotated[Sequence[int], Between(1, 65_536, "bytes")] = PUBLISHED_WRITES_BYTES,
    messages: Annotated[int, Between(1, 60), "messages per variant"] = 20,
    rtt_ms: Annotated[RttMs, Between(0, 500, "ms")] = 0,
    variants: Annotated[Sequence[SendMode], "ways of sending to compare"] = MODES,
    network: Lab | None = None,
) -> Cork:
    """Send a message in several writes, with TCP_CORK, MSG_MORE, writev, TCP_NODELAY or none.

    A reply of two bytes follows each complete message.

    Args:
        writes_bytes: sizes of the 2 to 64 writes of one message, at most 65536 bytes in all
    """
    sizes = tuple(writes_bytes)
    if not 2 <= len(sizes) <= 64 or sum(sizes) > 65_536:
        raise ParameterError(
            f"writes_bytes={sizes} must be 2 to 64 writes, at most 65536 bytes in all"
        )
    with nullcontext(network) if network else Lab(rtt_ms=rtt_ms) as lab:
        measured = [_send(lab, mode, sizes, messages) for mode in variants]
        cpu = min(os.sched_getaffinity(0))
        details = {"writes_bytes": sizes, "messages": messages, "pinned_to_cpu": cpu}
        return Result(measured, provenance(lab, **details))


def _send(lab: Lab, mode: SendMode, writes_bytes: tuple[int, ...], messages: int) -> Message:
    first = f"{1000 * SETTLE_MS}:nodelay={int('no_delay' in mode)}"
    script = " ".join([first, *[_message_script(mode, writes_bytes)] * messages])
    (exchange,) = play(lab, [script], reply=(sum(writes_bytes), 2))
    return Message(mode, writes_bytes, messages, exchange)


def _message_script(mode: SendMode, writes_bytes: tuple[int, ...]) -> str:
    if mode == "writev":
        body = "0:writev=" + ",".join(map(str, writes_bytes))
    else:
        body = script_words(message_calls(writes_bytes, mode.removesuffix("+no_delay")))
    return f"{body} 0:read=2"
