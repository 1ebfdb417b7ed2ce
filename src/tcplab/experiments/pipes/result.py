"""The result of pipes: each pipeline with its runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final, TypeAlias

from tcplab.experiments import Result, Variant, column, computed, derived
from tcplab.experiments.pipes.pipelines import Pipeline
from tcplab.programs import ChainResult

_INPUTS: Final = {"made": "/dev/zero", "cold": "file, cold", "warm": "file, warm"}


class Chain(Variant, label="{0.pipeline.key}"):
    """One pipeline, measured several times or not at all."""

    pipeline: Pipeline
    size_mb: int  #: how much went through it each time, in 10^6 bytes
    runs: Sequence[ChainResult] = column(show=len)  #: the results, in the order of the rounds
    #: share of the file that was in the page cache before each run, 0 to 1; empty when no file was
    #: read
    cached_share: Sequence[float] = column(
        show=lambda shares: statistics.median(shares) if shares else None
    )

    shown = computed(lambda each: each.pipeline.shown, "bytes go through")
    where = computed(
        lambda each: "1 Gbit/s wire" if each.pipeline.wire else "one machine",
        "where",
        is_setting=True,
    )
    input = computed(lambda each: _INPUTS[each.pipeline.cache], "from")

    @derived("MB/s", ".0f", show=lambda rates: statistics.median(rates) if rates else None)
    def mb_per_s(self) -> list[float]:
        """The rate of each run."""
        return [run.mb_per_s for run in self.runs]

    @property
    def median_mb_per_s(self) -> float | None:
        """The rate in the middle; None when it was not measured."""
        return statistics.median(self.mb_per_s) if self.runs else None

    mb_per_s_min = computed(lambda each: min(each.mb_per_s, default=None), "min", ".0f")
    mb_per_s_max = computed(lambda each: max(each.mb_per_s, default=None), "max", ".0f")
    published_mb_per_s = computed(lambda each: each.pipeline.published_mb_per_s, "published", ".0f")
    copies = computed(lambda each: each.pipeline.cost.copies, "copies", "d")
    processes = computed(lambda each: each.pipeline.cost.processes, "processes", "d")

    @derived("CPU s/GB", ".2f")
    def cpu_s_per_gb(self) -> float | None:
        """Median CPU time of all programs together for 10^9 bytes, in s; None when not measured."""
        if not self.runs:
            return None
        return statistics.median(run.cpu_s for run in self.runs) / self.size_mb * 1e3

    @derived("% of a CPU, each")
    def cpu_percent(self) -> str | None:
        return " + ".join(f"{share * 100:.0f}" for share in self.cpu_shares) or None

    #: why there are no runs; empty when there are
    missing: str = column("note", name="note", default="")

    @property
    def key(self) -> str:
        return self.pipeline.key

    @property
    def cpu_shares(self) -> list[float]:
        """Share of one CPU that each program had during the run (1.0 is all of it), medians."""
        shares = ([each.cpu_s / run.wall_s for each in run.processes] for run in self.runs)
        return [statistics.median(program) for program in zip(*shares, strict=True)]

    @derived(show=lambda sizes: " · ".join(map(_bytes, sizes)) or None)
    def bytes_per_read(self) -> list[float | None]:
        """Mean size of each program's reads, medians; None where /proc does not tell."""
        sizes = ([each.bytes_per_read for each in run.processes] for run in self.runs)
        known = [
            [size for size in program if size is not None] for program in zip(*sizes, strict=True)
        ]
        return [statistics.median(program) if program else None for program in known]


def _bytes(size: float | None) -> str:
    if size is None:
        return "–"
    return f"{size:.0f}" if size < 1000 else f"{size / 1024:.0f} KiB"


Pipes: TypeAlias = Result[Chain]
