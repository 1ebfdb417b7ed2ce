"""Measure TCP against UDP as in tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming.

Snader sends 5000 blocks of 1440 or 300 bytes to a sink, 50 times, under three names. "bsd" and
"localhost" lead to the same machine over loopback, with MTUs of 1500 and 16384. "sparc" is at the
other end of a 10 Mbit/s Ethernet. The row "router" is new here. TCP's time ends when the sink has
read everything, but UDP's ends when the last datagram is sent. Where the link is the limit, compare
the data that arrived.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from tcplab.experiments import Between, Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.interface_settings import put_token_bucket, set_mtu, set_offloads
from tcplab.experiments.mode import LabLoopback
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Host, Lab, Network
from tcplab.models import Encapsulation, mss_bytes
from tcplab.programs import TcpBulkResult, UdpBulkResult, tcp_bulk, udp_bulk
from tcplab.tables import Table

__all__ = ["PUBLISHED", "PUBLISHED_COUNT", "TableRow", "TcpVsUdp", "measure"]
__dir__ = __all__.copy


Server = Literal["bsd", "localhost", "sparc", "router"]
Protocol = Literal["tcp", "udp"]
Key = tuple[Server, Protocol, int]  #: server, protocol, bytes per block

PUBLISHED_COUNT: Final = 5000  # blocks in a run


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the published tables, the mean of 50 runs of 5000 blocks."""

    wall_s: float
    user_s: float
    system_s: float
    mb_per_s: float  #: bytes sent, divided by wall_s
    lost: int | None = None  #: number of lost datagrams out of 5000, or None for TCP

    @property
    def lost_percent(self) -> float | None:
        return None if self.lost is None else 100 * self.lost / PUBLISHED_COUNT

    @property
    def blocks_per_s(self) -> float:
        return PUBLISHED_COUNT / self.wall_s

    @property
    def arrived_mb_per_s(self) -> float:
        return self.mb_per_s * (1 - (self.lost or 0) / PUBLISHED_COUNT)


#: Tables 2.2 and 2.3, complete.
PUBLISHED: Final[Mapping[tuple[str, str, int], Published]] = {
    ("bsd", "tcp", 1440): Published(2.88, 0.0292, 1.4198, 2.5),
    ("localhost", "tcp", 1440): Published(0.9558, 0.0096, 0.6316, 7.53),
    ("sparc", "tcp", 1440): Published(7.1882, 0.016, 1.6226, 1.002),
    ("bsd", "udp", 1440): Published(1.9618, 0.0316, 1.1934, 3.67, 336),
    ("localhost", "udp", 1440): Published(1.9748, 0.031, 1.1906, 3.646, 272),
    ("sparc", "udp", 1440): Published(5.8284, 0.0564, 0.844, 1.235, 440),
    ("bsd", "tcp", 300): Published(1.059, 0.0124, 0.445, 1.416),
    ("sparc", "tcp", 300): Published(1.5552, 0.0084, 1.2442, 0.965),
    ("bsd", "udp", 300): Published(1.6324, 0.0324, 0.9998, 0.919, 212),
    ("sparc", "udp", 300): Published(1.9118, 0.0278, 1.4352, 0.785, 306),
}


@dataclass(frozen=True, slots=True)
class Run:
    """The measurements of one run of source and sink."""

    wall_s: float  #: time until the sink has read everything (TCP), or until the last send (UDP)
    user_s: float  #: user time of the source
    system_s: float  #: system time of the source
    sent_mb_per_s: float  #: bytes sent, divided by wall_s, as published
    arrived_mb_per_s: float  #: bytes that arrived, divided by the sink's time
    lost: int | None  #: number of datagrams that were lost, or None for TCP
    drops: int | None  #: datagrams dropped by a full receive buffer, or None for TCP
    data_segments: int  #: segments or datagrams with data that the source's kernel sent
    retransmissions: int | None  #: number of retransmissions, or None for UDP


def _median(name: str) -> Any:
    return lambda row: float(statistics.median(getattr(run, name) for run in row.runs))


def _scaled_mean(name: str) -> Any:
    """Scale to 5000 blocks. The kernel measures CPU time coarsely, so a mean is most exact."""
    return lambda row: (
        statistics.fmean(getattr(run, name) for run in row.runs) * PUBLISHED_COUNT / row.count
    )


def _published(name: str) -> Any:
    return lambda row: getattr(PUBLISHED.get(row.key), name, None)


class TableRow(
    Variant,
    key=("server", "protocol", "write_bytes"),
    label="{0.server} {0.protocol} {0.write_bytes}",
):
    """All runs of one row of the tables. Times with a column are scaled to 5000 blocks."""

    server: Server = column("server", is_setting=True)
    protocol: Protocol = column("protocol", show=str.upper)
    write_bytes: int = column("block (bytes)", "d")  #: size of a block, one write or one datagram
    count: int  #: number of blocks in a run
    runs: Sequence[Run] = column(show=len)
    wall_s = computed(
        lambda row: _median("wall_s")(row) * PUBLISHED_COUNT / row.count, "elapsed (s)", ".4f"
    )
    published_wall_s = computed(_published("wall_s"), "published", ".4f")
    user_s = computed(_scaled_mean("user_s"), "user (s)", ".4f")
    published_user_s = computed(_published("user_s"), "published", ".4f")
    system_s = computed(_scaled_mean("system_s"), "system (s)", ".4f")
    published_system_s = computed(_published("system_s"), "published", ".4f")
    mb_per_s_min = computed(
        lambda row: min(run.sent_mb_per_s for run in row.runs), "MB/s min", ".4g"
    )
    mb_per_s = computed(_median("sent_mb_per_s"), "MB/s", ".4g")
    mb_per_s_max = computed(
        lambda row: max(run.sent_mb_per_s for run in row.runs), "MB/s max", ".4g"
    )
    published_mb_per_s = computed(_published("mb_per_s"), "published", ".4g")
    arrived_mb_per_s = computed(_median("arrived_mb_per_s"), "arrived (MB/s)", ".4g")
    blocks_per_s = computed(lambda row: row.mb_per_s * 1e6 / row.write_bytes, "blocks/s", ",.0f")
    published_blocks_per_s = computed(_published("blocks_per_s"), "published", ",.0f")
    bytes_per_segment = computed(
        lambda row: row.write_bytes * row.count / _median("data_segments")(row),
        "bytes/segment",
        ".0f",
    )
    #: CPU time of the source per block, which a busy machine changes less than wall time.
    cpu_us_per_block = computed(
        lambda row: (
            1e6 * statistics.median(run.user_s + run.system_s for run in row.runs) / row.count
        ),
        "source's CPU (µs/block)",
        ".2f",
    )
    lost_percent_min = computed(lambda row: min(row.lost, default=None), "lost (%) min", ".1f")
    lost_percent = computed(
        lambda row: statistics.median(row.lost) if row.lost else None, "lost (%)", ".1f"
    )
    lost_percent_max = computed(lambda row: max(row.lost, default=None), "lost (%) max", ".1f")
    published_lost_percent = computed(_published("lost_percent"), "published", ".1f")
    retransmissions = computed(
        lambda row: _median("retransmissions")(row) if row.protocol == "tcp" else None,
        "retransmissions",
        ".0f",
    )

    @property
    def lost(self) -> list[float]:
        """The percentage of datagrams lost in each run; empty for TCP, which resends data."""
        return [100 * run.lost / self.count for run in self.runs if run.lost is not None]


class TcpVsUdp(Result[TableRow]):
    """The rows of both tables. The key is (server, protocol, bytes per block)."""

    def ratios(self, over: tuple[str, str, int], under: tuple[str, str, int]) -> list[float]:
        """Return the rate of one row divided by that of another in each round."""
        pairs = zip(self[over].runs, self[under].runs, strict=True)
        return [a.sent_mb_per_s / b.sent_mb_per_s for a, b in pairs]

    def published_table(self, write_bytes: int) -> Table:
        """Return the rows of one block size, scaled to 5000 blocks, next to the published ones."""
        keys = """protocol server wall_s published_wall_s user_s published_user_s system_s
            published_system_s mb_per_s published_mb_per_s lost_percent published_lost_percent"""
        return self._of_size(write_bytes, keys)

    def spread_table(self, write_bytes: int) -> Table:
        """Return the rows of one block size with the spread over the runs and the arrival rate."""
        keys = """protocol server mb_per_s_min mb_per_s mb_per_s_max arrived_mb_per_s
            bytes_per_segment lost_percent_min lost_percent lost_percent_max retransmissions"""
        return self._of_size(write_bytes, keys)

    def block_table(self, server: Server) -> Table:
        """Return a table of rate and CPU time by protocol and block size for one server."""
        keys = """protocol write_bytes mb_per_s blocks_per_s published_blocks_per_s
            bytes_per_segment cpu_us_per_block"""
        chosen = [row for row in self.variants if row.server == server]
        chosen.sort(key=lambda row: (row.protocol, row.write_bytes))
        return self._part(chosen, keys, f"To {server}")

    def _of_size(self, write_bytes: int, keys: str) -> Table:
        chosen = [row for row in self.variants if row.write_bytes == write_bytes]
        numbers = [len(row.runs) for row in self.variants]
        least, most = min(numbers), max(numbers)
        runs = f"{most} runs" + (f" ({least} to sparc)" if least < most else "")
        caption = f"Blocks of {write_bytes} bytes, {runs}; published: 50 runs"
        return self._part(chosen, keys, caption)

    def _part(self, chosen: Sequence[TableRow], keys: str, caption: str) -> Table:
        known = {column.key: column for column in self.columns}
        return Table([known[key] for key in keys.split()], [row.row() for row in chosen], caption)


# ---- the laboratories of the rows ----------------------------------------------------------------


WIRE_MBIT: Final = 10
#: MTU of the loopback interface for each of the two names of the client's own machine.
LO_MTU: Final[Mapping[str, int]] = {"bsd": 1500, "localhost": 16384}
#: Length of the router's queue, which drains in 60 ms at 10 Mbit/s and exceeds TCP's window.
ROUTER_QUEUE_PACKETS: Final = 50
#: Length of the card's queue. As with a real card (txqueuelen), it holds more than a default send
#: buffer, so that nothing is lost.
_CARD_QUEUE: Final = "1200ms"


def _open_networks(stack: ExitStack, keys: Sequence[Key], offload: bool) -> dict[Key, Network]:
    """Open the laboratory of each row. Only the rows of "sparc" have one each."""
    networks: dict[Key, Network] = {}
    servers = {server for server, _protocol, _bytes in keys}
    if not servers.isdisjoint(LO_MTU):
        localhost = LabLoopback(stack.enter_context(Lab()))
        set_offloads(localhost.client, tso=offload, gso=offload, gro=offload)
        networks |= {key: localhost for key in keys if key[0] in LO_MTU}
    if "router" in servers:
        lab = Lab(rate_mbit=WIRE_MBIT, queue_packets=ROUTER_QUEUE_PACKETS)
        slow = stack.enter_context(lab)
        networks |= {key: slow for key in keys if key[0] == "router"}
    for key in keys:
        server, protocol, size = key
        if server == "sparc":
            networks[key] = card = stack.enter_context(Lab(rate_mbit=WIRE_MBIT))
            payload_bytes = mss_bytes(1500) if protocol == "tcp" else size
            _slow_card(card.client, payload_bytes, protocol)
    return networks


def _run(network: Network, key: Key, count: int, tcp_buffers_bytes: int | None) -> Run:
    server, protocol, write_bytes = key
    if server in LO_MTU:
        set_mtu(network.client, LO_MTU[server])
    if protocol == "udp":
        return _run_of(udp_bulk(network, datagram_bytes=write_bytes, count=count))
    buffers: Any = {"sndbuf_bytes": tcp_buffers_bytes, "rcvbuf_bytes": tcp_buffers_bytes}
    return _run_of(tcp_bulk(network, write_bytes=write_bytes, count=count, **buffers))


def _run_of(done: TcpBulkResult | UdpBulkResult) -> Run:
    used = done.source.usage
    counts: tuple[int | None, int | None, int, int | None]
    if isinstance(done, TcpBulkResult):
        info = done.source.tcp_info
        counts = None, None, int(info["data_segs_out"]), int(info["total_retrans"])
    else:
        counts = done.sink.lost, done.sink.drops, done.source.datagrams, None
    rates = done.source.mb_per_s, done.sink.mb_per_s
    return Run(used.wall_s, used.user_s, used.system_s, *rates, *counts)


def _slow_card(host: Host, payload_bytes: int, protocol: Protocol) -> None:
    """Limit the rate of the host's own interface, so that unsent data fills the send buffer.

    The token bucket counts only the bytes that the kernel sees, so its rate is lowered to leave
    time for the preamble, FCS and gap that a card adds.
    """
    around = Encapsulation(protocol), Encapsulation(protocol, link="frame")
    on_the_wire, known = (encapsulation.wire_bytes(payload_bytes) for encapsulation in around)
    rate_bit = round(WIRE_MBIT * 1e6 * known / on_the_wire)
    put_token_bucket(host, rate=f"{rate_bit}bit", burst=3000, latency=_CARD_QUEUE)


# ---- measurement ---------------------------------------------------------------------------------


_TCP_BUFFERS_BYTES: Final = 32 * 1024
#: The slow link is measured once in this many rounds, because 5000 blocks take six seconds there
#: and the rate hardly varies.
_SLOW_EVERY: Final = 10
_COUNTS: Final = {"router": 200}  # number of blocks, if not the published one
_SETTINGS: Final[Mapping[str, Any]] = {
    "published_count": PUBLISHED_COUNT,
    "sparc_rounds": f"1 of {_SLOW_EVERY}",
    "lo_mtu": LO_MTU,
    "wire_mbit": WIRE_MBIT,
    "router_queue_packets": ROUTER_QUEUE_PACKETS,
}


@experiment(
    "tcp-vs-udp",
    figure=("mb_per_s",),
    finding="The sender of {most} is {ratio} times as fast as that of {least}",
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
    turn = itertools.cycle([keys] + [[]] * (_SLOW_EVERY - 1))
    with ExitStack() as stack:
        networks = _open_networks(stack, keys, offload)
        threads = stack.enter_context(ThreadPoolExecutor(len(keys)))

        def run(key: Key) -> Run:
            return _run(networks[key], key, counts[key], tcp_buffers_bytes)

        def measure_round(_: str) -> dict[Key, Run]:
            results = {key: run(key) for key in counts if key[0] != "sparc"}
            slow = [key for key in next(turn) if key[0] == "sparc"]
            return results | dict(zip(slow, threads.map(run, slow), strict=True))

        results, done = in_rounds(runs, ("round",), measure_round)
        rows = [
            TableRow(*key, counts[key], [runs[key] for runs in results["round"] if key in runs])
            for key in keys
        ]
        details: dict[str, Any] = {"lo_offload": offload, "tcp_buffers_bytes": tcp_buffers_bytes}
        details["count"] = {" ".join(map(str, key)): number for key, number in counts.items()}
        return TcpVsUdp(rows, provenance(networks[keys[0]], **_SETTINGS, **details, **done))
