"""Transfers of a file: their plans and cost, and the result of all experiments with sendfile."""

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
_READ_BYTES: Final = 4096  # of the published method A


@dataclass(frozen=True, slots=True)
class Plan:
    """A file to be sent, and the method."""

    name: str  #: Of the method
    method: SendMethod  #: How the bytes get to the socket
    file_bytes: int  #: Size of the file
    block_bytes: int | None = None  #: The most that a call takes; None for the method's usual
    header: HeaderOptions = _NO_HEADER  #: Before the file, and the options of the socket
    connections: int = 1  #: Clients that get the file at the same time
    cache: CacheState = "warm"
    special: str = ""  #: What else tells it from other plans of the name: "cold", "4 clients"
    into_file: bool = False  #: The receiver writes to its disk, and not to /dev/null

    @property
    def file_mb(self) -> float:
        """Size of the file in 10^6 bytes."""
        return self.file_bytes / 1e6

    @property
    def shown(self) -> str:
        """The name with what else is special."""
        return f"{self.name}, {self.special}" if self.special else self.name


def published_plans(file_bytes: int, into_file: bool = False) -> list[Plan]:
    """The published methods A, B and C for a file; C never clears its cork."""
    cork = HeaderOptions(leave_corked=True)
    return [
        Plan("A: read 4096 + send", "read", file_bytes, _READ_BYTES, into_file=into_file),
        Plan("B: sendfile", "sendfile", file_bytes, into_file=into_file),
        Plan("C: cork, sendfile", "sendfile", file_bytes, header=cork, into_file=into_file),
    ]


def read_plans(file_bytes: int, block_bytes: Iterable[int]) -> list[Plan]:
    """Method A with blocks of other sizes than the published 4096 bytes."""
    return [
        Plan(f"read {size} + send", "read", file_bytes, size)
        for size in block_bytes
        if size != _READ_BYTES
    ]


def other_plans(file_bytes: int) -> list[Plan]:
    """The methods that the published author did not try."""
    return [
        Plan("mmap + send", "mmap", file_bytes),
        Plan("splice", "splice", file_bytes),
        Plan("MSG_ZEROCOPY", "zerocopy", file_bytes),
    ]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one transfer; calls, switches and faults are the sender's."""

    bytes: int  #: Sent over all connections, headers included
    wall_s: float  #: From the first call until the receiver had read everything
    mb_per_s: float  #: Bytes over wall time, in 10^6 bytes/s
    cpu_s_per_gb: float  #: CPU time of the sender for 10^9 bytes, user and system
    receiver_cpu_s_per_gb: float
    system_calls: int
    switches: int  #: Context switches, voluntary and not
    page_faults: int
    zerocopy_sends: int = 0  #: Sends with MSG_ZEROCOPY
    zerocopy_copied: int = 0  #: Of those, which the kernel copied after all
    #: Payload bytes of the data segments in the order in which they left the client; empty where
    #: nothing was recorded
    segments: Sequence[int] = ()


def _median(name: str, heading: str, format: str) -> Derived[float | None]:  # noqa: A002
    """The median over the runs of a field of Cost; None when it was not measured."""
    return computed(lambda each: each.median(name), heading, format)


class Transfer(Variant, label="{0.plan.shown}", heading="method"):
    """One plan, carried out several times or not at all; costs are medians over the runs."""

    plan: Plan
    costs: Sequence[Cost] = column(name="runs", show=len)  #: of each run

    @property
    def key(self) -> tuple[str, float]:
        """The name with what else is special, and the size of the file in 10^6 bytes."""
        return self.plan.shown, self.plan.file_mb

    @property
    def wall_s(self) -> float | None:
        return self.median("wall_s")

    def median(self, name: str) -> float | None:
        """The median over the runs of this field of Cost; None when it was not measured."""
        return statistics.median(getattr(cost, name) for cost in self.costs) if self.costs else None

    @property
    def ends_s(self) -> tuple[float | None, float | None]:
        """The fastest and the slowest run."""
        times = [each.wall_s for each in self.costs]
        return min(times, default=None), max(times, default=None)

    method = computed(lambda each: each.plan.method)
    file_mb = computed(lambda each: each.plan.file_mb, "file (MB)", "g", is_setting=True)
    block_bytes = computed(lambda each: each.plan.block_bytes)
    connections = computed(lambda each: each.plan.connections)
    cache = computed(lambda each: each.plan.cache)
    seconds = _median("wall_s", "seconds", ".3f")
    seconds_min = computed(lambda each: each.ends_s[0], "fastest", ".3f")
    seconds_max = computed(lambda each: each.ends_s[1], "slowest", ".3f")
    mb_per_s = _median("mb_per_s", "MB/s", ".0f")
    cpu_s_per_gb = _median("cpu_s_per_gb", "sender's CPU s/GB", ".3f")
    receiver_cpu_s_per_gb = _median("receiver_cpu_s_per_gb", "receiver's", ".3f")

    @derived("system calls", ",d")
    def system_calls(self) -> int | None:
        calls = self.median("system_calls")
        return None if calls is None else round(calls)

    switches = computed(lambda each: each.median("switches"))
    page_faults = _median("page_faults", "page faults", ".0f")

    @derived("copied after all")
    def copied_after_all(self) -> str | None:
        """Sends with MSG_ZEROCOPY that the kernel copied, "5 of 5"; None without any."""
        last = self.costs[-1] if self.costs else None
        if last is None or not last.zerocopy_sends:
            return None
        return f"{last.zerocopy_copied} of {last.zerocopy_sends}"

    #: why there are no costs; empty when there are
    missing: str = column("note", name="note", default="")

    @property
    def segments(self) -> Sequence[int]:
        """Those of the last run."""
        return self.costs[-1].segments if self.costs else ()


#: Keys of columns.
TIME: Final = "variant file_mb seconds"
WORK: Final = "cpu_s_per_gb receiver_cpu_s_per_gb system_calls"


class SendFiles(Result[Transfer]):
    """The transfers of one experiment; the key is (name with what is special, size in MB)."""

    shown: ClassVar[str] = f"{TIME} mb_per_s {WORK} note"  #: keys of the columns
    further: ClassVar[Sequence[Column]] = ()  #: columns that a transfer does not have itself

    @property
    def columns(self) -> Sequence[Column]:
        known = {each.key: each for each in (*Transfer.columns, *self.further)}
        return [known[key] for key in self.shown.split()]

    def find(self, name: str, file_mb: float | None = None) -> Transfer:
        """The first transfer with this name, of the size if one is given.

        Raises:
            KeyError: there is none.
        """
        for each in self.variants:
            if each.plan.name == name and file_mb in (None, each.plan.file_mb):
                return each
        raise KeyError(f"{name}, {file_mb} MB")
