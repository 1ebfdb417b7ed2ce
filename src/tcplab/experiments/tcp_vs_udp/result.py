"""Define the result of tcp-vs-udp, with all runs of each row and the published figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from tcplab.experiments import Result, Variant
from tcplab.experiments.quantities import spread_cells
from tcplab.experiments.tcp_vs_udp.networks import Run
from tcplab.experiments.tcp_vs_udp.published import PUBLISHED, PUBLISHED_COUNT, Protocol, Server
from tcplab.tables import Column, Table


class TableRow(Variant, key=("server", "protocol", "write_bytes")):
    """All runs of one row of the tables."""

    server: Server
    protocol: Protocol
    write_bytes: int  #: size of a block, which is one write or one datagram
    count: int  #: number of blocks in a run
    runs: Sequence[Run]

    def _median(self, name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in self.runs))

    @property
    def mb_per_s(self) -> float:
        return self._median("sent_mb_per_s")

    @property
    def arrived_mb_per_s(self) -> float:
        return self._median("arrived_mb_per_s")

    @property
    def blocks_per_s(self) -> float:
        return self.mb_per_s * 1e6 / self.write_bytes

    @property
    def cpu_us_per_block(self) -> float:
        """CPU time of the source per block, which a busy machine changes less than wall time."""
        times_s = [run.user_s + run.system_s for run in self.runs]
        return 1e6 * statistics.median(times_s) / self.count

    @property
    def bytes_per_segment(self) -> float:
        return self.write_bytes * self.count / self._median("data_segments")

    @property
    def lost_percent(self) -> Sequence[float] | None:
        """The percentage of datagrams lost in each run, or None for TCP, which resends data."""
        if self.protocol == "tcp":
            return None
        return [100 * (run.lost or 0) / self.count for run in self.runs]

    @property
    def retransmissions(self) -> float | None:
        again = [run.retransmissions for run in self.runs if run.retransmissions is not None]
        return statistics.median(again) if again else None

    def row(self) -> dict[str, Any]:
        """Return a row of plain data. Times scaled to 5000 blocks have keys that end in _5000."""
        lost = self.lost_percent
        published = PUBLISHED.get(self.key)
        seconds = {
            "wall_s": self._median("wall_s"),
            # The kernel measures CPU time coarsely, so a mean is more exact than a median.
            "user_s": statistics.fmean(run.user_s for run in self.runs),
            "system_s": statistics.fmean(run.system_s for run in self.runs),
        }
        return {
            "variant": f"{self.server} {self.protocol} {self.write_bytes}",
            "server": self.server,
            "protocol": self.protocol.upper(),
            "write_bytes": self.write_bytes,
            "count": self.count,
            "runs": len(self.runs),
            **seconds,
            **{
                f"{key}_5000": value * PUBLISHED_COUNT / self.count
                for key, value in seconds.items()
            },
            "published_wall_s": published and published.wall_s,
            "published_user_s": published and published.user_s,
            "published_system_s": published and published.system_s,
            **spread_cells("mb_per_s", [run.sent_mb_per_s for run in self.runs]),
            "published_mb_per_s": published and published.mb_per_s,
            "blocks_per_s": self.blocks_per_s,
            "cpu_us_per_block": self.cpu_us_per_block,
            "published_blocks_per_s": published and published.mb_per_s * 1e6 / self.write_bytes,
            "arrived_mb_per_s": self.arrived_mb_per_s,
            "bytes_per_segment": self.bytes_per_segment,
            **(spread_cells("lost_percent", lost) if lost else {}),
            "retransmissions": self.retransmissions,
            "published_lost_percent": published and published.lost_percent,
            "published_lost": published and published.lost,
        }


class TcpVsUdp(Result[TableRow]):
    """The rows of both tables. The key is (server, protocol, bytes per block)."""

    columns: ClassVar[Sequence[Column]] = (
        Column("protocol", "protocol"),
        Column("write_bytes", "block (bytes)", "d"),
        Column("server", "server", is_setting=True),
        Column("wall_s_5000", "elapsed (s)", ".4f"),
        Column("published_wall_s", "published", ".4f"),
        Column("user_s_5000", "user (s)", ".4f"),
        Column("published_user_s", "published", ".4f"),
        Column("system_s_5000", "system (s)", ".4f"),
        Column("published_system_s", "published", ".4f"),
        Column("mb_per_s_min", "MB/s min", ".4g"),
        Column("mb_per_s", "MB/s", ".4g"),
        Column("mb_per_s_max", "max", ".4g"),
        Column("published_mb_per_s", "published", ".4g"),
        Column("arrived_mb_per_s", "arrived (MB/s)", ".4g"),
        Column("bytes_per_segment", "bytes/segment", ".0f"),
        Column("lost_percent_min", "lost (%) min", ".1f"),
        Column("lost_percent", "median", ".1f"),
        Column("lost_percent_max", "max", ".1f"),
        Column("published_lost_percent", "published", ".1f"),
        Column("retransmissions", "retransmissions", ".0f"),
    )

    def ratio(self, over: tuple[str, str, int], under: tuple[str, str, int]) -> float:
        """Return the median rate of one row divided by that of another."""
        return self[over].mb_per_s / self[under].mb_per_s

    def ratios(self, over: tuple[str, str, int], under: tuple[str, str, int]) -> list[float]:
        """Return the rate of one row divided by that of another in each round."""
        pairs = zip(self[over].runs, self[under].runs, strict=True)
        return [a.sent_mb_per_s / b.sent_mb_per_s for a, b in pairs]

    def published_table(self, write_bytes: int) -> Table:
        """Return the rows of one block size, scaled to 5000 blocks, next to the published ones."""
        keys = """protocol server wall_s_5000 published_wall_s user_s_5000 published_user_s
            system_s_5000 published_system_s mb_per_s published_mb_per_s lost_percent
            published_lost_percent"""
        return self._of_size(write_bytes, keys.split())

    def spread_table(self, write_bytes: int) -> Table:
        """Return the rows of one block size with the spread over the runs and the arrival rate."""
        keys = """protocol server mb_per_s_min mb_per_s mb_per_s_max arrived_mb_per_s
            bytes_per_segment lost_percent_min lost_percent lost_percent_max retransmissions"""
        return self._of_size(write_bytes, keys.split())

    def block_table(self, server: Server) -> Table:
        """Return a table of rate and CPU time by protocol and block size for one server."""
        keys = """protocol write_bytes mb_per_s blocks_per_s published_blocks_per_s
            bytes_per_segment cpu_us_per_block"""
        chosen = [row for row in self.variants if row.server == server]
        chosen.sort(key=lambda row: (row.protocol, row.write_bytes))
        return self._part(chosen, keys.split(), f"To {server}")

    def _of_size(self, write_bytes: int, keys: Sequence[str]) -> Table:
        chosen = [row for row in self.variants if row.write_bytes == write_bytes]
        numbers = {len(row.runs) for row in self.variants}
        runs = f"{max(numbers, default=0)} runs"
        if len(numbers) > 1:
            runs += f" ({min(numbers)} to sparc)"
        caption = f"Blocks of {write_bytes} bytes, {runs}; published: 50 runs"
        return self._part(chosen, keys, caption)

    def _part(self, chosen: Sequence[TableRow], keys: Sequence[str], caption: str) -> Table:
        """Return a table of these rows and columns, with headings that are clear on their own."""
        alone = {
            "mb_per_s_max": "MB/s max",
            "arrived_mb_per_s": "arrived (MB/s)",
            "lost_percent": "lost (%)",
            "lost_percent_max": "lost (%) max",
        }
        known = {column.key: column for column in (*self.columns, *_BLOCK_COLUMNS)}
        columns = [replace(known[key], heading=alone.get(key, known[key].heading)) for key in keys]
        return Table(columns, [row.row() for row in chosen], caption)


_BLOCK_COLUMNS: Final = (
    Column("blocks_per_s", "blocks/s", ",.0f"),
    Column("published_blocks_per_s", "published", ",.0f"),
    Column("cpu_us_per_block", "source's CPU (µs/block)", ".2f"),
)
