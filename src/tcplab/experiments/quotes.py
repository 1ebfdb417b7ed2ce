"""Quotes: a request, its answer, the next request, over two one-way connections or over one.

Case 2 of Microsoft's article "Design issues: sending small data segments over TCP with Winsock". A
client asks for stock quotes on one connection and gets them on another. Nothing flows back over the
connection for requests that an ACK could travel with; so the second request waits, by Nagle's
algorithm, for the ACK of the first, and that for a timer: 5 quotes a second. The cures that the
article names stand beside it: one connection, TCP_NODELAY, several requests at a time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.exchange import record_exchange, total_drops
from tcplab.experiments.mode import at_network
from tcplab.experiments.progress import Rounds
from tcplab.lab import Loopback, Network
from tcplab.models import Peer, message_cost
from tcplab.programs import QuotesResult
from tcplab.programs import quotes as run_program
from tcplab.tables import Column
from tcplab.timeline import Exchange, Timeline

__all__ = ["TEXT", "WAYS", "Quotes", "Server", "Variant", "Way", "measure", "model_per_s"]

Way = Literal["two", "two+nodelay", "single", "two, batch", "single, batch"]
Server = Literal["linux", "delaying"]

WAYS: Final[tuple[Way, ...]] = get_args(Way)

#: The article's own figures.
TEXT: Final[Mapping[str, float]] = {"two_quotes_per_s": 5, "ack_timer_ms": 200}

#: Longer than a quick exchange on a busy machine, shorter than any timer of a delayed ACK (40 ms).
STALL_MS: Final = 25.0

_REQUEST_BYTES, _QUOTE_BYTES = 8, 32  # as in quoteclient.c


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of asking, before one server.

    Attributes:
        way: over two connections or one, with what cure.
        server: "linux" acknowledges requests as its kernel likes, "delaying" as late as it may.
        exchange: the connection of the requests is the client's.
    """

    way: Way
    server: Server
    exchange: Exchange[QuotesResult]

    @property
    def result(self) -> QuotesResult:
        """The programs' report."""
        return self.exchange.result

    @property
    def name(self) -> str:
        """The way, with the batch's size if there is one."""
        return self.way.replace("batch", f"batch {self.result.batch}")

    def exchange_ms(self) -> list[float]:
        """Of each exchange in order, from the request to the last of its quotes, in ms."""
        times: list[float] = []
        start_ns: int | None = None
        end_ns = 0
        for event in self.exchange.log or ():
            if event.name == "request":
                if start_ns is not None:
                    times.append((end_ns - start_ns) / 1e6)
                start_ns = event.time_ns
            else:
                end_ns = event.time_ns
        if start_ns is not None:
            times.append((end_ns - start_ns) / 1e6)
        return times

    @property
    def stalled_share(self) -> float:
        """The share of exchanges, after the first two, that took longer than STALL_MS."""
        times = self.exchange_ms()[2:]
        return sum(each > STALL_MS for each in times) / len(times) if times else 0.0

    @property
    def segments_per_quote(self) -> float | None:
        """All segments of both directions and connections, from the first data on, over quotes."""
        rows = self.exchange.segments
        if rows is None:
            return None
        first = int(rows.carries_data.argmax())
        return (len(rows) - first) / self.result.quotes

    @property
    def pure_acks_per_quote(self) -> float | None:
        """Segments with neither data nor SYN or FIN, over quotes; None on plain loopback."""
        if self.exchange.segments is None:
            return None
        return len(self.exchange.segments.acks()) / self.result.quotes

    def timeline(self) -> Timeline:
        """The connection of the requests: writes, segments and ACKs, with the reason for each wait.

        Raises:
            ValueError: nothing was recorded (plain loopback).
        """
        return self.exchange.timeline()

    def row(self) -> dict[str, Any]:
        """The variant as one row of plain data."""
        told = self.way == "two" and self.server == "delaying"
        times = self.exchange_ms()
        return {
            "variant": self.name,
            "server": self.server,
            "quotes": self.result.quotes,
            "quotes_per_s": self.result.quotes_per_s,
            "text_quotes_per_s": TEXT["two_quotes_per_s"] if told else None,
            "model_quotes_per_s": model_per_s(self.way, self.server, self.result.batch),
            "exchanges": len(times),
            "median_exchange_ms": statistics.median(times),
            "longest_exchange_ms": max(times),
            "stalled_share": self.stalled_share,
            "segments_per_quote": self.segments_per_quote,
            "pure_acks_per_quote": self.pure_acks_per_quote,
            "congestion": self.result.options.congestion,
        }


@dataclass(frozen=True, slots=True)
class Quotes:
    """The ways of asking, each before both servers."""

    experiment: ClassVar[str] = "quotes"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "connections"),
        Column("server", "server"),
        Column("quotes_per_s", "quotes/s", ",.0f"),
        Column("text_quotes_per_s", "MSDN's", "g"),
        Column("median_exchange_ms", "exchange (ms)", ".3f"),
        Column("longest_exchange_ms", "longest (ms)", ".1f"),
        Column("stalled_share", "stalled", ".0%"),
        Column("segments_per_quote", "segments/quote", ".2f"),
        Column("pure_acks_per_quote", "pure ACKs/quote", ".2f"),
    )

    variants: Sequence[Variant]
    provenance: Mapping[str, Any]

    def get(self, way: Way, server: Server = "linux") -> Variant:
        """The variant of a way before a server.

        Raises:
            KeyError: it was not measured.
        """
        for variant in self.variants:
            if (variant.way, variant.server) == (way, server):
                return variant
        raise KeyError(f"{way} before the {server} server")

    def rows(self) -> list[dict[str, Any]]:
        """One row a variant."""
        return [variant.row() for variant in self.variants]


def model_per_s(
    way: Way, server: Server | Literal["windows"], batch: int = 1, nodelay: bool | None = None
) -> float | None:
    """What theory says of a way in which a timer decides; None where only the CPU limits.

    "windows" is the article's server: an ACK at once for every second segment, else after its timer
    of 200 ms (`tcplab.models.ClassicReceiver`), at both ends.

    Args:
        way: over two connections or one.
        server: how it acknowledges.
        batch: requests in a send, of the ways that batch.
        nodelay: TCP_NODELAY at both ends; as the way says unless given.
    """
    several = batch if way.endswith("batch") else 1
    off = way.endswith("nodelay") if nodelay is None else nodelay
    peer = Peer(
        acks="classic" if server == "windows" else "linux",
        quickack="off" if server == "delaying" else "on",
        other_connection=way.startswith("two"),
        nodelay=off,
    )
    cost = message_cost(
        [_REQUEST_BYTES * several],
        "no_delay" if off else "default",
        reply_bytes=_QUOTE_BYTES * several,
        peer=peer,
    )
    return several * 1000 / cost.ms_per_message if cost.ms_per_message > 1 else None


@experiment("quotes", on_loopback=lambda rtt_ms, segments, **_: rtt_ms == 0 and not segments)
def measure(
    count: int = 100,
    batch: int = 20,
    rtt_ms: float = 0.0,
    ways: Sequence[Way] = WAYS,
    servers: Sequence[Server] = ("linux", "delaying"),
    segments: bool = False,
    network: Network | None = None,
) -> Quotes:
    """Asks for the quotes in every way, before every server.

    Args:
        count: quotes a variant, 2 to 10 000.
        batch: requests in a send of the ways that batch, 1 to 1000.
        rtt_ms: round-trip time of the laboratory that is made when no network is given.
        ways: which, in this order.
        servers: "linux" acknowledges as its kernel likes, "delaying" as late as it may.
        segments: the recorded segments are wanted (for a timeline): where plain loopback could
            record none, show the shipped recording. In a Lab they are recorded always.
        network: where to run; a Lab of its own unless given. On Loopback nothing is recorded.

    Raises:
        ValueError: a number is out of range, or no such way or server.
        LabError: no laboratory can be made here, or a program failed.
    """
    _check(count, batch, ways, servers)
    if segments and isinstance(network, Loopback):
        raise ValueError("segments=True: plain loopback records none; give a Lab, or no place")
    with at_network(network, rtt_ms=rtt_ms) as network:
        cases = [(way, server) for server in servers for way in ways]
        measured: list[Variant] = []
        with Rounds(len(cases), "quotes") as rounds:
            for number in rounds:
                measured.append(_measure_one(network, *cases[number], count, batch))
        options = measured[0].result.options
        return Quotes(
            measured,
            provenance(
                network,
                count=count,
                batch=batch,
                pinned_to_cpu=options.cpu,
                congestion=options.congestion,
                capture_drops=total_drops(each.exchange for each in measured),
                runs=rounds.done,
                interrupted=rounds.interrupted,
            ),
        )


def _check(count: int, batch: int, ways: Sequence[str], servers: Sequence[str]) -> None:
    for name, value, least, most in (("count", count, 2, 10_000), ("batch", batch, 1, 1000)):
        if not least <= value <= most:
            raise ValueError(f"{name}={value} must be from {least} to {most}")
    for name, chosen, known in (
        ("ways", ways, get_args(Way)),
        ("servers", servers, get_args(Server)),
    ):
        if not chosen:
            raise ValueError(f"{name} is empty; give some of {'; '.join(known)}")
        for each in chosen:
            if each not in known:
                raise ValueError(f"{name}: {each!r} is not one of {'; '.join(known)}")


def _measure_one(network: Network, way: Way, server: Server, count: int, batch: int) -> Variant:
    exchange = record_exchange(
        network,
        run_program,
        count=count,
        single=way.startswith("single"),
        nodelay=way.endswith("nodelay"),
        batch=batch if way.endswith("batch") else 1,
        quickack="off" if server == "delaying" else "on",
    )
    return Variant(way, server, exchange)
