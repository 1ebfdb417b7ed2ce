"""TCP against UDP: tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming.

The text sends 5000 blocks of 1440 (table 2.2) or 300 bytes (table 2.3) to a sink, 50 times, and
asks three names for it: "bsd" and "localhost" are the same machine through the loopback interface,
by a route with the MTU of an Ethernet and by one with 16384 bytes; "sparc" is at the other end of
an Ethernet of 10 Mbit/s. Here all of it runs again, with one row more: "router", where the slow
link is not the sender's own.

The buffers are those of the book's programs: TCP's are 32 KiB at both ends (listings 2.18, 2.19);
the UDP sink asks for 5000 × 1440 bytes, and the UDP source for nothing (udpsink.c and udpsource.c,
which the book gives as files).

The two clocks differ. TCP's stops when the sink has read all, UDP's when the last datagram is
handed over, since nobody tells a UDP sender more. Where a wire is the limit, compare what arrived.

Two questions that the tables raise have experiments of their own: udp_receive_buffers (where the
datagrams go that are lost on one machine) and udp_batching (why TCP is faster where no wire is the
limit).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Final, get_args

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.tcp_vs_udp.networks import (
    LO_MTU,
    ROUTER_QUEUE_PACKETS,
    WIRE_MBIT,
    Buffers,
    Networks,
    Run,
)
from tcplab.experiments.tcp_vs_udp.published import (
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

_TCP_BUFFERS_BYTES: Final = 32 * 1024
_UDP_RCVBUF_BYTES: Final = PUBLISHED_COUNT * 1440
_MOST_BYTES: Final = 1 << 30
#: The published 5000 blocks take six seconds on the slow wire, whose rate hardly varies: one round
#: of ten runs them.
_SLOW_EVERY: Final = 10
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
    tcp_buffers_bytes: Annotated[int | None, Between(1, _MOST_BYTES, "bytes")] = _TCP_BUFFERS_BYTES,
    udp_rcvbuf_bytes: Annotated[int | None, Between(1, _MOST_BYTES, "bytes")] = _UDP_RCVBUF_BYTES,
) -> TcpVsUdp:
    """TCP against UDP: Snader's tables 2.2 and 2.3, on one machine and over 10 Mbit/s.

    The rows of a round follow each other; only those of "sparc" run side by side, each over a wire
    of its own, and in one round of ten, or 50 rounds would take minutes.

    Args:
        runs: rounds of all rows.
        servers: names of the sink: bsd and localhost are the client's own loopback interface with
            an MTU of 1500 and of 16384, sparc is behind a network card of 10 Mbit/s, router behind
            a fast card and a wire of that rate (not published).
        write_bytes: sizes of a block, that is of a write or a datagram.
        protocols: protocols to compare.
        count: blocks in a run; unset, the published 5000, and 200 to the router.
        offload: leave TSO, GSO and GRO of the loopback interface on; the published machine had
            none.
        tcp_buffers_bytes: SO_SNDBUF of the source and SO_RCVBUF of the sink; auto leaves both to
            the kernel.
        udp_rcvbuf_bytes: SO_RCVBUF of the UDP sink; auto leaves it to the kernel.
    """
    keys = [
        (server, each, size) for size in write_bytes for each in protocols for server in servers
    ]
    counts = {key: count or _count(key[0]) for key in keys}
    usual = {key: each for key, each in counts.items() if key[0] != "sparc"}
    turn = itertools.cycle([counts] + [usual] * (_SLOW_EVERY - 1))
    with ExitStack() as stack:
        networks = Networks(stack, keys, offload, Buffers(tcp_buffers_bytes, udp_rcvbuf_bytes))
        results, done = in_rounds(
            "tcp-vs-udp", runs, ("round",), lambda _: networks.round(next(turn))
        )
        found = {key: [each[key] for each in results["round"] if key in each] for key in keys}
        return TcpVsUdp(
            [TableRow(*key, counts[key], found[key]) for key in keys],
            provenance(
                networks.any,
                count={" ".join(map(str, key)): number for key, number in counts.items()},
                published_count=PUBLISHED_COUNT,
                tcp_buffers_bytes=tcp_buffers_bytes,
                udp_rcvbuf_bytes=udp_rcvbuf_bytes,
                sparc_rounds=f"1 of {_SLOW_EVERY}",
                lo_mtu={server: LO_MTU[server] for server in servers if server in LO_MTU},
                lo_offload=offload,
                wire_mbit=WIRE_MBIT,
                router_queue_packets=ROUTER_QUEUE_PACKETS,
                **done,
            ),
        )


def _count(server: Server) -> int:
    return _ROUTER_COUNT if server == "router" else PUBLISHED_COUNT
