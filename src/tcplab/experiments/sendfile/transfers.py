"""Transfers of a file: their cost, and the result of all experiments with sendfile."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tcplab.experiments import Result, Variant
from tcplab.experiments.sendfile.plans import Plan
from tcplab.tables import Column


@dataclass(frozen=True, slots=True)
class Cost:
    """What one transfer took."""

    wall_s: float  #: From the first call until the receiver had read everything
    cpu_s: float  #: Of the sender, user and system
    receiver_cpu_s: float  #: Of the receiver
    bytes: int  #: Sent over all connections
    system_calls: int  #: Of the sender
    switches: int  #: Context switches of the sender, of its own accord and not
    page_faults: int  #: Of the sender
    zerocopy_sends: int  #: Sends with MSG_ZEROCOPY
    zerocopy_copied: int  #: Of those, which the kernel copied after all
    cached_share: float  #: Share of the file in the page cache before, 0 to 1

    @property
    def mb_per_s(self) -> float:
        """Bytes over wall time, in 10^6 bytes/s."""
        return self.bytes / self.wall_s / 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        """CPU time of the sender for 10^9 bytes."""
        return self.cpu_s / self.bytes * 1e9

    @property
    def receiver_cpu_s_per_gb(self) -> float:
        """CPU time of the receiver for 10^9 bytes."""
        return self.receiver_cpu_s / self.bytes * 1e9


@dataclass(frozen=True, slots=True)
class Transfer(Variant):
    """One plan, carried out several times or not at all."""

    plan: Plan  #: Which
    costs: Sequence[Cost]  #: Of each run
    missing: str = ""  #: Why there are none; empty when there are
    #: Payload bytes of the data segments of the last run, in order, as they left the client; empty
    #: where nothing was recorded
    segments: Sequence[int] = ()

    @property
    def key(self) -> tuple[str, float]:
        """The name with what else is special, and the size of the file in 10^6 bytes."""
        return self.plan.shown, self.plan.file_mb

    def median(self, value: Callable[[Cost], float]) -> float | None:
        """The median over the runs; None when it was not measured."""
        return statistics.median(map(value, self.costs)) if self.costs else None

    @property
    def wall_s(self) -> float | None:
        """Median seconds."""
        return self.median(lambda cost: cost.wall_s)

    @property
    def mb_per_s(self) -> float | None:
        """Median rate in 10^6 bytes/s."""
        return self.median(lambda cost: cost.mb_per_s)

    @property
    def cpu_s_per_gb(self) -> float | None:
        """Median CPU time of the sender for 10^9 bytes, in s."""
        return self.median(lambda cost: cost.cpu_s_per_gb)

    @property
    def system_calls(self) -> int | None:
        """Median number of the sender's system calls."""
        calls = self.median(lambda cost: cost.system_calls)
        return None if calls is None else round(calls)

    @property
    def copied_after_all(self) -> str | None:
        """Sends with MSG_ZEROCOPY that the kernel copied, "5 of 5"; None without any."""
        last = self.costs[-1] if self.costs else None
        if last is None or not last.zerocopy_sends:
            return None
        return f"{last.zerocopy_copied} of {last.zerocopy_sends}"

    def row(self) -> dict[str, Any]:
        """One row of plain data."""
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
            "receiver_cpu_s_per_gb": self.median(lambda cost: cost.receiver_cpu_s_per_gb),
            "system_calls": self.system_calls,
            "switches": self.median(lambda cost: cost.switches),
            "page_faults": self.median(lambda cost: cost.page_faults),
            "copied_after_all": self.copied_after_all,
            "note": self.missing,
        }


NAME: Final = Column("variant", "method")
FILE: Final = Column("file_mb", "file (MB)", "g")
TIME: Final = Column("seconds", "seconds", ".3f")
COST: Final = (
    Column("mb_per_s", "MB/s", ".0f"),
    Column("cpu_s_per_gb", "sender's CPU s/GB", ".3f"),
    Column("receiver_cpu_s_per_gb", "receiver's", ".3f"),
    Column("system_calls", "system calls", ",d"),
)
NOTE: Final = Column("note", "note")


class SendFiles(Result[Transfer]):
    """The transfers of one experiment; the key is (name with what is special, size in MB)."""

    columns: ClassVar[Sequence[Column]] = (NAME, FILE, TIME, *COST, NOTE)

    def find(self, name: str, file_mb: float | None = None) -> Transfer:
        """The first transfer with this name, of the size if one is given.

        Raises:
            KeyError: there is none.
        """
        for each in self.variants:
            if each.plan.name == name and file_mb in (None, each.plan.file_mb):
                return each
        raise KeyError(f"{name}, {file_mb} MB")
