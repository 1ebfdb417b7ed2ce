"""Define plans for sending a file, the cost of a transfer, and the result of the experiments."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tcplab.experiments import Result, Variant, column, computed, derived
from tcplab.experiments.quantities import Derived
from tcplab.programs import CacheState, HeaderOptions, SendMethod
from tcplab.tables import Column

_NO_HEADER: Final = HeaderOptions()
_READ_BYTES: Final = 4096  # size of read() in the published method A


@dataclass(frozen=True, slots=True)
class Plan:
    """A file to send, and the way to send it."""

    name: str
    method: SendMethod
    file_bytes: int
    block_bytes: int | None = None  #: maximum bytes per call; None for the method's default
    header: HeaderOptions = _NO_HEADER  #: header before the file, and the socket options for both
    connections: int = 1  #: number of clients that get the file at the same time
    cache: CacheState = "warm"
    special: str = ""  #: difference from other plans of the same name, such as "4 clients"
    into_file: bool = False  #: True if the receiver writes to its disk instead of /dev/null

    @property
    def file_mb(self) -> float:
        return self.file_bytes / 1e6

    @property
    def shown(self) -> str:
        return f"{self.name}, {self.special}" if self.special else self.name


def published_plans(file_bytes: int, into_file: bool = False) -> list[Plan]:
    """Return plans for the published methods A, B and C. Method C never clears its cork."""
    cork = HeaderOptions(leave_corked=True)
    return [
        Plan("A: read 4096 + send", "read", file_bytes, _READ_BYTES, into_file=into_file),
        Plan("B: sendfile", "sendfile", file_bytes, into_file=into_file),
        Plan("C: cork, sendfile", "sendfile", file_bytes, header=cork, into_file=into_file),
    ]


def read_plans(file_bytes: int, block_bytes: Iterable[int]) -> list[Plan]:
    """Return plans for method A with block sizes other than the published 4096 bytes."""
    return [
        Plan(f"read {size} + send", "read", file_bytes, size)
        for size in block_bytes
        if size != _READ_BYTES
    ]


def other_plans(file_bytes: int) -> list[Plan]:
    """Return plans for the methods that the ChinaUnix author did not try."""
    return [
        Plan("mmap + send", "mmap", file_bytes),
        Plan("splice", "splice", file_bytes),
        Plan("MSG_ZEROCOPY", "zerocopy", file_bytes),
    ]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one transfer. Calls, switches and faults are those of the sender."""

    bytes: int  #: payload of all connections, including the headers before the file
    wall_s: float  #: time until the receiver had read everything
    mb_per_s: float
    cpu_s_per_gb: float  #: CPU time of the sender
    receiver_cpu_s_per_gb: float
    system_calls: int
    switches: int  #: context switches
    page_faults: int
    zerocopy_sends: int = 0
    zerocopy_copied: int = 0  #: number of MSG_ZEROCOPY sends that the kernel copied
    segments: Sequence[int] = ()  #: payload of each data segment, if recorded


def _median(name: str, heading: str, format: str) -> Derived[float | None]:  # noqa: A002
    return computed(lambda transfer: transfer.median(name), heading, format)


class Transfer(Variant, label="{0.plan.shown}", heading="method"):
    """A plan with the costs of its runs, if any. Most quantities are medians over the runs."""

    plan: Plan
    costs: Sequence[Cost] = column(name="runs", show=len)

    @property
    def key(self) -> tuple[str, float]:
        return self.plan.shown, self.plan.file_mb

    @property
    def wall_s(self) -> float | None:
        return self.median("wall_s")

    def median(self, name: str) -> float | None:
        """Return the median over the runs of a field of Cost, or None without runs."""
        return statistics.median(getattr(cost, name) for cost in self.costs) if self.costs else None

    @property
    def ends_s(self) -> tuple[float | None, float | None]:
        times = [cost.wall_s for cost in self.costs]
        return min(times, default=None), max(times, default=None)

    method = computed(lambda transfer: transfer.plan.method)
    file_mb = computed(lambda transfer: transfer.plan.file_mb, "file (MB)", "g", is_setting=True)
    block_bytes = computed(lambda transfer: transfer.plan.block_bytes)
    connections = computed(lambda transfer: transfer.plan.connections)
    cache = computed(lambda transfer: transfer.plan.cache)
    seconds = _median("wall_s", "seconds", ".3f")
    seconds_min = computed(lambda transfer: transfer.ends_s[0], "fastest", ".3f")
    seconds_max = computed(lambda transfer: transfer.ends_s[1], "slowest", ".3f")
    mb_per_s = _median("mb_per_s", "MB/s", ".0f")
    cpu_s_per_gb = _median("cpu_s_per_gb", "sender's CPU s/GB", ".3f")
    receiver_cpu_s_per_gb = _median("receiver_cpu_s_per_gb", "receiver's CPU s/GB", ".3f")

    @derived("system calls", ",d")
    def system_calls(self) -> int | None:
        calls = self.median("system_calls")
        return None if calls is None else round(calls)

    switches = computed(lambda transfer: transfer.median("switches"))
    page_faults = _median("page_faults", "page faults", ".0f")

    @derived("copied after all")
    def copied_after_all(self) -> str | None:
        """Copied MSG_ZEROCOPY sends in the last run, such as "5 of 5", or None without sends."""
        last = self.costs[-1] if self.costs else None
        if last is None or not last.zerocopy_sends:
            return None
        return f"{last.zerocopy_copied} of {last.zerocopy_sends}"

    #: reason why there are no costs, or empty
    missing: str = column("note", name="note", default="")

    @property
    def segments(self) -> Sequence[int]:
        return self.costs[-1].segments if self.costs else ()


TIME: Final = "variant file_mb seconds"
WORK: Final = "cpu_s_per_gb receiver_cpu_s_per_gb system_calls"


class SendFiles(Result[Transfer]):
    """The transfers of one experiment. The key is (Plan.shown, size in MB)."""

    shown: ClassVar[str] = f"{TIME} mb_per_s {WORK} note"  #: keys of the columns, in order
    further: ClassVar[Sequence[Column]] = ()  #: columns beyond those of Transfer

    @property
    def columns(self) -> Sequence[Column]:
        known = {column.key: column for column in (*Transfer.columns, *self.further)}
        return [known[key] for key in self.shown.split()]

    def find(self, name: str, file_mb: float | None = None) -> Transfer:
        """Return the first transfer with this name (and size, if given), or raise KeyError."""
        for transfer in self.variants:
            if transfer.plan.name == name and file_mb in (None, transfer.plan.file_mb):
                return transfer
        raise KeyError(f"{name} with {file_mb} MB was not measured")
