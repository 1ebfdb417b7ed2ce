"""TCP against UDP: tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming.

The text sends 5000 blocks of 1440 (table 2.2) or 300 bytes (table 2.3) to a sink, 50 times, with
buffers of 32 KiB, and asks three names for it: "bsd" and "localhost" are the same machine through
the loopback interface, by a route with the MTU of an Ethernet and by one with 16384 bytes; "sparc"
is at the other end of an Ethernet of 10 Mbit/s. Here all of it runs again, with one row more:
"router", where the slow link is not the sender's own.

Two questions that the tables raise have experiments of their own: udp_receive_buffers (where the
datagrams go that are lost on one machine) and udp_batching (why TCP is faster where no wire is the
limit).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Final, get_args

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.tcp_vs_udp.networks import (
    LO_MTU,
    ROUTER_QUEUE_PACKETS,
    WIRE_MBIT,
    Networks,
    Run,
)
from tcplab.experiments.tcp_vs_udp.published import (
    CLAIMS,
    PUBLISHED,
    PUBLISHED_COUNT,
    Key,
    Protocol,
    Published,
    Server,
    published_ratio,
)
from tcplab.experiments.tcp_vs_udp.result import TableRow, TcpVsUdp

__all__ = [
    "CLAIMS",
    "PROTOCOLS",
    "PUBLISHED",
    "PUBLISHED_COUNT",
    "SERVERS",
    "WRITE_BYTES",
    "Key",
    "Protocol",
    "Published",
    "Run",
    "Server",
    "TableRow",
    "TcpVsUdp",
    "measure",
    "published_ratio",
]

SERVERS: Final[tuple[Server, ...]] = get_args(Server)
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)
WRITE_BYTES: Final = (1440, 300)

_BUFFER_BYTES: Final = 32 * 1024  # both buffers, as in listings 2.18 and 2.19
#: On the slow wire a run moves this much: the published 7.2 MB, 50 times, take five minutes. With
#: UDP the clock stops when all is handed over, so the run must be long against the send buffer.
_SLOW_RUN_BYTES: Final = {"tcp": 144_000, "udp": 432_000}
_ROUTER_COUNT: Final = 200


@experiment("tcp-vs-udp")
def measure(
    runs: Annotated[int, Between(1, 10_000)] = 50,
    servers: Sequence[Server] = SERVERS,
    # A datagram carries its number (16 bytes) and fits in an IP packet.
    write_bytes: Annotated[Sequence[int], Between(16, 65_507, "bytes")] = WRITE_BYTES,
    protocols: Sequence[Protocol] = PROTOCOLS,
    count: Annotated[int | None, Between(1, 1_000_000)] = None,
    offload: bool = False,
) -> TcpVsUdp:
    """TCP against UDP: Snader's tables 2.2 and 2.3, on one machine and over 10 Mbit/s.

    The rows of a round follow each other; only those of "sparc" run side by side, each over a wire
    of its own, or 50 rounds would take minutes.

    Args:
        runs: rounds of all rows.
        servers: names of the sink: bsd and localhost are the client's own loopback interface with
            an MTU of 1500 and of 16384, sparc is behind a network card of 10 Mbit/s, router behind
            a fast card and a wire of that rate (not published).
        write_bytes: sizes of a block, that is of a write or a datagram.
        protocols: protocols to compare.
        count: blocks in a run; unset, the published 5000, and fewer where the slow wire would make
            a run take seconds (the rate is the same).
        offload: leave TSO, GSO and GRO of the loopback interface on; the published machine had
            none.
    """
    keys = [
        (server, each, size) for size in write_bytes for each in protocols for server in servers
    ]
    counts = {key: count or _count(*key) for key in keys}
    with ExitStack() as stack:
        networks = Networks(stack, keys, offload)
        results, done = in_rounds("tcp-vs-udp", runs, ("round",), lambda _: networks.round(counts))
        return TcpVsUdp(
            [TableRow(*key, counts[key], [each[key] for each in results["round"]]) for key in keys],
            provenance(
                networks.any,
                count={" ".join(map(str, key)): number for key, number in counts.items()},
                published_count=PUBLISHED_COUNT,
                buffers_bytes=_BUFFER_BYTES,
                lo_mtu={server: LO_MTU[server] for server in servers if server in LO_MTU},
                lo_offload=offload,
                wire_mbit=WIRE_MBIT,
                router_queue_packets=ROUTER_QUEUE_PACKETS,
                **done,
            ),
        )


def _count(server: Server, protocol: Protocol, write_bytes: int) -> int:
    if server == "router":
        return _ROUTER_COUNT
    if server == "sparc":
        return max(1, _SLOW_RUN_BYTES[protocol] // write_bytes)
    return PUBLISHED_COUNT
