"""Define plans for sending a file, the cost of a transfer, and the result of the experiments."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tcplab.experiments import Result, Variant, column, computed, derived
from tcplab.experiments.quantities import Derived
from tcplab.programs import SendMethod

_READ_BYTES: Final = 4096  # size of read() in the published method A


#: Published (fastest, slowest) time in s, by (letter of the method, size in MB).
PUBLISHED_S: Final[Mapping[tuple[str, int], tuple[float, float]]] = {
    ("A", 9): (0.71, 0.76),
    ("A", 32): (2.64, 2.68),
    ("A", 64): (5.36, 5.43),
    ("B", 9): (0.71, 1.08),
    ("B", 32): (2.66, 2.74),
    ("B", 64): (5.43, 6.64),
    ("C", 9): (0.72, 0.75),
    ("C", 32): (2.66, 2.68),
    ("C", 64): (5.38, 5.60),
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
    def shown(self) -> str:
        return f"{self.name}, {self.special}" if self.special else self.name

    @property
    def published_s(self) -> tuple[float, float] | None:
        """The published (fastest, slowest) time in s; the published receiver wrote to its disk."""
        return PUBLISHED_S.get((self.name[0], round(self.file_mb))) if self.into_file else None


def published_plans(file_bytes: int, into_file: bool = False) -> list[Plan]:
    """Return plans for the published methods A, B and C. Method C never clears its cork."""
    return [
        Plan("A: read 4096 + send", "read", file_bytes, _READ_BYTES, into_file=into_file),
        Plan("B: sendfile", "sendfile", file_bytes, into_file=into_file),
        Plan("C: cork, sendfile", "sendfile", file_bytes, leave_corked=True, into_file=into_file),
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
    """The cost of one transfer."""

    wall_s: float  #: time until the receiver had read everything
    mb_per_s: float
    cpu_s_per_gb: float  #: CPU time of the sender
    receiver_cpu_s_per_gb: float
    system_calls: int  #: number of the sender's system calls
    zerocopy_sends: int = 0
    zerocopy_copied: int = 0  #: number of MSG_ZEROCOPY sends that the kernel copied


def _median(name: str, heading: str, format: str) -> Derived[float]:  # noqa: A002
    def median(transfer: Transfer) -> float:
        value: float = statistics.median(getattr(cost, name) for cost in transfer.costs)
        return round(value) if format.endswith("d") else value

    return computed(median, heading, format)


class Transfer(Variant, label="{0.plan.shown}", heading="method"):
    """A plan with the costs of its runs. Most quantities are medians over the runs."""

    plan: Plan
    costs: Sequence[Cost] = column(name="runs", show=len)

    @property
    def key(self) -> tuple[str, float]:
        return self.plan.shown, self.plan.file_mb

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

    @derived("copied after all")
    def copied_after_all(self) -> str:
        """The copied MSG_ZEROCOPY sends in the last run, such as "5 of 5", or ""."""
        last = self.costs[-1]
        return f"{last.zerocopy_copied} of {last.zerocopy_sends}" if last.zerocopy_sends else ""


class SendFiles(Result[Transfer]):
    """The transfers of one experiment. The key is (Plan.shown, size in MB)."""

    def find(self, name: str, file_mb: float | None = None) -> Transfer:
        """Return the first transfer with this name (and size, if given), or raise KeyError."""
        for transfer in self.variants:
            if transfer.plan.name == name and file_mb in (None, transfer.plan.file_mb):
                return transfer
        raise KeyError(f"{name} with {file_mb} MB was not measured")

    def of(self, file_mb: float) -> SendFiles:
        """Return the transfers of one size."""
        chosen = [transfer for transfer in self.variants if transfer.plan.file_mb == file_mb]
        return replace(self, variants=chosen)
