"""Define the result of the experiment "pipes", which contains each pipeline and its runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final, TypeAlias

from tcplab.experiments import Result, Variant, column, computed, derived
from tcplab.experiments.pipes.pipelines import Pipeline
from tcplab.programs import ChainResult

_INPUTS: Final = {"made": "/dev/zero", "cold": "file, cold", "warm": "file, warm"}


class Chain(Variant, label="{0.pipeline.key}"):
    """A pipeline with its runs, or with the reason why it could not run."""

    pipeline: Pipeline
    size_mb: int  #: data of each run
    runs: Sequence[ChainResult] = column(show=len)
    #: share of the file in the page cache before each run, or empty without a file
    cached_share: Sequence[float] = column(
        show=lambda shares: statistics.median(shares) if shares else None
    )

    shown = computed(lambda chain: chain.pipeline.shown, "pipeline")
    where = computed(
        lambda chain: "1 Gbit/s wire" if chain.pipeline.wire else "one machine",
        "where",
        is_setting=True,
    )
    input = computed(lambda chain: _INPUTS[chain.pipeline.cache], "input")

    @derived("MB/s", ".0f", show=lambda rates: statistics.median(rates) if rates else None)
    def mb_per_s(self) -> list[float]:
        return [run.mb_per_s for run in self.runs]

    @property
    def median_mb_per_s(self) -> float | None:
        return statistics.median(self.mb_per_s) if self.runs else None

    mb_per_s_min = computed(lambda chain: min(chain.mb_per_s, default=None), "min", ".0f")
    mb_per_s_max = computed(lambda chain: max(chain.mb_per_s, default=None), "max", ".0f")
    published_mb_per_s = computed(
        lambda chain: chain.pipeline.published_mb_per_s, "published", ".0f"
    )
    copies = computed(lambda chain: chain.pipeline.cost.copies, "copies", "d")
    processes = computed(lambda chain: chain.pipeline.cost.processes, "processes", "d")

    @derived("CPU s/GB", ".2f")
    def cpu_s_per_gb(self) -> float | None:
        if not self.runs:
            return None
        return statistics.median(run.cpu_s for run in self.runs) / self.size_mb * 1e3

    @derived("CPU per program (%)")
    def cpu_percent(self) -> str | None:
        return " + ".join(f"{share * 100:.0f}" for share in self.cpu_shares) or None

    #: reason why there are no runs, or empty
    missing: str = column("note", name="note", default="")

    @property
    def key(self) -> str:
        return self.pipeline.key

    @property
    def cpu_shares(self) -> list[float]:
        """The median share of a CPU that each program used; 1.0 is one whole CPU."""
        shares = ([process.cpu_s / run.wall_s for process in run.processes] for run in self.runs)
        return [statistics.median(program) for program in zip(*shares, strict=True)]

    @derived(show=lambda sizes: " · ".join(map(_bytes, sizes)) or None)
    def bytes_per_read(self) -> list[float | None]:
        """The median size of each program's reads, or None if /proc does not report it."""
        sizes = ([process.bytes_per_read for process in run.processes] for run in self.runs)
        known = [
            [size for size in program if size is not None] for program in zip(*sizes, strict=True)
        ]
        return [statistics.median(program) if program else None for program in known]


def _bytes(size: float | None) -> str:
    if size is None:
        return "–"
    return f"{size:.0f}" if size < 1000 else f"{size / 1024:.0f} KiB"


Pipes: TypeAlias = Result[Chain]
