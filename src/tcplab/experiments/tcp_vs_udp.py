"""TCP against UDP: tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming.

The text sends 5000 blocks of 1440 (table 2.2) or 300 bytes (table 2.3) to a sink, 50 times, with
buffers of 32 KiB, and asks three names for it: "bsd" and "localhost" are the same machine through
the loopback interface, by a route with the MTU of an Ethernet and by one with 16384 bytes; "sparc"
is at the other end of an Ethernet of 10 Mbit/s. Here all of it runs again, with one row more:
"router", where the slow link is not the sender's own.

Two questions that the tables raise have experiments of their own in tcplab.experiments.datagrams:
where the datagrams go that are lost on one machine, and why TCP is faster where no wire is the
limit.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.checks import whole
from tcplab.errors import LabError
from tcplab.experiments import datagrams, provenance, spread
from tcplab.experiments.declaration import experiment
from tcplab.experiments.interface_settings import put_token_bucket, set_mtu, set_offload
from tcplab.experiments.lab_loopback import LabLoopback
from tcplab.experiments.progress import Rounds
from tcplab.lab import Host, Lab, Network
from tcplab.models import Encapsulation, mss_bytes
from tcplab.programs import TcpBulkResult, UdpBulkResult, tcp_bulk, udp_bulk
from tcplab.tables import Column, Table

__all__ = [
    "BUFFER_BYTES",
    "CLAIMS",
    "SERVERS",
    "SIZES",
    "TEXT",
    "WIRE_MBIT",
    "Protocol",
    "Run",
    "Series",
    "Server",
    "TcpVsUdp",
    "TextFigures",
    "measure",
    "text_ratio",
]

Server = Literal["bsd", "localhost", "sparc", "router"]
Protocol = Literal["tcp", "udp"]

SERVERS: Final[tuple[Server, ...]] = get_args(Server)
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)
SIZES: Final = (1440, 300)

TEXT_BLOCKS: Final = 5000
BUFFER_BYTES: Final = 32 * 1024  # both buffers, as in listings 2.18 and 2.19
WIRE_MBIT: Final = 10
LO_MTU: Final[Mapping[str, int]] = {"bsd": 1500, "localhost": 16384}

#: On the slow wire a run moves so many bytes: the text's 7.2 MB, 50 times, take five minutes. With
#: UDP the clock stops when all is handed over, so the run must be long against the send buffer.
_SLOW_RUN_BYTES: Final[Mapping[str, int]] = {"tcp": 144_000, "udp": 432_000}
#: Of the router: 50 packets are 60 ms of full ones at 10 Mbit/s, and more than TCP's window.
_ROUTER_QUEUE_PACKETS: Final = 50
_ROUTER_BLOCKS: Final = 200

MAX_RUNS: Final = 10_000
MAX_BLOCKS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TextFigures:
    """A row of the text's tables, a mean of 50 runs of 5000 blocks.

    Attributes:
        wall_s: by the clock, from the client's start to its end.
        user_s: of that in the program itself.
        system_s: of that in the kernel on its behalf.
        mb_per_s: bytes sent over wall_s, 10^6 bytes/s.
        lost: datagrams of 5000; None for TCP.
    """

    wall_s: float
    user_s: float
    system_s: float
    mb_per_s: float
    lost: int | None = None

    @property
    def arrived_mb_per_s(self) -> float:
        """The part of mb_per_s that arrived."""
        return self.mb_per_s * (1 - (self.lost or 0) / TEXT_BLOCKS)


#: Tables 2.2 and 2.3 whole, by (server, protocol, bytes a block).
TEXT: Final[Mapping[tuple[str, str, int], TextFigures]] = {
    ("bsd", "tcp", 1440): TextFigures(2.88, 0.0292, 1.4198, 2.5),
    ("localhost", "tcp", 1440): TextFigures(0.9558, 0.0096, 0.6316, 7.53),
    ("sparc", "tcp", 1440): TextFigures(7.1882, 0.016, 1.6226, 1.002),
    ("bsd", "udp", 1440): TextFigures(1.9618, 0.0316, 1.1934, 3.67, 336),
    ("localhost", "udp", 1440): TextFigures(1.9748, 0.031, 1.1906, 3.646, 272),
    ("sparc", "udp", 1440): TextFigures(5.8284, 0.0564, 0.844, 1.235, 440),
    ("bsd", "tcp", 300): TextFigures(1.059, 0.0124, 0.445, 1.416),
    ("sparc", "tcp", 300): TextFigures(1.5552, 0.0084, 1.2442, 0.965),
    ("bsd", "udp", 300): TextFigures(1.6324, 0.0324, 0.9998, 0.919, 212),
    ("sparc", "udp", 300): TextFigures(1.9118, 0.0278, 1.4352, 0.785, 306),
}


Key = tuple[Server, Protocol, int]

#: What the text concludes: how many times as fast the first row is as the second.
CLAIMS: Final[Sequence[tuple[str, Key, Key]]] = (
    ("TCP to localhost, of bsd", ("localhost", "tcp", 1440), ("bsd", "tcp", 1440)),
    ("UDP to localhost, of bsd", ("localhost", "udp", 1440), ("bsd", "udp", 1440)),
    ("TCP of UDP, to localhost", ("localhost", "tcp", 1440), ("localhost", "udp", 1440)),
    ("UDP of TCP, to bsd", ("bsd", "udp", 1440), ("bsd", "tcp", 1440)),
    ("UDP of TCP, to sparc", ("sparc", "udp", 1440), ("sparc", "tcp", 1440)),
    ("UDP of TCP, to sparc: what arrived", ("sparc", "udp", 1440), ("sparc", "tcp", 1440)),
    ("TCP of UDP, 300 bytes to bsd", ("bsd", "tcp", 300), ("bsd", "udp", 300)),
    ("TCP of UDP, 300 bytes to sparc", ("sparc", "tcp", 300), ("sparc", "udp", 300)),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the source and the sink.

    Attributes:
        wall_s: from the source's first write to the end: with TCP until the sink has read all, with
            UDP until the last datagram was handed over.
        user_s, system_s: of the source.
        sent_mb_per_s: bytes sent over wall_s, 10^6 bytes/s, as in the text.
        arrived_mb_per_s: bytes that the sink's program got, over its own time.
        lost: datagrams that did not arrive; None for TCP.
        drops: of these, thrown away by the sink's host, for want of room in the receive buffer.
        data_segments: segments or datagrams that the source's kernel sent with data.
    """

    wall_s: float
    user_s: float
    system_s: float
    sent_mb_per_s: float
    arrived_mb_per_s: float
    lost: int | None
    drops: int | None
    data_segments: int


@dataclass(frozen=True, slots=True)
class Series:
    """All runs of one row of the tables.

    Attributes:
        server: by which way the sink is reached.
        protocol: "tcp" or "udp".
        size_bytes: bytes in a block.
        blocks: blocks in a run.
        runs: in order of time.
    """

    server: Server
    protocol: Protocol
    size_bytes: int
    blocks: int
    runs: Sequence[Run]

    @property
    def name(self) -> str:
        """Server, protocol and size in one."""
        return f"{self.server} {self.protocol} {self.size_bytes}"

    @property
    def mb_per_s(self) -> float:
        """Bytes sent over time by the clock, the median run: the text's column "MB/s"."""
        return statistics.median(each.sent_mb_per_s for each in self.runs)

    @property
    def arrived_mb_per_s(self) -> float:
        """Bytes that arrived over the sink's time, the median run."""
        return statistics.median(each.arrived_mb_per_s for each in self.runs)

    @property
    def blocks_per_s(self) -> float:
        """Blocks handed over in a second, the median run."""
        return self.mb_per_s * 1e6 / self.size_bytes

    @property
    def cpu_us_per_block(self) -> float:
        """CPU time of the source for a block, of the median run; a busy machine changes it less."""
        times_s = [each.user_s + each.system_s for each in self.runs]
        return 1e6 * statistics.median(times_s) / self.blocks

    @property
    def bytes_per_segment(self) -> float:
        """Data in a segment or datagram, the mean of the median run."""
        segments = statistics.median(each.data_segments for each in self.runs)
        return self.size_bytes * self.blocks / segments

    @property
    def lost_percent(self) -> Sequence[float] | None:
        """Of the datagrams sent, run by run; None for TCP, which sends them again."""
        if self.protocol == "tcp":
            return None
        return [100 * (each.lost or 0) / self.blocks for each in self.runs]

    def row(self) -> dict[str, Any]:
        """The series as one row of plain data, the text's figures beside it.

        Times are of a run, those that end in _5000 scaled to the 5000 blocks of the text.
        """
        rates = spread(each.sent_mb_per_s for each in self.runs)
        lost = self.lost_percent
        text = TEXT.get((self.server, self.protocol, self.size_bytes))
        seconds = {
            "wall_s": statistics.median(each.wall_s for each in self.runs),
            # The kernel splits a few milliseconds of CPU time roughly; the mean evens it out.
            "user_s": statistics.fmean(each.user_s for each in self.runs),
            "system_s": statistics.fmean(each.system_s for each in self.runs),
        }
        return {
            "variant": self.name,
            "server": self.server,
            "protocol": self.protocol.upper(),
            "size_bytes": self.size_bytes,
            "blocks": self.blocks,
            "runs": len(self.runs),
            **seconds,
            **{f"{key}_5000": value * TEXT_BLOCKS / self.blocks for key, value in seconds.items()},
            "text_wall_s": text and text.wall_s,
            "text_user_s": text and text.user_s,
            "text_system_s": text and text.system_s,
            "mb_per_s": rates["median"],
            "mb_per_s_min": rates["min"],
            "mb_per_s_max": rates["max"],
            "text_mb_per_s": text and text.mb_per_s,
            "blocks_per_s": self.blocks_per_s,
            "cpu_us_per_block": self.cpu_us_per_block,
            "text_blocks_per_s": text and text.mb_per_s * 1e6 / self.size_bytes,
            "arrived_mb_per_s": self.arrived_mb_per_s,
            "bytes_per_segment": self.bytes_per_segment,
            "lost_percent": statistics.median(lost) if lost else None,
            "lost_percent_min": min(lost) if lost else None,
            "lost_percent_max": max(lost) if lost else None,
            "text_lost_percent": _percent(text.lost) if text and text.lost is not None else None,
            "text_lost": text.lost if text else None,
        }


def _percent(lost: int) -> float:
    return 100 * lost / TEXT_BLOCKS


@dataclass(frozen=True, slots=True)
class TcpVsUdp:
    """Both tables, run by run."""

    experiment: ClassVar[str] = "tcp-vs-udp"
    columns: ClassVar[Sequence[Column]] = (
        Column("protocol", "protocol"),
        Column("size_bytes", "bytes", "d"),
        Column("server", "server"),
        Column("wall_s_5000", "clock (s)", ".4f"),
        Column("text_wall_s", "text", ".4f"),
        Column("user_s_5000", "user (s)", ".4f"),
        Column("text_user_s", "text", ".4f"),
        Column("system_s_5000", "system (s)", ".4f"),
        Column("text_system_s", "text", ".4f"),
        Column("mb_per_s_min", "MB/s min", ".4g"),
        Column("mb_per_s", "median", ".4g"),
        Column("mb_per_s_max", "max", ".4g"),
        Column("text_mb_per_s", "text", ".4g"),
        Column("arrived_mb_per_s", "arrived", ".4g"),
        Column("bytes_per_segment", "bytes/segment", ".0f"),
        Column("lost_percent_min", "lost (%) min", ".1f"),
        Column("lost_percent", "median", ".1f"),
        Column("lost_percent_max", "max", ".1f"),
        Column("text_lost_percent", "text", ".1f"),
    )

    series: Sequence[Series]
    provenance: Mapping[str, Any]

    def __getitem__(self, key: tuple[str, str, int]) -> Series:
        for each in self.series:
            if (each.server, each.protocol, each.size_bytes) == key:
                return each
        raise KeyError(key)

    def ratio(self, over: tuple[str, str, int], under: tuple[str, str, int]) -> float:
        """How many times the rate of the one row is that of the other."""
        return self[over].mb_per_s / self[under].mb_per_s

    def rows(self) -> list[dict[str, Any]]:
        """One row a server, protocol and size, in the order of the text's tables."""
        return [each.row() for each in self.series]

    def text_table(self, size_bytes: int) -> Table:
        """The rows of one block size under the columns of the text's own table, its figures beside.

        Times are scaled to the text's 5000 blocks.
        """
        keys = """protocol server wall_s_5000 text_wall_s user_s_5000 text_user_s system_s_5000
            text_system_s mb_per_s text_mb_per_s lost_percent text_lost_percent"""
        return self._of_size(size_bytes, keys.split())

    def spread_table(self, size_bytes: int) -> Table:
        """The rows of one block size: least, median and most over the runs, and what arrived."""
        keys = """protocol server mb_per_s_min mb_per_s mb_per_s_max arrived_mb_per_s
            bytes_per_segment lost_percent_min lost_percent lost_percent_max"""
        return self._of_size(size_bytes, keys.split())

    def block_table(self, server: Server) -> Table:
        """What a block costs by its size: MB/s, and blocks a second."""
        keys = """protocol size_bytes mb_per_s blocks_per_s text_blocks_per_s bytes_per_segment
            cpu_us_per_block"""
        chosen = [each for each in self.series if each.server == server]
        chosen.sort(key=lambda each: (each.protocol, each.size_bytes))
        return self._part(chosen, keys.split(), f"To {server}")

    def trial_table(self) -> Table:
        """What the text concludes from its tables, as ratios: the text's own, and ours."""
        rows = []
        for claim, over, under in CLAIMS:
            try:
                ours = self.ratio(over, under)
            except KeyError:  # not measured
                continue
            text = text_ratio(over, under)
            if claim.endswith("what arrived"):
                ours = self[over].arrived_mb_per_s / self[under].arrived_mb_per_s
                text = TEXT[over].arrived_mb_per_s / TEXT[under].arrived_mb_per_s
            rows.append({"claim": claim, "text": text, "ours": ours})
        columns = (
            Column("claim", "how many times as fast"),
            Column("text", "the text", ".2f"),
            Column("ours", "this run", ".2f"),
        )
        return Table(columns, rows)

    def _of_size(self, size_bytes: int, keys: Sequence[str]) -> Table:
        chosen = [each for each in self.series if each.size_bytes == size_bytes]
        runs = max((len(each.runs) for each in self.series), default=0)
        caption = f"Blocks of {size_bytes} bytes, {runs} runs; the text: 50 runs"
        return self._part(chosen, keys, caption)

    def _part(self, chosen: Sequence[Series], keys: Sequence[str], caption: str) -> Table:
        """The columns with these keys, each with a heading that needs no neighbour."""
        alone = {
            "protocol": "protocol",
            "mb_per_s": "MB/s",
            "mb_per_s_max": "MB/s max",
            "arrived_mb_per_s": "arrived, MB/s",
            "lost_percent": "lost (%)",
            "lost_percent_max": "lost (%) max",
        }
        known = {each.key: each for each in (*self.columns, *_BLOCK_COLUMNS)}
        columns = [replace(known[key], heading=alone.get(key, known[key].heading)) for key in keys]
        return Table(columns, [each.row() for each in chosen], caption)


_BLOCK_COLUMNS: Final = (
    Column("blocks_per_s", "blocks a second", ",.0f"),
    Column("text_blocks_per_s", "text", ",.0f"),
    Column("cpu_us_per_block", "CPU of the source (µs/block)", ".2f"),
)


def text_ratio(over: tuple[str, str, int], under: tuple[str, str, int]) -> float:
    """The same as TcpVsUdp.ratio of the text's own figures."""
    return TEXT[over].mb_per_s / TEXT[under].mb_per_s


@experiment("tcp-vs-udp")
def measure(
    runs: int = 50,
    rows: Sequence[Server] = SERVERS,
    sizes: Sequence[int] = SIZES,
    protocols: Sequence[Protocol] = PROTOCOLS,
    blocks: int | None = None,
    offload: bool = False,
) -> TcpVsUdp:
    """Runs every row of the tables so many times, in rounds of all of them.

    The rows of a round follow each other; only those of "sparc" run side by side, each over a wire
    of its own, or 50 rounds would take minutes.

    Args:
        runs: rounds.
        rows: the servers: "bsd" and "localhost" through the client's own loopback interface with an
            MTU of 1500 and 16384, "sparc" over a wire of 10 Mbit/s behind a network card of the
            same rate, "router" over the same wire behind a fast card (not in the text).
        sizes: bytes in a block, 16 to 65 507.
        protocols: "tcp", "udp".
        blocks: in a run; None for the text's 5000, and fewer where the slow wire would make a run
            take seconds (the rate is the same).
        offload: leave TSO, GSO and GRO of the loopback interface on; the text's machine had none.

    Raises:
        ValueError: a number is out of range, or no such row.
        LabError: no laboratory can be made here, this kernel has no tbf queue for the row "sparc",
            or a program failed.
    """
    _check(runs, rows, sizes, protocols, blocks)
    keys = [(row, protocol, size) for size in sizes for protocol in protocols for row in rows]
    measured: dict[tuple[Server, Protocol, int], list[Run]] = {key: [] for key in keys}
    planned = {key: blocks or _blocks(*key) for key in keys}
    with ExitStack() as stack:
        networks = _Networks(stack, keys, offload)
        with Rounds(runs, "tcp-vs-udp") as rounds:
            for _round in rounds:
                for key, run in networks.round(planned).items():
                    measured[key].append(run)
        return TcpVsUdp(
            [Series(*key, planned[key], measured[key]) for key in keys],
            provenance(
                networks.any,
                runs=rounds.done,
                interrupted=rounds.interrupted,
                blocks={" ".join(map(str, key)): number for key, number in planned.items()},
                text_blocks=TEXT_BLOCKS,
                buffers_bytes=BUFFER_BYTES,
                lo_mtu={row: LO_MTU[row] for row in rows if row in LO_MTU},
                lo_offload=offload,
                wire_mbit=WIRE_MBIT,
                router_queue_packets=_ROUTER_QUEUE_PACKETS,
                congestion=networks.any.congestion,
            ),
        )


def _check(
    runs: int,
    rows: Sequence[str],
    sizes: Sequence[int],
    protocols: Sequence[str],
    blocks: int | None,
) -> None:
    whole("runs", runs, 1, MAX_RUNS, fix="the text made 50")
    if blocks is not None:
        whole("blocks", blocks, 1, MAX_BLOCKS, fix="the text sent 5000")
    for size in sizes:
        least, most = datagrams.MIN_DATAGRAM_BYTES, datagrams.MAX_DATAGRAM_BYTES
        whole("size", size, least, most, fix="a datagram carries its number and fits in a packet")
    for name, given, known in (
        ("row", rows, SERVERS),
        ("protocol", protocols, PROTOCOLS),
        ("size", sizes, sizes),
    ):
        if not given:
            raise ValueError(f"no {name} is given; give some of {', '.join(map(str, known))}")
        for each in given:
            if each not in known:
                raise ValueError(f"{name} {each!r} is not one of {', '.join(map(str, known))}")
        if len(set(given)) < len(given):
            raise ValueError(f"a {name} is given twice: {', '.join(map(str, given))}")


def _blocks(row: Server, protocol: Protocol, size_bytes: int) -> int:
    if row == "router":
        return _ROUTER_BLOCKS
    return max(1, _SLOW_RUN_BYTES[protocol] // size_bytes) if row == "sparc" else TEXT_BLOCKS


class _Networks:
    """The laboratories of the rows, and one round of runs in them."""

    def __init__(self, stack: ExitStack, keys: Sequence[Key], offload: bool) -> None:
        self._networks: dict[Key, Network] = {}
        labs: list[Lab] = []

        def lab(**wire: Any) -> Lab:
            labs.append(stack.enter_context(Lab(**wire)))
            return labs[-1]

        rows = {row for row, _protocol, _size in keys}
        if not rows.isdisjoint(LO_MTU):
            localhost = LabLoopback(lab())
            set_offload(localhost.client, offload)
            self._networks |= {key: localhost for key in keys if key[0] in LO_MTU}
        if "router" in rows:
            slow = lab(rate_mbit=WIRE_MBIT, queue_packets=_ROUTER_QUEUE_PACKETS)
            self._networks |= {key: slow for key in keys if key[0] == "router"}
        self._side_by_side = [key for key in keys if key[0] == "sparc"]
        for key in self._side_by_side:
            _row, protocol, size = key
            self._networks[key] = card = lab(rate_mbit=WIRE_MBIT)
            payload_bytes = mss_bytes(1500) if protocol == "tcp" else size
            _slow_card(card.client, WIRE_MBIT, payload_bytes, protocol)
        self.any = labs[0]
        self._threads = stack.enter_context(ThreadPoolExecutor(len(self._side_by_side) or 1))

    def round(self, blocks: Mapping[Key, int]) -> dict[Key, Run]:
        """Every row once: one after the other, and then those behind the slow card together.

        The latter wait for their wires nearly all of the time, and each has a wire of its own.
        """
        finished = {
            key: self._run(key, count)
            for key, count in blocks.items()
            if key not in self._side_by_side
        }
        slow = [(key, blocks[key]) for key in self._side_by_side]
        runs = self._threads.map(lambda each: self._run(*each), slow)
        return finished | dict(zip(self._side_by_side, runs, strict=True))

    def _run(self, key: Key, blocks: int) -> Run:
        row, protocol, size_bytes = key
        network = self._networks[key]
        if row in LO_MTU:
            set_mtu(network.client, LO_MTU[row])
        # The programs' own defaults are the text's: both buffers 32 KiB.
        if protocol == "tcp":
            return _tcp_run(tcp_bulk(network, write_bytes=size_bytes, count=blocks))
        return _udp_run(udp_bulk(network, datagram_bytes=size_bytes, count=blocks))


def _tcp_run(done: TcpBulkResult) -> Run:
    used = done.source.usage
    return Run(
        wall_s=used.wall_s,
        user_s=used.user_s,
        system_s=used.system_s,
        sent_mb_per_s=done.source.mb_per_s,
        arrived_mb_per_s=done.sink.mb_per_s,
        lost=None,
        drops=None,
        data_segments=int(done.source.tcp_info["data_segs_out"]),
    )


def _udp_run(done: UdpBulkResult) -> Run:
    used = done.source.usage
    return Run(
        wall_s=used.wall_s,
        user_s=used.user_s,
        system_s=used.system_s,
        sent_mb_per_s=done.source.mb_per_s,
        arrived_mb_per_s=done.sink.mb_per_s,
        lost=done.sink.lost,
        drops=done.sink.drops,
        data_segments=done.source.datagrams,
    )


def _slow_card(host: Host, rate_mbit: int, payload_bytes: int, protocol: Protocol) -> None:
    """The host's own network card is slow: what it has not sent yet fills the send buffer.

    The token bucket counts what the kernel knows of a frame; a card is busy with preamble, FCS and
    gap as well.
    """
    around = Encapsulation(protocol), Encapsulation(protocol, link="frame")
    on_the_wire, known = (each.wire_bytes(payload_bytes) for each in around)
    rate_bit = round(rate_mbit * 1e6 * known / on_the_wire)

    from pyroute2 import NetlinkError

    try:
        put_token_bucket(host, rate=f"{rate_bit}bit", burst=3000, latency="50ms")
    except NetlinkError as error:
        raise LabError(
            f"this kernel has no queue of a given rate (tbf: {error}): 'sudo modprobe sch_tbf', or"
            " leave the row 'sparc' out"
        ) from None
