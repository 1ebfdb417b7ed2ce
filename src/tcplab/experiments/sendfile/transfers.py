"""Transfers of a file: their plans and cost, and the result of all experiments with sendfile."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tcplab.experiments import Result, Variant
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


class Transfer(Variant):
    """One plan, carried out several times or not at all."""

    plan: Plan
    costs: Sequence[Cost]  #: Of each run
    missing: str = ""  #: Why there are none; empty when there are

    @property
    def key(self) -> tuple[str, float]:
        """The name with what else is special, and the size of the file in 10^6 bytes."""
        return self.plan.shown, self.plan.file_mb

    def median(self, name: str) -> float | None:
        """The median over the runs of this field of Cost; None when it was not measured."""
        return statistics.median(getattr(cost, name) for cost in self.costs) if self.costs else None

    @property
    def wall_s(self) -> float | None:
        """Median seconds."""
        return self.median("wall_s")

    @property
    def mb_per_s(self) -> float | None:
        """Median rate in 10^6 bytes/s."""
        return self.median("mb_per_s")

    @property
    def cpu_s_per_gb(self) -> float | None:
        """Median CPU time of the sender for 10^9 bytes, in s."""
        return self.median("cpu_s_per_gb")

    @property
    def system_calls(self) -> int | None:
        """Median number of the sender's system calls."""
        calls = self.median("system_calls")
        return None if calls is None else round(calls)

    @property
    def segments(self) -> Sequence[int]:
        """Those of the last run."""
        return self.costs[-1].segments if self.costs else ()

    @property
    def copied_after_all(self) -> str | None:
        """Sends with MSG_ZEROCOPY that the kernel copied, "5 of 5"; None without any."""
        last = self.costs[-1] if self.costs else None
        if last is None or not last.zerocopy_sends:
            return None
        return f"{last.zerocopy_copied} of {last.zerocopy_sends}"

    def row(self) -> dict[str, Any]:
        """One row of plain data; medians over the runs."""
        plan, times = self.plan, [cost.wall_s for cost in self.costs]
        return {
            "variant": plan.shown,
            "method": plan.method,
            "file_mb": plan.file_mb,
            "block_bytes": plan.block_bytes,
            "connections": plan.connections,
            "cache": plan.cache,
            "runs": len(times),
            "seconds": self.wall_s,
            "seconds_min": min(times, default=None),
            "seconds_max": max(times, default=None),
            "mb_per_s": self.mb_per_s,
            "cpu_s_per_gb": self.cpu_s_per_gb,
            "receiver_cpu_s_per_gb": self.median("receiver_cpu_s_per_gb"),
            "system_calls": self.system_calls,
            "switches": self.median("switches"),
            "page_faults": self.median("page_faults"),
            "copied_after_all": self.copied_after_all,
            "note": self.missing,
        }


NAME: Final = Column("variant", "method")
TIME_COLUMNS: Final = (
    NAME,
    Column("file_mb", "file (MB)", "g", is_setting=True),
    Column("seconds", "seconds", ".3f"),
)
WORK_COLUMNS: Final = (
    Column("cpu_s_per_gb", "sender's CPU s/GB", ".3f"),
    Column("receiver_cpu_s_per_gb", "receiver's", ".3f"),
    Column("system_calls", "system calls", ",d"),
)
METHOD_COLUMNS: Final = (*TIME_COLUMNS, Column("mb_per_s", "MB/s", ".0f"), *WORK_COLUMNS)
NOTE: Final = Column("note", "note")


class SendFiles(Result[Transfer]):
    """The transfers of one experiment; the key is (name with what is special, size in MB)."""

    columns: ClassVar[Sequence[Column]] = (*METHOD_COLUMNS, NOTE)

    def find(self, name: str, file_mb: float | None = None) -> Transfer:
        """The first transfer with this name, of the size if one is given.

        Raises:
            KeyError: there is none.
        """
        for each in self.variants:
            if each.plan.name == name and file_mb in (None, each.plan.file_mb):
                return each
        raise KeyError(f"{name}, {file_mb} MB")
