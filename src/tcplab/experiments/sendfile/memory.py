"""Sending a file with little memory: the published author's second guess.

The sender's address space is smaller than the file (ulimit -v), or its control group's memory is,
where the system allows one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, ClassVar

from tcplab.experiments import Between, experiment
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.sendfile.bench import send_all
from tcplab.experiments.sendfile.memory_limits import (
    Confined,
    NotAllowedError,
    address_space,
    control_group,
)
from tcplab.experiments.sendfile.plans import Plan, published_plans
from tcplab.experiments.sendfile.transfers import COST, FILE, NAME, NOTE, TIME, SendFiles
from tcplab.lab import Network
from tcplab.tables import Column


class LittleMemory(SendFiles):
    """Each method under each limit."""

    columns: ClassVar[Sequence[Column]] = (
        NAME,
        FILE,
        TIME,
        *COST,
        Column("page_faults", "page faults", ".0f"),
        NOTE,
    )


@experiment("sendfile-memory", on_loopback=True)
def measure(
    # So large that a limit can leave room for the program and none for the file.
    size_mb: Annotated[int, Between(64, 20_000, "MB")] = 64,
    runs: Annotated[int, Between(1, 1000)] = 3,
) -> LittleMemory:
    """Sending a file with less memory than it takes: ulimit -v, and a control group.

    Args:
        size_mb: size of the file.
        runs: rounds of all variants.
    """
    file_bytes = size_mb * 1_000_000
    methods = [
        *published_plans(file_bytes)[:2],
        Plan("mmap + send", "mmap", file_bytes),
        Plan("splice", "splice", file_bytes),
        Plan("MSG_ZEROCOPY", "zerocopy", file_bytes),
    ]
    plans = [replace(plan, special="ulimit -v") for plan in methods]
    # A page that is in memory before is charged to whoever read it then: so from the disk.
    plans += [replace(plan, special="cgroup", cache="cold") for plan in methods[:3]]
    with ExitStack() as stack:
        network = stack.enter_context(open_loopback())
        limited: dict[str, Network | str] = {
            "ulimit -v": Confined(network, address_space(file_bytes))
        }
        try:
            limited["cgroup"] = Confined(network, stack.enter_context(control_group(file_bytes)))
        except NotAllowedError as error:
            limited["cgroup"] = str(error)
        return LittleMemory(*send_all("sendfile-memory", plans, runs, network, limited=limited))
