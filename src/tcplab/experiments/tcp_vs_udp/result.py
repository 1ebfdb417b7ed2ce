"""Define the result of tcp-vs-udp: all runs of each row, next to those of Snader's tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tcplab.experiments import Result, Variant, column, computed
from tcplab.tables import Table

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

    def ratio(self, over: tuple[str, str, int], under: tuple[str, str, int]) -> float:
        """Return the median rate of one row divided by that of another."""
        return float(self[over].mb_per_s / self[under].mb_per_s)

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
        numbers = {len(row.runs) for row in self.variants}
        runs = f"{max(numbers, default=0)} runs"
        if len(numbers) > 1:
            runs += f" ({min(numbers)} to sparc)"
        caption = f"Blocks of {write_bytes} bytes, {runs}; published: 50 runs"
        return self._part(chosen, keys, caption)

    def _part(self, chosen: Sequence[TableRow], keys: str, caption: str) -> Table:
        known = {column.key: column for column in self.columns}
        rows = [row.row() for row in chosen]
        return Table([known[key] for key in keys.split()], rows, caption)
