"""Pipes and copies: how fast `dd | nc` and `nc < file` are, and how often each byte is copied.

The experiment of Chen Shuo, "Network programming in practice", lesson 2: nc sends to a second nc,
over a wire of 1 Gbit/s and on one machine, fed by dd, by a file from the disk and by the same file
from memory. The text explains the ratios of its rates by counting copies; here the copies stand
beside the rates (tcplab.models.chain_cost), and with them what the text asks the reader to look up
in top: how much of a CPU each process took.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from tcplab import checks
from tcplab.experiments import Between, experiment
from tcplab.experiments.pipes.bench import Bench
from tcplab.experiments.pipes.pipelines import (
    COMPOSED,
    PIPELINES,
    RECEIVERS,
    SENDERS,
    SOURCES,
    Pipeline,
    compose,
)
from tcplab.experiments.pipes.result import Chain, Pipes
from tcplab.experiments.progress import in_rounds

__all__ = [
    "COMPOSED",
    "PIPELINES",
    "RECEIVERS",
    "SENDERS",
    "SOURCES",
    "Chain",
    "Pipeline",
    "Pipes",
    "compose",
    "measure",
]


def _pipeline(variant: str | Pipeline) -> Pipeline:
    if isinstance(variant, Pipeline):
        return variant
    return PIPELINES[checks.choice("variants", variant, PIPELINES)]


@experiment(
    "pipes", on_loopback=lambda variants, **_: not all(_pipeline(each).wire for each in variants)
)
def measure(
    variants: Sequence[str | Pipeline] = tuple(PIPELINES),
    runs: Annotated[int, Between(1, 1000)] = 5,
    size_mb: Annotated[int, Between(1, 20_000, "MB")] = 256,
    wire_size_mb: Annotated[int, Between(1, 20_000, "MB")] = 100,
) -> Pipes:
    """Throughput of `dd | nc`, `nc < file` and their relatives, beside the copies of each byte.

    The rounds alternate, so that what disturbs the machine for a second disturbs all variants
    alike. A variant whose programs are missing here, or that needs a wire where only plain loopback
    is possible, stays in the result with the reason.

    Args:
        variants: names of pipelines; Python also takes those of compose().
        runs: rounds of all variants.
        size_mb: data sent in each run within one machine.
        wire_size_mb: data sent in each run over the wire of 1 Gbit/s.
    """
    pipelines = [_pipeline(each) for each in variants]
    with Bench(pipelines, size_mb, wire_size_mb) as bench:
        results, done = in_rounds("pipes", runs, bench.possible, bench.run)
        chains = [bench.chain(each, results.get(each, [])) for each in pipelines]
        return Pipes(chains, bench.provenance(**done))
