"""Request quotes over two one-way connections, or over one connection.

This is case 2 of Microsoft's "Design issues: sending small data segments over TCP with Winsock".
No data that could carry an ACK flows back on the connection of the requests, so Nagle's algorithm
holds the second request until a timer sends the ACK of the first. This allows 5 quotes per second.
The fixes are one connection, TCP_NODELAY, or several requests at a time.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, get_args

from tcplab.experiments import Between, Result, column, computed, derived, experiment
from tcplab.experiments.exchange import (
    ExchangeVariant,
    KeepSegments,
    OwnRtt,
    exchange_network,
    exchange_on_loopback,
    record_exchange,
)
from tcplab.experiments.progress import case_by_case
from tcplab.lab import Network
from tcplab.models import Peer, message_cost
from tcplab.programs.messages import QuotesResult
from tcplab.programs.messages import quotes as run_program

QuoteMode = Literal["two", "two+nodelay", "single", "two+batch", "single+batch"]
Server = Literal["linux", "delaying"]

_TWO_PUBLISHED_PER_S: Final = 5
#: Longer than an exchange takes on a busy machine, and shorter than a delayed-ACK timer (40 ms).
_STALL_MS: Final = 25.0
_REQUEST_BYTES, _QUOTE_BYTES = 8, 32  # see quoteclient.c


class QuotesVariant(ExchangeVariant[QuotesResult], key=("mode", "server"), heading="connections"):
    """One way of requesting quotes, with one kind of server."""

    mode: QuoteMode
    server: Server = column("server", is_setting=True)

    @property
    def label(self) -> str:
        return self.mode.replace("+batch", f", batch {self.result.batch}")

    quotes_per_s = computed(lambda case: case.result.quotes_per_s, "quotes/s", ",.0f")
    published_quotes_per_s = computed(
        lambda case: _TWO_PUBLISHED_PER_S if case.key == ("two", "delaying") else None,
        "published",
        "g",
    )
    longest_exchange_ms = computed(
        lambda case: max(case.exchange_ms()), "longest exchange (ms)", ".1f"
    )

    def exchange_ms(self) -> list[float]:
        """Return the ms from each send of requests to the last of its quotes, in order."""
        spans: list[list[int]] = []
        for event in self.exchange.log or ():
            if event.name == "request":
                spans.append([])
            spans[-1].append(event.time_ns)
        return [(span[-1] - span[0]) / 1e6 for span in spans]

    @derived("stalled", ".0%")
    def stalled_share(self) -> float:
        times = self.exchange_ms()[2:]
        return sum(time_ms > _STALL_MS for time_ms in times) / len(times) if times else 0.0

    @derived("pure ACKs/quote", ".2f")
    def pure_acks_per_quote(self) -> float | None:
        rows = self.exchange.segments
        return None if rows is None else len(rows.acks()) / self.result.quotes


def model_per_s(mode: QuoteMode, server: Server) -> float | None:
    """Return the quotes per second that a timer allows, or None if the CPU is the limit."""
    nodelay = mode.endswith("nodelay")
    peer = Peer(
        quickack="off" if server == "delaying" else "on",
        other_connection=mode.startswith("two"),
        nodelay=nodelay,
    )
    cost = message_cost(
        [_REQUEST_BYTES], "no_delay" if nodelay else "default", reply_bytes=_QUOTE_BYTES, peer=peer
    )
    return 1000 / cost.ms_per_message if cost.ms_per_message > 1 else None


@experiment(
    "quotes",
    on_loopback=exchange_on_loopback,
    figure=("quotes_per_s", "stalled_share"),
    finding="In the same time, {most} exchanges {ratio} times as many quotes as {least}",
)
def measure(
    count: Annotated[int, Between(2, 10_000), "quotes per variant"] = 100,
    batch: Annotated[int, Between(1, 1000), "requests per send of the batch modes"] = 20,
    rtt_ms: OwnRtt = 0.0,
    variants: Annotated[Sequence[QuoteMode], "modes to compare"] = get_args(QuoteMode),
    servers: Sequence[Server] = ("linux", "delaying"),
    segments: KeepSegments = False,
    network: Network | None = None,
) -> Result[QuotesVariant]:
    """Request quotes singly or in batches, over two connections or one (MSDN, case 2).

    Args:
        servers: "linux" lets the kernel decide when to acknowledge, and "delaying" delays ACKs as
            long as possible
    """
    with exchange_network(network, rtt_ms, segments=segments) as network:
        cases = [(mode, server) for server in servers for mode in variants]
        return case_by_case(
            network,
            cases,
            lambda case: _measure_one(network, *case, count, batch),
            count=count,
            batch=batch,
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
