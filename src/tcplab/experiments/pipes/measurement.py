"""Measure pipelines of dd, nc, pv and similar programs, in rounds."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from tcplab import checks, machine
from tcplab.experiments import (
    Between,
    Result,
    Variant,
    column,
    computed,
    derived,
    experiment,
    provenance,
)
from tcplab.experiments.files import NO_DISK, can_be_cold, file_of
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.mode import mode
from tcplab.experiments.parameters import Runs
from tcplab.experiments.pipes.pipelines import PIPELINES, Pipeline, Words
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Lab, Network
from tcplab.programs import ChainResult, page_cache, pipe_chain

RATE_MBIT: Final = 1000.0  # rate of the published network
# A network card makes its host wait, whereas the laboratory's link drops what its queue cannot
# hold. This queue has room for a whole send buffer (4 MB, 2900 packets).
QUEUE_PACKETS: Final = 10_000
TIMEOUT_S: Final = 600.0


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


def _pipeline(variant: str | Pipeline) -> Pipeline:
    if isinstance(variant, Pipeline):
        return variant
    return PIPELINES[checks.choice("variants", variant, PIPELINES)]


@experiment(
    "pipes",
    on_loopback=lambda variants, **_: not all(_pipeline(variant).wire for variant in variants),
    figure=lambda figures, result: figures.pipe_rates(result),
)
def measure(
    variants: Sequence[str | Pipeline] = tuple(PIPELINES),
    runs: Runs = 5,
    size_mb: Annotated[int, Between(1, 20_000, "MB"), "data of each run within one machine"] = 256,
    wire_size_mb: Annotated[int, Between(1, 20_000, "MB")] = 100,
) -> Pipes:
    """Measure the throughput of pipelines such as `dd | nc` or `nc < file`, and count their copies.

    If a variant cannot run here, the result gives the reason, such as a missing program.

    Args:
        variants: names of pipelines; in Python, also Pipeline objects, such as from compose()
        wire_size_mb: data of each run over the 1 Gbit/s link
    """
    sizes_mb = {_pipeline(variant): size_mb for variant in variants}
    sizes_mb |= {pipeline: wire_size_mb for pipeline in sizes_mb if pipeline.wire}
    nc = _openbsd_nc()
    with ExitStack() as stack:
        networks: dict[bool, Network] = {False: stack.enter_context(open_loopback())}
        wire = None
        if any(pipeline.wire for pipeline in sizes_mb) and mode() == "live":
            wire = networks[True] = stack.enter_context(
                Lab(rate_mbit=RATE_MBIT, queue_packets=QUEUE_PACKETS)
            )
        file = None
        if any(pipeline.cache != "made" for pipeline in sizes_mb):
            file = stack.enter_context(file_of(size_mb * 1_000_000))
        missing = {
            pipeline: _lacking(pipeline, nc) or _why_not(pipeline, networks, file)
            for pipeline in sizes_mb
        }
        results, done = in_rounds(
            "pipes",
            runs,
            [pipeline for pipeline in sizes_mb if not missing[pipeline]],
            lambda pipeline: _run(networks[pipeline.wire], nc, pipeline, sizes_mb[pipeline], file),
        )
        chains = []
        for pipeline, size in sizes_mb.items():
            measured = results.get(pipeline, [])
            shares = [share for _result, share in measured if share is not None]
            done_runs = [result for result, _share in measured]
            chains.append(Chain(pipeline, size, done_runs, shares, missing[pipeline]))
        link = dict(wire.link.parameters) if wire else None
        return Pipes(chains, provenance(networks[False], wire=link, **done))


def _openbsd_nc() -> str:
    """Return the name of OpenBSD's netcat, which Chen Shuo uses, or "" if it is not installed."""
    if machine.find("nc.openbsd"):
        return "nc.openbsd"
    if not machine.find("nc"):
        return ""
    manual = subprocess.run(["nc", "-h"], capture_output=True, text=True, check=False)
    return "nc" if "OpenBSD" in manual.stdout + manual.stderr else ""


def _lacking(pipeline: Pipeline, nc: str) -> str:
    if "nc" in pipeline.commands and not nc:
        return machine.lacking("nc") or machine.lacking("nc.openbsd")
    return machine.lacking(*pipeline.commands)


def _filled(words: Words, nc: str, size_mb: int) -> list[str]:
    first = nc if words[0] == "nc" and nc else words[0]
    return [first, *(word.replace("{size}", str(size_mb)) for word in words[1:])]


def _why_not(pipeline: Pipeline, networks: Mapping[bool, Network], file: Path | None) -> str:
    if pipeline.wire not in networks:
        return "needs a wire: not possible on plain loopback"
    if pipeline.cache == "cold" and not (file and can_be_cold(file)):
        return NO_DISK
    return ""


def _run(
    network: Network, nc: str, pipeline: Pipeline, size_mb: int, file: Path | None
) -> tuple[ChainResult, float | None]:
    source, share = None, None
    if pipeline.cache != "made" and file is not None:
        source, share = file, page_cache(network, file, pipeline.cache)
    result = pipe_chain(
        network,
        [_filled(words, nc, size_mb) for words in pipeline.sending],
        [_filled(words, nc, size_mb) for words in pipeline.receiving],
        bytes_expected=size_mb * 1_000_000,
        source=source,
        timeout_s=TIMEOUT_S,
    )
    return result, share
