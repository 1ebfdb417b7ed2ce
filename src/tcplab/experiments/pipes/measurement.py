"""The experiment with pipelines: its networks, its file, and the programs of the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

from tcplab import checks
from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.files import NO_DISK, can_be_cold, file_of
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.mode import mode
from tcplab.experiments.pipes.pipelines import PIPELINES, Pipeline
from tcplab.experiments.pipes.result import Chain, Pipes
from tcplab.experiments.pipes.tools import Tools
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Lab, Network
from tcplab.programs import ChainResult, page_cache, pipe_chain

RATE_MBIT: Final = 1000.0  # of the published network
# The laboratory's wire drops what its queue cannot hold; a network card makes its host wait.
# Nothing is dropped when all that a send buffer can hold (4 MB, 2900 packets) fits.
QUEUE_PACKETS: Final = 10_000
TIMEOUT_S: Final = 600.0


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
    sizes_mb = {_pipeline(each): size_mb for each in variants}
    sizes_mb |= {pipeline: wire_size_mb for pipeline in sizes_mb if pipeline.wire}
    tools = Tools()
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
        missing = {each: tools.lacking(each) or _why_not(each, networks, file) for each in sizes_mb}
        results, done = in_rounds(
            "pipes",
            runs,
            [pipeline for pipeline in sizes_mb if not missing[pipeline]],
            lambda each: _run(networks[each.wire], tools, each, sizes_mb[each], file),
        )
        chains = []
        for pipeline, size in sizes_mb.items():
            found = results.get(pipeline, [])
            shares = [share for _, share in found if share is not None]
            found_runs = [result for result, _ in found]
            chains.append(Chain(pipeline, size, found_runs, shares, missing[pipeline]))
        link = dict(wire.link.parameters) if wire else None
        programs = tools.versions()
        return Pipes(chains, provenance(networks[False], wire=link, programs=programs, **done))


def _why_not(pipeline: Pipeline, networks: Mapping[bool, Network], file: Path | None) -> str:
    """Why a pipeline cannot be measured here; empty when it can."""
    if pipeline.wire not in networks:
        return "needs a wire: not possible on plain loopback"
    if pipeline.cache == "cold" and not (file and can_be_cold(file)):
        return NO_DISK
    return ""


def _run(
    network: Network, tools: Tools, pipeline: Pipeline, size_mb: int, file: Path | None
) -> tuple[ChainResult, float | None]:
    """One run, and the share of its file that was in the page cache before."""
    source, share = None, None
    if pipeline.cache != "made" and file is not None:
        source, share = file, page_cache(network, file, pipeline.cache)
    result = pipe_chain(
        network,
        [tools.words(words, size_mb) for words in pipeline.sending],
        [tools.words(words, size_mb) for words in pipeline.receiving],
        bytes_expected=size_mb * 1_000_000,
        source=source,
        timeout_s=TIMEOUT_S,
    )
    return result, share
