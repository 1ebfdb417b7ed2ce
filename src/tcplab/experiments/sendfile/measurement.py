"""Send a file within one machine, and to many clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from tcplab.experiments import Between, experiment
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.parameters import Runs, SizeMb
from tcplab.experiments.sendfile.send import send_all
from tcplab.experiments.sendfile.transfers import (
    SendFiles,
    other_plans,
    published_plans,
    read_plans,
)


@experiment("sendfile", on_loopback=True)
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
    largest = max(sizes_mb) * 1_000_000
    plans = [plan for size in sizes_mb for plan in published_plans(size * 1_000_000)]
    plans += read_plans(largest, dict.fromkeys((*block_bytes, 131_072)))
    plans += other_plans(largest)
    with open_loopback() as network:
        return send_all("sendfile", plans, runs, network)


@experiment("sendfile-clients", on_loopback=True)
def measure_clients(
    clients: Annotated[Sequence[int], Between(1, 256), "clients at the same time"] = (1, 4, 16, 64),
    size_mb: SizeMb = 9,
    runs: Runs = 3,
) -> SendFiles:
    """Send a file to one or more clients at the same time, for several numbers of clients."""
    plans = [
        replace(plan, connections=count, special=f"{count} client{'s' * (count > 1)}")
        for count in clients
        for plan in published_plans(size_mb * 1_000_000)[:2]
    ]
    with open_loopback() as network:
        return send_all("sendfile-clients", plans, runs, network)
