"""Quotes: a request, its answer, the next request, over two one-way connections or over one.

Case 2 of Microsoft's article "Design issues: sending small data segments over TCP with Winsock". A
client asks for stock quotes on one connection and gets them on another. Nothing flows back over the
connection for requests that an ACK could travel with; so the second request waits, by Nagle's
algorithm, for the ACK of the first, and that for a timer: 5 quotes per second. The cures that the
article names stand beside it: one connection, TCP_NODELAY, several requests at a time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Final, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, column, computed, derived, experiment, provenance
from tcplab.experiments.exchange import (
    ExchangeVariant,
    OwnRtt,
    exchange_network,
    exchange_on_loopback,
    record_exchange,
)
from tcplab.experiments.progress import one_by_one
from tcplab.lab import Network
from tcplab.models import Peer, message_cost
from tcplab.programs import QuotesResult
from tcplab.programs import quotes as run_program

QuoteMode = Literal["two", "two+nodelay", "single", "two, batch", "single, batch"]
Server = Literal["linux", "delaying"]

MODES: Final[tuple[QuoteMode, ...]] = get_args(QuoteMode)

#: The article's figures.
PUBLISHED: Final[Mapping[str, float]] = {"two_quotes_per_s": 5, "ack_timer_ms": 200}

#: Longer than a quick exchange on a busy machine, shorter than any timer of a delayed ACK (40 ms).
STALL_MS: Final = 25.0

_REQUEST_BYTES, _QUOTE_BYTES = 8, 32  # as in quoteclient.c


class QuotesVariant(ExchangeVariant[QuotesResult], key=("mode", "server"), heading="connections"):
    """One mode of asking, with one server."""

    mode: QuoteMode  #: over two connections or one, and the cure
    #: "linux" acknowledges requests as its kernel likes, "delaying" as late as it may
    server: Server = column("server", is_setting=True)

    @property
    def label(self) -> str:
        """The mode, with the batch's size if there is one."""
        return self.mode.replace("batch", f"batch {self.result.batch}")

    quotes_per_s = computed(lambda each: each.result.quotes_per_s, "quotes/s", ",.0f")

    @derived("MSDN's", "g")
    def published_quotes_per_s(self) -> float | None:
        published = self.mode == "two" and self.server == "delaying"
        return PUBLISHED["two_quotes_per_s"] if published else None

    @derived()
    def model_quotes_per_s(self) -> float | None:
        return model_per_s(self.mode, self.server, self.result.batch)

    exchanges = computed(lambda each: len(each.exchange_ms()))

    @derived("exchange (ms)", ".3f")
    def median_exchange_ms(self) -> float:
        return statistics.median(self.exchange_ms())

    longest_exchange_ms = computed(lambda each: max(each.exchange_ms()), "longest (ms)", ".1f")

    def exchange_ms(self) -> list[float]:
        """Time of each request in order, from its send to the last of its quotes, in ms."""
        spans: list[list[int]] = []
        for event in self.exchange.log or ():
            if event.name == "request":
                spans.append([])
            spans[-1].append(event.time_ns)
        return [(each[-1] - each[0]) / 1e6 for each in spans]

    @derived("stalled", ".0%")
    def stalled_share(self) -> float:
        """The share of exchanges, after the first two, that took longer than STALL_MS."""
        times = self.exchange_ms()[2:]
        return sum(each > STALL_MS for each in times) / len(times) if times else 0.0

    @derived("segments/quote", ".2f")
    def segments_per_quote(self) -> float | None:
        """All segments of both directions and connections, from the first data on, over quotes."""
        if (rows := self.exchange.segments) is None:
            return None
        return (len(rows) - int(rows.carries_data.argmax())) / self.result.quotes

    @derived("pure ACKs/quote", ".2f")
    def pure_acks_per_quote(self) -> float | None:
        """Segments with neither data nor SYN or FIN, over quotes; None on plain loopback."""
        rows = self.exchange.segments
        return None if rows is None else len(rows.acks()) / self.result.quotes


Quotes: TypeAlias = Result[QuotesVariant]


@cache
def model_per_s(
    mode: QuoteMode,
    server: Server | Literal["windows"],
    batch: int = 1,
    nodelay: bool | None = None,
) -> float | None:
    """Quotes per second by theory, of a mode that a timer limits; None where only the CPU does.

    "windows" is the article's server: an ACK at once for every second segment, else after its timer
    of 200 ms (`tcplab.models.ClassicReceiver`), at both ends.

    Args:
        mode: over two connections or one.
        server: how it acknowledges.
        batch: requests per send, of the modes that batch.
        nodelay: TCP_NODELAY at both ends; as the mode says unless given.
    """
    several = batch if mode.endswith("batch") else 1
    off = mode.endswith("nodelay") if nodelay is None else nodelay
    peer = Peer(
        acks="classic" if server == "windows" else "linux",
        quickack="off" if server == "delaying" else "on",
        other_connection=mode.startswith("two"),
        nodelay=off,
    )
    cost = message_cost(
        [_REQUEST_BYTES * several],
        "no_delay" if off else "default",
        reply_bytes=_QUOTE_BYTES * several,
        peer=peer,
    )
    return several * 1000 / cost.ms_per_message if cost.ms_per_message > 1 else None


@experiment("quotes", on_loopback=exchange_on_loopback)
def measure(
    count: Annotated[int, Between(2, 10_000)] = 100,
    batch: Annotated[int, Between(1, 1000)] = 20,
    rtt_ms: OwnRtt = 0.0,
    variants: Sequence[QuoteMode] = MODES,
    servers: Sequence[Server] = ("linux", "delaying"),
    segments: bool = False,
    network: Network | None = None,
) -> Quotes:
    """Quotes asked for one by one, over two connections or one (MSDN, case 2).

    Args:
        count: quotes per variant.
        batch: requests per send of the modes that batch.
        rtt_ms: round-trip time of the laboratory that is made when no network is given.
        variants: modes of asking to compare, in this order.
        servers: linux acknowledges as its kernel decides, delaying as late as it may.
        segments: keep the recorded segments, for a timeline: where loopback could record none, the
            shipped recording is shown. In a Lab they are recorded always.
        network: a Lab of its own unless given; on Loopback nothing is recorded.
    """
    with exchange_network(network, rtt_ms, segments=segments) as network:
        cases = [(mode, server) for server in servers for mode in variants]
        measured, done = one_by_one(
            "quotes", cases, lambda case: _measure_one(network, *case, count, batch)
        )
        cpu = measured[0].result.options.cpu
        return Quotes(
            measured, provenance(network, count=count, batch=batch, pinned_to_cpu=cpu, **done)
        )


def _measure_one(
    network: Network, mode: QuoteMode, server: Server, count: int, batch: int
) -> QuotesVariant:
    exchange = record_exchange(
        network,
        run_program,
        count=count,
        single=mode.startswith("single"),
        nodelay=mode.endswith("nodelay"),
        batch=batch if mode.endswith("batch") else 1,
        quickack="off" if server == "delaying" else "on",
    )
    return QuotesVariant(exchange, mode, server)
