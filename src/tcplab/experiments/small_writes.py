"""Small writes: what it costs to send one message in pieces, by how the pieces are handed to TCP.

The experiment of "TCP_NODELAY and TCP_CORK" in Red Hat Enterprise Linux for Real Time: 15 writes of
2 bytes, then a wait for a reply of 2 bytes. Nagle's algorithm (RFC 896) sends the first piece and
holds the rest until it is acknowledged; the receiver delays that ACK (RFC 1122, 4.2.3.2), since its
application has nothing to answer yet. Each waits for the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from tcplab.experiments import Between, Result, computed, derived, experiment, provenance
from tcplab.experiments.exchange import (
    ExchangeVariant,
    OwnRtt,
    exchange_network,
    exchange_on_loopback,
    record_exchange,
)
from tcplab.lab import Network
from tcplab.programs import QuickAck, SmallWritesMode, SmallWritesResult
from tcplab.programs import small_writes as run_program

VARIANTS: Final[tuple[SmallWritesMode, ...]] = ("default", "no_delay", "cork", "writev")

#: Red Hat's figures: 10 000 messages of 30 bytes on loopback took 400 129.78, 1 649.77 and
#: 850.80 ms.
PUBLISHED_MS_PER_MESSAGE: Final[Mapping[str, float]] = {
    "default": 40.0129781250,
    "no_delay": 0.1649771240,
    "cork": 0.0850796448,
}
#: Its settings, without delay on the wire.
PUBLISHED_CASE: Final[Mapping[str, Any]] = {"writes": 15, "write_bytes": 2, "quickack": "on"}


class SmallWritesVariant(ExchangeVariant[SmallWritesResult], key="mode", heading="variant"):
    """One mode of handing the writes to TCP, and its recorded exchange."""

    mode: SmallWritesMode

    @derived("ms/message", ".3f")
    def ms_per_message(self) -> float:
        """Median time of a message with its reply: one that was disturbed does not move it."""
        return self.result.message_us.median / 1e3

    mean_ms_per_message = computed(lambda each: each.result.ms_per_message, "mean", ".3f")

    @derived("Red Hat's mean", ".3f")
    def published_ms_per_message(self) -> float | None:
        return PUBLISHED_MS_PER_MESSAGE.get(self.mode)

    bytes_per_ms = computed(lambda each: each.result.bytes_per_ms, "bytes/ms", ".2f")

    @derived("segments/message", "g")
    def data_segments_per_message(self) -> float | None:
        """The median: a connection's first messages are special. They are acknowledged at once,
        and no more may leave than the initial congestion window allows.
        """
        counts = self.segments_per_message()
        return statistics.median(counts) if counts else None

    @derived("of the first", "g")
    def data_segments_first_message(self) -> int | None:
        counts = self.segments_per_message()
        return counts[0] if counts else None

    @derived("calls/message", "g")
    def system_calls_per_message(self) -> float:
        return self.result.system_calls / self.result.messages

    p99_us = computed(lambda each: each.result.message_us.p99)

    @property
    def data_segment_sizes(self) -> list[int] | None:
        """Payload bytes of each data segment from client to server, in order; None if unseen.

        What was sent again is counted by `retransmissions` and not here.
        """
        if self.exchange.segments is None:
            return None
        sent = self.exchange.segments.data("client", retransmissions=False)
        sizes: list[int] = sent["payload_bytes"].tolist()
        return sizes

    @derived()
    def retransmissions(self) -> int | None:
        """Data segments that the client sent again; None if unseen."""
        if self.exchange.segments is None:
            return None
        return int(self.exchange.segments.data("client")["is_retransmission"].sum())

    def segments_per_message(self) -> list[int] | None:
        """Data segments of each message in order: those whose first byte is of it."""
        sizes = self.data_segment_sizes
        if sizes is None:
            return None
        counts = [0] * self.result.messages
        message_bytes = self.result.bytes // self.result.messages
        sent_bytes = 0
        for size in sizes:
            counts[sent_bytes // message_bytes] += 1
            sent_bytes += size
        return counts

    def message_ms(self) -> list[float]:
        """Time of each message in order, from its first write to its reply, in ms."""
        times: list[float] = []
        start_ns: int | None = None
        for event in self.exchange.log or ():
            if event.name == "reply" and start_ns is not None:
                times.append((event.time_ns - start_ns) / 1e6)
                start_ns = None
            elif start_ns is None:
                start_ns = event.time_ns
        return times


class SmallWrites(Result[SmallWritesVariant]):
    """The variants, measured in one laboratory, one after the other."""

    def rows(self) -> list[dict[str, Any]]:
        """See Result.rows; the published means stand only beside the case that they are of."""
        rows = super().rows()
        link = (self.provenance.get("link") or {}).get("client->server", {})
        case = {name: self.provenance.get(name, value) for name, value in PUBLISHED_CASE.items()}
        if case != PUBLISHED_CASE or link.get("delay_ms"):
            for row in rows:
                row["published_ms_per_message"] = ""  # so the column is not shown
        return rows


@experiment("small-writes", on_loopback=exchange_on_loopback)
def measure(
    messages: Annotated[int, Between(1, 100_000)] = 20,
    writes: Annotated[int, Between(1, 1024)] = 15,
    write_bytes: Annotated[int, Between(1, 1 << 20, "bytes")] = 2,
    rtt_ms: OwnRtt = 0.0,
    quickack: QuickAck = "on",
    variants: Sequence[SmallWritesMode] = VARIANTS,
    segments: bool = False,
    network: Network | None = None,
) -> SmallWrites:
    """15 small writes and one reply: default, TCP_NODELAY, TCP_CORK and writev().

    Args:
        messages: messages per variant.
        writes: writes per message.
        write_bytes: size of each write.
        rtt_ms: round-trip time of the laboratory that is made when no network is given.
        quickack: when the server acknowledges: on (as its kernel decides), off (as late as it may),
            always (at once).
        variants: modes of sending to compare, in this order.
        segments: keep the recorded segments, for a timeline: where loopback could record none, the
            shipped recording is shown. In a Lab they are recorded always.
        network: a Lab of its own unless given; on Loopback nothing is recorded.
    """
    with exchange_network(network, rtt_ms, segments=segments) as network:
        shape: Any = {"writes": writes, "write_bytes": write_bytes, "quickack": quickack}
        measured = [
            SmallWritesVariant(record_exchange(network, run_program, mode, messages, **shape), mode)
            for mode in variants
        ]
        cpu = measured[0].result.options.cpu
        return SmallWrites(
            measured, provenance(network, messages=messages, **shape, pinned_to_cpu=cpu)
        )
