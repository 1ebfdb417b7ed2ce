"""Compare read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by time and CPU time.

The author of a ChinaUnix blog entry (2006) replaced read() and send() by sendfile() for files of 9,
32 and 64 MB, and then tried TCP_CORK. He measured no difference, because his network was the limit
and a clock does not show CPU time. He asked whether many clients or little memory would show one.
:func:`measure_wire` repeats his measurement, and the other functions answer his questions.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.exchange import payload_sizes, segments_of
from tcplab.experiments.files import file_of
from tcplab.experiments.mode import open_loopback
from tcplab.experiments.parameters import Runs, SizeMb
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import Derived, Variant, column, computed, derived
from tcplab.lab import Lab, Network
from tcplab.programs import HeaderOptions, send_file
from tcplab.programs.file import SendMethod
from tcplab.tables import run_lengths

__all__ = ["SendFiles", "measure", "measure_clients", "measure_header", "measure_wire"]
__dir__ = __all__.copy


_SIZES_MB: Final = (9, 32, 64)
_READ_BYTES: Final = 4096  # size of read() in the published method A


#: Published (fastest, slowest) time in s, by the letter of the method and the size in MB.
PUBLISHED_S: Final[Mapping[str, Mapping[int, tuple[float, float]]]] = {
    "A": {9: (0.71, 0.76), 32: (2.64, 2.68), 64: (5.36, 5.43)},
    "B": {9: (0.71, 1.08), 32: (2.66, 2.74), 64: (5.43, 6.64)},
    "C": {9: (0.72, 0.75), 32: (2.66, 2.68), 64: (5.38, 5.60)},
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A file to send, and the way to send it."""

    name: str
    method: SendMethod
    file_bytes: int
    block_bytes: int | None = None  #: maximum bytes per call; None for the method's default
    leave_corked: bool = False  #: True if the socket is corked, and the cork never cleared
    connections: int = 1  #: number of clients that get the file at the same time
    special: str = ""  #: difference from other plans of the same name, such as "4 clients"
    into_file: bool = False  #: True if the receiver writes to its disk instead of /dev/null

    @property
    def file_mb(self) -> float:
        return self.file_bytes / 1e6

    @property
    def published_s(self) -> tuple[float, float] | None:
        """The published (fastest, slowest) time in s; the published receiver wrote to its disk."""
        times = PUBLISHED_S.get(self.name[0], {}) if self.into_file else {}
        return times.get(round(self.file_mb))


#: The published methods.
_PUBLISHED: Final = (
    Plan("A: read 4096 + send", "read", 0, _READ_BYTES),
    Plan("B: sendfile", "sendfile", 0),
    Plan("C: cork, sendfile", "sendfile", 0, leave_corked=True),
)
#: The methods that the ChinaUnix author did not try.
_OTHERS: Final = (
    Plan("mmap + send", "mmap", 0),
    Plan("splice", "splice", 0),
    Plan("MSG_ZEROCOPY", "zerocopy", 0),
)


def _read_plans(block_bytes: Iterable[int]) -> list[Plan]:
    """Return plans for method A with block sizes other than the published one."""
    sizes = [size for size in block_bytes if size != _READ_BYTES]
    return [Plan(f"read {size} + send", "read", 0, size) for size in sizes]


def _of_size(plans: Iterable[Plan], size_mb: int, **changes: Any) -> list[Plan]:
    return [replace(plan, file_bytes=size_mb * 1_000_000, **changes) for plan in plans]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one transfer."""

    wall_s: float  #: time until the receiver had read everything
    mb_per_s: float
    cpu_s_per_gb: float  #: CPU time of the sender
    receiver_cpu_s_per_gb: float
    system_calls: int  #: number of the sender's system calls


def _median(name: str, heading: str, format: str) -> Derived[float]:  # noqa: A002
    def median(transfer: SentFile) -> float:
        value: float = statistics.median(getattr(cost, name) for cost in transfer.costs)
        return round(value) if format.endswith("d") else value

    return computed(median, heading, format)


class SentFile(Variant, label="{0.key[0]}", heading="method"):
    """A plan with the costs of its runs. Most quantities are medians over the runs."""

    plan: Plan
    costs: Sequence[Cost] = column(name="runs", show=len)

    @property
    def key(self) -> tuple[str, float]:
        name, special = self.plan.name, self.plan.special
        return f"{name}, {special}" if special else name, self.plan.file_mb

    file_mb = computed(lambda transfer: transfer.plan.file_mb, "file (MB)", "g", is_setting=True)
    seconds = _median("wall_s", "seconds", ".3f")
    seconds_min = computed(lambda case: min(cost.wall_s for cost in case.costs), "fastest", ".3f")
    seconds_max = computed(lambda case: max(cost.wall_s for cost in case.costs), "slowest", ".3f")

    @derived("published (s)")
    def published_s(self) -> str:
        """The published times, or "", which hides the column if all cells are empty."""
        published = self.plan.published_s
        return "{:.2f}–{:.2f}".format(*published) if published else ""

    mb_per_s = _median("mb_per_s", "MB/s", ".0f")
    cpu_s_per_gb = _median("cpu_s_per_gb", "sender's CPU s/GB", ".3f")
    receiver_cpu_s_per_gb = _median("receiver_cpu_s_per_gb", "receiver's CPU s/GB", ".3f")
    system_calls = _median("system_calls", "system calls", ",d")


class SendFiles(Result[SentFile]):
    """The transfers of one experiment. The key is (name, size in MB)."""

    def find(self, name: str, file_mb: float | None = None) -> SentFile:
        """Return the first transfer with this name (and size, if given), or raise KeyError."""
        for transfer in self.variants:
            if transfer.plan.name == name and file_mb in (None, transfer.plan.file_mb):
                return transfer
        raise KeyError(f"{name} with {file_mb} MB was not measured")

    def of(self, file_mb: float) -> SendFiles:
        """Return the transfers of one size."""
        chosen = [transfer for transfer in self.variants if transfer.plan.file_mb == file_mb]
        return replace(self, variants=chosen)


# ---- measurements --------------------------------------------------------------------------------


def _send_all(
    plans: Sequence[Plan], runs: int, network: Network, *, beside: Sequence[Network] = ()
) -> SendFiles:
    """Send the file of every plan `runs` times, spread over `network` and those in `beside`."""
    with ExitStack() as stack:
        sizes = {plan.file_bytes for plan in plans}
        files = {size: stack.enter_context(file_of(size)) for size in sizes}
        places = [network, *beside]
        outputs = {place: stack.enter_context(file_of(0)) for place in places}
        threads = stack.enter_context(ThreadPoolExecutor(len(places)))

        def run(plan: Plan, place: Network) -> Cost:
            output = outputs[place] if plan.into_file else None
            return _send(place, plan, files[plan.file_bytes], output)

        batches = [tuple(plans[n : n + len(places)]) for n in range(0, len(plans), len(places))]
        results, done = in_rounds(
            runs, batches, lambda batch: list(threads.map(run, batch, places))
        )
    transfers = [
        SentFile(plan, costs)
        for batch, rounds in results.items()
        for plan, *costs in zip(batch, *rounds, strict=True)
    ]
    return SendFiles(transfers, provenance(network, **done))


def _send(network: Network, plan: Plan, path: Path, output: Path | None) -> Cost:
    result = send_file(
        network,
        path,
        method=plan.method,
        block_bytes=plan.block_bytes,
        connections=plan.connections,
        header=HeaderOptions(leave_corked=plan.leave_corked),
        output=output,
    )
    return Cost(
        wall_s=result.usage.wall_s,
        mb_per_s=result.mb_per_s,
        cpu_s_per_gb=result.cpu_s_per_gb,
        receiver_cpu_s_per_gb=result.receiver.usage.cpu_s / result.bytes * 1e9,
        system_calls=result.system_calls,
    )


@experiment(
    "sendfile",
    on_loopback=True,
    figure=("mb_per_s", "cpu_s_per_gb", "receiver_cpu_s_per_gb"),
    finding="Per GB, {cpu_s_per_gb.most} takes {cpu_s_per_gb.ratio} times the "
    "CPU time of {cpu_s_per_gb.least}",
)
def measure(
    sizes_mb: Annotated[Sequence[int], Between(1, 20_000, "MB")] = (9, 32, 64),
    block_bytes: Annotated[Sequence[int], Between(1, 1 << 24, "bytes")] = (1024, 4096, 8192),
    runs: Runs = 3,
) -> SendFiles:
    """Send a file within one machine by read and send, sendfile, splice, mmap and MSG_ZEROCOPY.

    Args:
        sizes_mb: sizes of the files; further methods and block sizes use only the largest
        block_bytes: block sizes of read(), in addition to 4096 and 131072
    """
    plans = [plan for size in sizes_mb for plan in _of_size(_PUBLISHED, size)]
    further = [*_read_plans(dict.fromkeys((*block_bytes, 131_072))), *_OTHERS]
    plans += _of_size(further, max(sizes_mb))
    with open_loopback() as network:
        return _send_all(plans, runs, network)


@experiment(
    "sendfile-clients",
    on_loopback=True,
    figure=("cpu_s_per_gb", "mb_per_s"),
    finding="Per GB, {cpu_s_per_gb.most} takes {cpu_s_per_gb.ratio} times the "
    "CPU time of {cpu_s_per_gb.least}",
)
def measure_clients(
    clients: Annotated[Sequence[int], Between(1, 256), "clients at the same time"] = (1, 4, 16, 64),
    size_mb: SizeMb = 9,
    runs: Runs = 3,
) -> SendFiles:
    """Send a file to one or more clients at the same time, for several numbers of clients."""
    plans = []
    for count in clients:
        special = f"{count} client{'s' * (count > 1)}"
        plans += _of_size(_PUBLISHED[:2], size_mb, connections=count, special=special)
    with open_loopback() as network:
        return _send_all(plans, runs, network)


# ---- 100 Mbit/s, as published --------------------------------------------------------------------


_RATE_MBIT: Final = 100.0
_SIDE_BY_SIDE: Final = 3  # transfers at the same time, such as methods A, B and C
_QUEUE_PACKETS: Final = 10_000  # more than a send buffer holds, so that no packet is dropped


@experiment(
    "sendfile-wire",
    figure=("seconds", "cpu_s_per_gb"),
    finding="In the same {seconds.same} s, {cpu_s_per_gb.most} takes "
    "{cpu_s_per_gb.ratio} times the CPU time of {cpu_s_per_gb.least}",
)
def measure_wire(
    sizes_mb: Annotated[Sequence[int], Between(1, 20_000, "MB"), "sizes of the files"] = _SIZES_MB,
    block_bytes: Annotated[Sequence[int], Between(1, 1 << 24, "bytes")] = (1024, 4096, 8192),
    runs: Runs = 3,
) -> SendFiles:
    """Send a file over 100 Mbit/s by read and send, by sendfile, and with a cork.

    The receiver writes the file to its disk, as in the blog, but to /dev/null in two more rows.
    Three transfers run at the same time, each over its own link.

    Args:
        block_bytes: block sizes of read(), for the smallest file
    """
    plans = [plan for size in sizes_mb for plan in _of_size(_PUBLISHED, size, into_file=True)]
    plans += _of_size(_PUBLISHED[:2], max(sizes_mb), special="to /dev/null")
    plans += _of_size(_read_plans(block_bytes), min(sizes_mb), into_file=True)
    with ExitStack() as stack:
        first, *others = (
            stack.enter_context(Lab(rate_mbit=_RATE_MBIT, queue_packets=_QUEUE_PACKETS))
            for _ in range(_SIDE_BY_SIDE)
        )
        return _send_all(plans, runs, first, beside=others)


# ---- a header before the file --------------------------------------------------------------------


_OPTIONS: Final[Mapping[str, HeaderOptions]] = {
    "default": HeaderOptions(100),
    "TCP_NODELAY": HeaderOptions(100, nodelay=True),
    "TCP_CORK": HeaderOptions(100, cork=True),
    "TCP_CORK, never cleared": HeaderOptions(100, leave_corked=True),
    "TCP_CORK and TCP_NODELAY": HeaderOptions(100, cork=True, nodelay=True),
    "MSG_MORE": HeaderOptions(100, more=True),
}


class WithHeader(Variant, heading="method"):
    """A header and a file that were sent with one socket option."""

    option: str
    ms: float = column("ms", ".1f")  #: median over the runs
    #: payloads in the last run
    segments: Sequence[int] = column("segment sizes (bytes)", show=run_lengths)


@experiment("sendfile-header", figure=("ms",), finding="Each option takes about {ms.same} ms")
def measure_header(runs: Runs = 3) -> Result[WithHeader]:
    """Send a 100-byte header before a file, with TCP_CORK, MSG_MORE and TCP_NODELAY."""
    with Lab(rtt_ms=20) as lab, file_of(10_000) as path:
        results, done = in_rounds(runs, list(_OPTIONS), lambda option: _sent(lab, path, option))
        variants = [
            WithHeader(option, statistics.median(ms for ms, _sizes in sent), sent[-1][1])
            for option, sent in results.items()
        ]
        return Result(variants, provenance(lab, **done))


def _sent(lab: Lab, path: Path, option: str) -> tuple[float, Sequence[int]]:
    with lab.client.capture() as capture:
        result = send_file(lab, path, method="sendfile", header=_OPTIONS[option])
    return 1e3 * result.usage.wall_s, payload_sizes(segments_of(capture))
