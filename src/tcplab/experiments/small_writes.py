"""Measure the cost of sending one message in pieces, passed to TCP in several ways.

This is the experiment of "TCP_NODELAY and TCP_CORK" in Red Hat Enterprise Linux for Real Time,
which makes 15 writes of 2 bytes and then waits for a reply. Nagle's algorithm (RFC 896) holds all
but the first piece until it is acknowledged, and the receiver delays that ACK (RFC 1122, 4.2.3.2).
Each end waits for the other.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from tcplab.experiments import Between, Result, computed, derived, experiment, provenance
from tcplab.experiments.exchange import (
    ExchangeVariant,
    KeepSegments,
    OwnRtt,
    exchange_network,
    exchange_on_loopback,
    record_exchange,
    sizes_by_message,
    times_of_messages_ms,
)
from tcplab.lab import Network
from tcplab.programs import small_writes as run_program
from tcplab.programs.messages import QuickAck, SmallWritesMode, SmallWritesResult

VARIANTS: Final[tuple[SmallWritesMode, ...]] = ("default", "no_delay", "cork", "writev")

#: In Red Hat's article, 10,000 messages of 30 bytes on loopback took 400,129.78 ms (default),
#: 1,649.77 ms (no_delay) and 850.80 ms (cork).
PUBLISHED_MS_PER_MESSAGE: Final[Mapping[str, float]] = {
    "default": 40.0129781250,
    "no_delay": 0.1649771240,
    "cork": 0.0850796448,
}
#: The settings of the article, which used loopback without a delay.
PUBLISHED_CASE: Final[Mapping[str, Any]] = {"writes": 15, "write_bytes": 2, "quickack": "on"}


class SmallWritesVariant(ExchangeVariant[SmallWritesResult], key="mode", heading="variant"):
    """One way of handing the writes to TCP, and its recorded exchange."""

    mode: SmallWritesMode
    #: The median, because a few disturbed messages hardly change it.
    ms_per_message = computed(lambda case: case.result.message_us.median / 1e3, "ms/message", ".3f")
    mean_ms_per_message = computed(lambda case: case.result.ms_per_message, "mean", ".3f")
    published_ms_per_message = computed(
        lambda case: PUBLISHED_MS_PER_MESSAGE.get(case.mode), "published mean", ".3f"
    )

    @derived("segments/message", "g")
    def data_segments_per_message(self) -> float | None:
        """The median over the messages, because the first ones are acknowledged immediately."""
        counts = self.segments_per_message()
        return statistics.median(counts) if counts else None

    system_calls_per_message = computed(
        lambda case: case.result.system_calls / case.result.messages, "calls/message", "g"
    )

    @property
    def data_segment_sizes(self) -> list[int] | None:
        """As `sizes`, but None if the segments were not recorded."""
        return None if self.exchange.segments is None else self.sizes

    def segments_per_message(self) -> list[int] | None:
        """Return the number of data segments of each message, or None without a recording."""
        if (sizes := self.data_segment_sizes) is None:
            return None
        messages = self.result.messages
        return list(map(len, sizes_by_message(sizes, self.result.bytes // messages, messages)))

    def message_ms(self) -> list[float]:
        """Return the ms from the first write of each message to its reply."""
        return times_of_messages_ms(self.exchange.log or (), "reply")


class SmallWrites(Result[SmallWritesVariant]):
    """The variants, measured one after the other on one network."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, with the published means only for the settings of the article."""
        rows = super().rows()
        link = (self.provenance.get("link") or {}).get("client->server", {})
        case = {name: self.provenance.get(name, value) for name, value in PUBLISHED_CASE.items()}
        if case != PUBLISHED_CASE or link.get("delay_ms"):
            for row in rows:
                row["published_ms_per_message"] = ""  # an empty text hides the column
        return rows


@experiment(
    "small-writes",
    on_loopback=exchange_on_loopback,
    figure=("ms_per_message", "data_segments_per_message"),
    finding="Per message, {most} takes {ratio} times as long as {least}",
)
def measure(
    messages: Annotated[int, Between(1, 100_000), "messages per variant"] = 20,
    writes: Annotated[int, Between(1, 1024), "writes per message"] = 15,
    write_bytes: Annotated[int, Between(1, 1 << 20, "bytes"), "size of each write"] = 2,
    rtt_ms: OwnRtt = 0.0,
    quickack: QuickAck = "on",
    variants: Annotated[Sequence[SmallWritesMode], "modes to compare"] = VARIANTS,
    segments: KeepSegments = False,
    network: Network | None = None,
) -> SmallWrites:
    """Send 15 small writes and await a reply, with TCP_NODELAY, TCP_CORK, writev() or none of them.

    Args:
        quickack: when the server acknowledges: on (as its kernel decides), off (as late as
            possible), always (at once)
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
