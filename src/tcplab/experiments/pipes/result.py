"""The result of pipes: each pipeline with its runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from tcplab.experiments import Result, Variant
from tcplab.experiments.pipes.pipelines import Pipeline
from tcplab.programs import ChainResult
from tcplab.tables import Column


class Chain(Variant):
    """One pipeline, measured several times or not at all."""

    pipeline: Pipeline
    size_mb: int  #: How much went through it each time, in 10^6 bytes
    runs: Sequence[ChainResult]  #: The results, in the order of the rounds
    #: Share of the file that was in the page cache before each run, 0 to 1; empty when no file was
    #: read
    cached_share: Sequence[float]
    missing: str = ""  #: Why there are no runs; empty when there are

    @property
    def key(self) -> str:
        return self.pipeline.key

    @property
    def mb_per_s(self) -> list[float]:
        """The rate of each run, in MB/s."""
        return [run.mb_per_s for run in self.runs]

    @property
    def median_mb_per_s(self) -> float | None:
        """The rate in the middle; None when it was not measured."""
        return statistics.median(self.mb_per_s) if self.runs else None

    @property
    def cpu_s_per_gb(self) -> float | None:
        """Median CPU time of all programs together for 10^9 bytes, in s; None when not measured."""
        if not self.runs:
            return None
        return statistics.median(run.cpu_s for run in self.runs) / self.size_mb * 1e3

    @property
    def cpu_shares(self) -> list[float]:
        """Share of one CPU that each program had during the run (1.0 is all of it), medians."""
        shares = ([each.cpu_s / run.wall_s for each in run.processes] for run in self.runs)
        return [statistics.median(program) for program in zip(*shares, strict=True)]

    @property
    def bytes_per_read(self) -> list[float | None]:
        """Mean size of each program's reads, medians; None where /proc does not tell."""
        sizes = ([each.bytes_per_read for each in run.processes] for run in self.runs)
        known = [
            [size for size in program if size is not None] for program in zip(*sizes, strict=True)
        ]
        return [statistics.median(program) if program else None for program in known]

    def row(self) -> dict[str, Any]:
        """One row of plain data."""
        rates = self.mb_per_s
        cost = self.pipeline.cost
        return {
            "variant": self.pipeline.key,
            "shown": self.pipeline.shown,
            "where": "1 Gbit/s wire" if self.pipeline.wire else "one machine",
            "input": {"made": "/dev/zero", "cold": "file, cold", "warm": "file, warm"}[
                self.pipeline.cache
            ],
            "size_mb": self.size_mb,
            "runs": len(rates),
            "mb_per_s": self.median_mb_per_s,
            "mb_per_s_min": min(rates, default=None),
            "mb_per_s_max": max(rates, default=None),
            "published_mb_per_s": self.pipeline.published_mb_per_s,
            "copies": cost.copies,
            "processes": cost.processes,
            "cpu_s_per_gb": self.cpu_s_per_gb,
            "cpu_percent": " + ".join(f"{share * 100:.0f}" for share in self.cpu_shares) or None,
            "bytes_per_read": " · ".join(_bytes(size) for size in self.bytes_per_read) or None,
            "cached_share": statistics.median(self.cached_share) if self.cached_share else None,
            "note": self.missing,
        }


def _bytes(size: float | None) -> str:
    if size is None:
        return "–"
    return f"{size:.0f}" if size < 1000 else f"{size / 1024:.0f} KiB"


class Pipes(Result[Chain]):
    """All pipelines, measured in turn in each round; the key is the pipeline's."""

    columns: ClassVar[Sequence[Column]] = (
        Column("shown", "bytes go through"),
        Column("where", "where", is_setting=True),
        Column("input", "from"),
        Column("mb_per_s", "MB/s", ".0f"),
        Column("mb_per_s_min", "min", ".0f"),
        Column("mb_per_s_max", "max", ".0f"),
        Column("published_mb_per_s", "published", ".0f"),
        Column("copies", "copies", "d"),
        Column("processes", "processes", "d"),
        Column("cpu_s_per_gb", "CPU s/GB", ".2f"),
        Column("cpu_percent", "% of a CPU, each"),
        Column("note", "note"),
    )
