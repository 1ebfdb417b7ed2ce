"""What a measurement of pipelines needs: networks, a file, and the programs of the system."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from tcplab.experiments import provenance
from tcplab.experiments.files import can_be_cold, file_of
from tcplab.experiments.lab_loopback import LabLoopback, open_loopback, pin_default_congestion
from tcplab.experiments.mode import mode
from tcplab.experiments.pipes.pipelines import Pipeline
from tcplab.experiments.pipes.result import Chain
from tcplab.experiments.pipes.tools import Tools
from tcplab.lab import Lab, Loopback, Network
from tcplab.programs import ChainResult, page_cache, pipe_chain

RATE_MBIT: Final = 1000.0  # of the published network
# The laboratory's wire drops what its queue cannot hold; a network card makes its host wait.
# Nothing is dropped when all that a send buffer can hold (4 MB, 2900 packets) fits.
QUEUE_PACKETS: Final = 10_000
PORT: Final = 5001  # as published
TIMEOUT_S: Final = 600.0


class Run(NamedTuple):
    """The result of one run, and the share of its file that was in the page cache before."""

    result: ChainResult
    cached_share: float | None


class Bench:
    """The networks, the file and the programs that the pipelines need, as long as it is open."""

    def __init__(self, pipelines: Sequence[Pipeline], size_mb: int, wire_size_mb: int) -> None:
        self._pipelines = pipelines
        self._size_mb = size_mb
        self._wire_size_mb = wire_size_mb
        self._tools = Tools()
        self._file: Path | None = None
        self._wire: Lab | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._here = stack.enter_context(open_loopback())
            if any(pipeline.wire for pipeline in self._pipelines) and mode() == "live":
                self._wire = stack.enter_context(_wire())
            if any(pipeline.cache != "made" for pipeline in self._pipelines):
                self._file = stack.enter_context(file_of(self._size_mb * 1_000_000))
            self._missing = {pipeline.key: self._why_not(pipeline) for pipeline in self._pipelines}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def possible(self) -> list[Pipeline]:
        """Those that can be measured here."""
        return [pipeline for pipeline in self._pipelines if not self._missing[pipeline.key]]

    def run(self, pipeline: Pipeline) -> Run:
        """Measures a pipeline once."""
        network = self._wire if pipeline.wire and self._wire else self._here
        share, source = None, None
        if pipeline.cache != "made" and self._file is not None:
            source, share = self._file, page_cache(network, self._file, pipeline.cache)
        size_mb = self._size_of(pipeline)
        result = pipe_chain(
            network,
            [self._tools.words(words, size_mb) for words in pipeline.sending],
            [self._tools.words(words, size_mb) for words in pipeline.receiving],
            bytes_expected=size_mb * 1_000_000,
            source=source,
            port=_free_port(network),
            timeout_s=TIMEOUT_S,
        )
        return Run(result, share)

    def chain(self, pipeline: Pipeline, runs: Sequence[Run]) -> Chain:
        """The runs of a pipeline, or why there are none."""
        shares = [each.cached_share for each in runs if each.cached_share is not None]
        results = [each.result for each in runs]
        return Chain(
            pipeline, self._size_of(pipeline), results, shares, self._missing[pipeline.key]
        )

    def provenance(self, **details: Any) -> dict[str, Any]:
        """Of a result that was measured here."""
        return provenance(
            self._here,
            congestion=self._here.congestion,
            wire=dict(self._wire.link.parameters) if self._wire else None,
            programs=self._tools.versions(),
            **details,
        )

    def _size_of(self, pipeline: Pipeline) -> int:
        return self._wire_size_mb if pipeline.wire else self._size_mb

    def _why_not(self, pipeline: Pipeline) -> str:
        if lacking := self._tools.lacking(pipeline):
            return lacking
        if pipeline.wire and self._wire is None:
            return "needs a wire: not possible on plain loopback"
        if pipeline.cache == "cold" and not (self._file and can_be_cold(self._file)):
            return "no disk: the file lies on a tmpfs, always in memory; set TMPDIR"
        return ""


def _wire() -> Lab:
    lab = Lab(rate_mbit=RATE_MBIT, queue_packets=QUEUE_PACKETS)
    pin_default_congestion(lab.client, lab.server)
    return lab


def _free_port(network: Network) -> int:
    """The published port in a laboratory, where nobody else has one; else one that is free."""
    if not isinstance(network, Loopback) or isinstance(network, LabLoopback):
        return PORT
    with network.server.socket() as probe:
        probe.bind((network.server.address, 0))
        return int(probe.getsockname()[1])
