"""Measure TCP against UDP as in tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming.

Snader sends 5000 blocks of 1440 or 300 bytes to a sink, 50 times, under three names. "bsd" and
"localhost" lead to the same machine over loopback, with MTUs of 1500 and 16384. "sparc" is at the
other end of a 10 Mbit/s Ethernet. The row "router" is new here. TCP's time ends when the sink has
read everything, but UDP's ends when the last datagram is sent. Where the link is the limit, compare
the data that arrived.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Final, get_args

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.tcp_vs_udp.networks import LO_MTU, ROUTER_QUEUE_PACKETS, WIRE_MBIT, Networks
from tcplab.experiments.tcp_vs_udp.result import (
    PUBLISHED,
    PUBLISHED_COUNT,
    Protocol,
    Run,
    Server,
    TableRow,
    TcpVsUdp,
)

__all__ = ["PUBLISHED", "PUBLISHED_COUNT", "Run", "TableRow", "TcpVsUdp", "measure"]


def __dir__() -> list[str]:
    return __all__


_TCP_BUFFERS_BYTES: Final = 32 * 1024
#: The slow link is measured once in this many rounds, because 5000 blocks take six seconds there
#: and the rate hardly varies.
_SLOW_EVERY: Final = 10
_COUNTS: Final = {"router": 200}  # number of blocks, if not the published one


@experiment(
    "tcp-vs-udp",
    figure=("mb_per_s",),
    finding="The sender of {mb_per_s.most} is {mb_per_s.ratio} times as fast as that "
    "of {mb_per_s.least}",
)
def measure(
    runs: Annotated[
        int, Between(1, 10_000), "measurements per row, or a tenth of them for sparc"
    ] = 50,
    servers: Sequence[Server] = get_args(Server),
    # A datagram carries its number (16 bytes) and must fit into an IP packet.
    write_bytes: Annotated[Sequence[int], Between(16, 65_507, "bytes")] = (1440, 300),
    protocols: Annotated[Sequence[Protocol], "protocols to compare"] = get_args(Protocol),
    count: Annotated[int | None, Between(1, 1_000_000)] = None,
    offload: bool = False,
    tcp_buffers_bytes: Annotated[int | None, Between(1, 1 << 30, "bytes")] = _TCP_BUFFERS_BYTES,
) -> TcpVsUdp:
    """Measure TCP against UDP as in Snader's tables 2.2 and 2.3, on one machine and over 10 Mbit/s.

    The rows of a round are measured one after the other. Only the rows of "sparc" run at the same
    time, each over its own link, in one round out of ten.

    Args:
        servers: names of the sink. bsd and localhost are the client's loopback interface with MTUs
            of 1500 and 16384, sparc is behind a 10 Mbit/s network card, and router (not published)
            is behind a fast card and a 10 Mbit/s link
        write_bytes: sizes of a block, which is one write or one datagram
        count: blocks per run; if unset, 200 to the router and 5000 otherwise, as in the book
        offload: leave TSO, GSO and GRO of the loopback interface on; the published machine had none
        tcp_buffers_bytes: SO_SNDBUF of the source and SO_RCVBUF of the sink; auto leaves both to
            the kernel
    """
    cases = itertools.product(write_bytes, protocols, servers)
    keys = [(server, protocol, size) for size, protocol, server in cases]
    counts = {key: count or _COUNTS.get(key[0], PUBLISHED_COUNT) for key in keys}
    fast = {key: number for key, number in counts.items() if key[0] != "sparc"}
    turn = itertools.cycle([counts] + [fast] * (_SLOW_EVERY - 1))
    with ExitStack() as stack:
        networks = Networks(stack, keys, offload, tcp_buffers_bytes)
        results, done = in_rounds(
            "tcp-vs-udp", runs, ("round",), lambda _: networks.round(next(turn))
        )
        rows = [
            TableRow(*key, counts[key], [runs[key] for runs in results["round"] if key in runs])
            for key in keys
        ]
        return TcpVsUdp(
            rows,
            provenance(
                networks.any,
                count={" ".join(map(str, key)): number for key, number in counts.items()},
                published_count=PUBLISHED_COUNT,
                tcp_buffers_bytes=tcp_buffers_bytes,
                sparc_rounds=f"1 of {_SLOW_EVERY}",
                lo_mtu={server: LO_MTU[server] for server in servers if server in LO_MTU},
                lo_offload=offload,
                wire_mbit=WIRE_MBIT,
                router_queue_packets=ROUTER_QUEUE_PACKETS,
                **done,
            ),
        )
