"""Every method of sending a file within one machine, where no wire is the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from tcplab.experiments import Between, experiment
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.sendfile.send import send_all
from tcplab.experiments.sendfile.transfers import (
    METHOD_COLUMNS,
    NOTE,
    SendFiles,
    other_plans,
    published_plans,
    read_plans,
)
from tcplab.tables import Column


class Methods(SendFiles):
    """Every method; some for one size of the file only."""

    columns: ClassVar[Sequence[Column]] = (
        *METHOD_COLUMNS,
        Column("copied_after_all", "copied after all"),
        NOTE,
    )


@experiment("sendfile", on_loopback=True)
def measure(
    sizes_mb: Annotated[Sequence[int], Between(1, 20_000, "MB")] = (9, 32, 64),
    block_bytes: Annotated[Sequence[int], Between(1, 1 << 24, "bytes")] = (1024, 4096, 8192),
    runs: Annotated[int, Between(1, 1000)] = 3,
) -> Methods:
    """Sending a file within one machine: read and send, sendfile, splice, mmap, MSG_ZEROCOPY.

    Args:
        sizes_mb: sizes of the files; methods that need one file take the largest.
        block_bytes: sizes of read().
        runs: rounds of all methods.
    """
    largest = max(sizes_mb) * 1_000_000
    plans = [plan for size in sizes_mb for plan in published_plans(size * 1_000_000)]
    plans += read_plans(largest, dict.fromkeys((*block_bytes, 131_072)))
    plans += other_plans(largest)
    with open_loopback() as network:
        return Methods(*send_all("sendfile", plans, runs, network))
