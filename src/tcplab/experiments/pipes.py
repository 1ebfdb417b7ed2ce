"""Measure the speed of `dd | nc`, `nc < file` and similar pipelines, and count their copies.

The experiment comes from Chen Shuo ("Network programming in practice"). One nc sends to another,
either over a 1 Gbit/s link or within one machine. The data comes from dd, from a file on disk, or
from a file in memory. The author explains the rates by counting copies (tcplab.models.chain_cost).
"""

import statistics
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from tcplab import checks, machine
from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.files import NO_DISK, can_be_cold, file_of
from tcplab.experiments.mode import mode, open_loopback
from tcplab.experiments.parameters import Runs
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import Variant, column, computed, derived
from tcplab.lab import Lab, Network
from tcplab.models import chain_cost
from tcplab.models.copies import ChainCost
from tcplab.programs import page_cache
from tcplab.programs.chain import ChainResult, pipe_chain

__all__ = [
    "COMPOSED",
    "PIPELINES",
    "RECEIVERS",
    "SENDERS",
    "SOURCES",
    "Chain",
    "Pipeline",
    "compose",
    "measure",
]
__dir__ = __all__.copy


Words = tuple[str, ...]  #: a command; "nc" is OpenBSD's netcat, which may have another name here

#: The key of the pipeline that :func:`compose` returns.
COMPOSED: Final = "composed"
BLOCK_BYTES: Final = (128, 16 << 20)  #: smallest and largest block size of dd


class _Part(NamedTuple):
    """A source, a sender or a receiver; pipes.toml explains its texts."""

    words: str = ""
    stage: str = ""
    shown: str = ""
    cache: Literal["made", "cold", "warm"] = "made"  #: state of a source's file
    listener: str = ""  #: the program that listens for a sender, unless a receiver replaces it
    is_listener: bool = False  #: True for a receiver that replaces the sender's listener


_DATA: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_SOURCES, _SENDERS, _RECEIVERS = (
    {name: _Part(**part) for name, part in _DATA[kind].items()}
    for kind in ("sources", "senders", "receivers")
)

#: The names of the parts that :func:`compose` accepts.
SOURCES: Final = ("zeros", "piped", "warm", "cold")
SENDERS: Final = ("nc", "netcat", "splice")
RECEIVERS: Final = ("null", "pv", "pv-copying", "dd", "discard")

# ---- pipelines -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A path of bytes through pipes and a TCP connection."""

    key: str  #: name of the pipeline in calls and on the command line
    source: str
    sender: str
    receiver: str
    block_bytes: int | None = None  #: dd's bs, or None for 1 MB (source) and 128 KiB (receiver)
    wire: bool = False  #: True for the link between two hosts, False for one machine
    published_mb_per_s: float | None = None

    @property
    def sending(self) -> list[Words]:
        first, sender = _SOURCES[self.source].words, _SENDERS[self.sender].words
        return [self._filled(words, "1MB") for words in (first, sender) if words]

    @property
    def receiving(self) -> list[Words]:
        receiver, listener = _RECEIVERS[self.receiver], _SENDERS[self.sender].listener
        programs = ("" if receiver.is_listener else listener, receiver.words)
        return [self._filled(words, "128K") for words in programs if words]

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the programs in tcplab.models.chain_cost."""
        source, sender = _SOURCES[self.source], _SENDERS[self.sender]
        receiver = _RECEIVERS[self.receiver]
        reads = " from pipe" if source.words else " < file" if source.cache != "made" else ""
        piped = "nc to pipe" if receiver.words and not receiver.is_listener else ""
        stages = (source.stage, sender.stage + reads, piped, receiver.stage)
        return tuple(filter(None, stages))

    @property
    def shown(self) -> str:
        sender, receiver = _SENDERS[self.sender], _RECEIVERS[self.receiver]
        block = f" bs={self.block_bytes}" if self.block_bytes else ""
        sends = _SOURCES[self.source].shown.format(sender.shown, bs=block)
        takes = receiver.shown.format(bs=block)
        return f"{sends} → {takes if receiver.is_listener else sender.listener.split()[0] + takes}"

    @property
    def cache(self) -> Literal["made", "cold", "warm"]:
        return _SOURCES[self.source].cache

    @property
    def name(self) -> str:
        return self.shown if self.cache == "made" else f"{self.shown}, {self.cache}"

    @property
    def cost(self) -> ChainCost:
        return chain_cost(*self.stages)

    @property
    def commands(self) -> list[str]:
        return [words[0] for words in (*self.sending, *self.receiving)]

    def _filled(self, words: str, usual: str) -> Words:
        return tuple(words.replace("{block}", str(self.block_bytes or usual)).split())


PIPELINES: Final = {entry["key"]: Pipeline(**entry) for entry in _DATA["pipelines"]}


def compose(
    source: str = "zeros",
    sender: str = "netcat",
    receiver: str = "null",
    *,
    block_bytes: int | None = None,
    wire: bool = False,
) -> Pipeline:
    """Compose a pipeline from its parts. Its key is COMPOSED.

    Args:
        source: "zeros" from dd, "piped" through dd from a file in memory, "warm" for a file in
            memory, "cold" for one on the disk only
        sender: "nc" (16 KiB at a time), "netcat" (128 KiB), "splice" (netcat --splice: no copy)
        receiver: "null" for /dev/null; "pv" (which splices), "pv-copying" or "dd" for a pipe to
            that program; "discard" to discard the data in the kernel
        block_bytes: block size of each dd, 128 bytes to 16 MiB; None for the default (see Pipeline)
        wire: use the link between two hosts instead of one machine
    """
    known = {"source": SOURCES, "sender": SENDERS, "receiver": RECEIVERS}
    for name, value in zip(known, (source, sender, receiver), strict=True):
        checks.choice(name, value, known[name])
    if block_bytes is not None:
        checks.whole("block_bytes", block_bytes, *BLOCK_BYTES)
    pipeline = Pipeline(COMPOSED, source, sender, receiver, block_bytes, wire)
    return pipeline if "dd" in pipeline.commands else replace(pipeline, block_bytes=None)


# ---- measurement ---------------------------------------------------------------------------------


RATE_MBIT: Final = 1000.0  # rate of the published network
# A network card makes its host wait, whereas the laboratory's link drops what its queue cannot
# hold. This queue has room for a whole send buffer (4 MB, 2900 packets).
QUEUE_PACKETS: Final = 10_000
TIMEOUT_S: Final = 600.0


class Chain(Variant, label="{0.pipeline.key}"):
    """A pipeline with its runs, or with the reason why it could not run."""

    pipeline: Pipeline
    size_mb: int  #: data of each run
    runs: Sequence[ChainResult] = column(show=len)
    #: share of the file in the page cache before each run, or empty without a file
    cached_share: Sequence[float]
    shown = computed(lambda chain: chain.pipeline.name, "pipeline")
    where = computed(
        lambda chain: "1 Gbit/s link" if chain.pipeline.wire else "one machine",
        "where",
        is_setting=True,
    )

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

    @derived("CPUs busy", ".1f")
    def busy_cpus(self) -> float | None:
        return sum(self.cpu_shares) or None

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

    @property
    def bytes_per_read(self) -> list[float | None]:
        """The median size of each program's reads, or None if /proc does not report it."""
        sizes = ([process.bytes_per_read for process in run.processes] for run in self.runs)
        known = [
            [size for size in program if size is not None] for program in zip(*sizes, strict=True)
        ]
        return [statistics.median(program) if program else None for program in known]


def _pipeline(variant: str | Pipeline) -> Pipeline:
    if isinstance(variant, Pipeline):
        return variant
    return PIPELINES[checks.choice("variants", variant, PIPELINES)]


@experiment(
    "pipes",
    on_loopback=lambda variants, **_: not all(_pipeline(variant).wire for variant in variants),
    figure=("mb_per_s", "copies"),
    finding="{most} is {ratio} times as fast as {least}",
)
def measure(
    variants: Sequence[str | Pipeline] = tuple(PIPELINES),
    runs: Runs = 5,
    size_mb: Annotated[int, Between(1, 20_000, "MB"), "data of each run within one machine"] = 256,
    wire_size_mb: Annotated[int, Between(1, 20_000, "MB")] = 100,
) -> Result[Chain]:
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
        if any(pipeline.wire for pipeline in sizes_mb) and mode() == "live":
            lab = Lab(rate_mbit=RATE_MBIT, queue_packets=QUEUE_PACKETS)
            networks[True] = stack.enter_context(lab)
        file = None
        if any(pipeline.cache != "made" for pipeline in sizes_mb):
            file = stack.enter_context(file_of(size_mb * 1_000_000))
        missing = {pipeline: _missing(pipeline, nc, networks, file) for pipeline in sizes_mb}
        results, done = in_rounds(
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
        return Result(chains, provenance(networks[False], wire_mbit=RATE_MBIT, **done))


def _openbsd_nc() -> str:
    """Return the name of OpenBSD's netcat, which Chen Shuo uses, or "" if it is not installed."""
    if machine.find("nc.openbsd"):
        return "nc.openbsd"
    if not machine.find("nc"):
        return ""
    manual = subprocess.run(["nc", "-h"], capture_output=True, text=True, check=False)
    return "nc" if "OpenBSD" in manual.stdout + manual.stderr else ""


def _filled(words: Words, nc: str, size_mb: int) -> list[str]:
    first = nc if words[0] == "nc" and nc else words[0]
    return [first, *(word.replace("{size}", str(size_mb)) for word in words[1:])]


def _missing(
    pipeline: Pipeline, nc: str, networks: Mapping[bool, Network], file: Path | None
) -> str:
    if "nc" in pipeline.commands and not nc:
        return machine.lacking("nc") or machine.lacking("nc.openbsd")
    if lacking := machine.lacking(*pipeline.commands):
        return lacking
    if pipeline.wire not in networks:
        return "needs a link: not possible on plain loopback"
    if pipeline.cache == "cold" and not (file and can_be_cold(file)):
        return NO_DISK
    return ""


def _run(
    network: Network, nc: str, pipeline: Pipeline, size_mb: int, file: Path | None
) -> tuple[ChainResult, float | None]:
    """Run a pipeline; return its result, and the share of its file in the page cache before."""
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
