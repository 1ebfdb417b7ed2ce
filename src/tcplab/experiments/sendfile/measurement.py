"""Send a file without a slow link, from a cold cache, to many clients, and with little memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

from tcplab.errors import LabError
from tcplab.experiments import Between, experiment
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.parameters import Runs, SizeMb
from tcplab.experiments.sendfile.memory_limits import address_space, confined, control_group
from tcplab.experiments.sendfile.send import send_all
from tcplab.experiments.sendfile.transfers import (
    Plan,
    SendFiles,
    other_plans,
    published_plans,
    read_plans,
)
from tcplab.lab import Lab, Network


class Methods(SendFiles):
    """Transfers with every method. Some methods send only a file of the largest size."""

    shown = SendFiles.shown.replace("note", "copied_after_all note")


@experiment("sendfile", on_loopback=True)
def measure(
    sizes_mb: Annotated[Sequence[int], Between(1, 20_000, "MB")] = (9, 32, 64),
    block_bytes: Annotated[Sequence[int], Between(1, 1 << 24, "bytes")] = (1024, 4096, 8192),
    runs: Runs = 3,
) -> Methods:
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
        return Methods(*send_all("sendfile", plans, runs, network))


@experiment("sendfile-offload")
def measure_offload(size_mb: SizeMb = 64, runs: Runs = 3) -> SendFiles:
    """Send a file between two hosts whose interfaces split segments late (TSO, GSO)."""
    with Lab(offload=True) as lab:
        return SendFiles(*send_all("sendfile-offload", _read_and_sendfile(size_mb), runs, lab))


@experiment("sendfile-cold-cache", on_loopback=True)
def measure_cold_cache(size_mb: SizeMb = 64, runs: Runs = 3) -> SendFiles:
    """Send a file that is only on the disk, and again when it is in the page cache."""
    plans = []
    for plan in _read_and_sendfile(size_mb):
        plans += [replace(plan, cache="cold", special="cold"), replace(plan, special="warm")]
    with open_loopback() as network:
        return SendFiles(*send_all("sendfile-cold-cache", plans, runs, network))


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
        for plan in _read_and_sendfile(size_mb)
    ]
    with open_loopback() as network:
        return SendFiles(*send_all("sendfile-clients", plans, runs, network))


class LittleMemory(SendFiles):
    """Transfers with less memory than the file takes, by several methods."""

    shown = SendFiles.shown.replace("note", "page_faults note")


@experiment("sendfile-memory", on_loopback=True)
def measure_memory(
    # With a smaller file, no limit would leave room for the program but not for the file.
    size_mb: Annotated[int, Between(64, 20_000, "MB"), "size of the file"] = 64,
    runs: Runs = 3,
) -> LittleMemory:
    """Send a file with less memory than it takes, limited by ulimit -v and by a control group."""
    file_bytes = size_mb * 1_000_000
    methods = [*_read_and_sendfile(size_mb), *other_plans(file_bytes)]
    plans = [replace(plan, special="ulimit -v") for plan in methods]
    # A cached page stays charged to the group that first read it, so the file must be cold.
    plans += [replace(plan, special="cgroup", cache="cold") for plan in methods[:3]]
    with ExitStack() as stack:
        network = stack.enter_context(open_loopback())
        limits: dict[str, Network | str] = {
            "ulimit -v": confined(network, address_space(file_bytes))
        }
        try:
            limits["cgroup"] = confined(network, stack.enter_context(control_group(file_bytes)))
        except LabError as error:
            limits["cgroup"] = str(error)
        return LittleMemory(*send_all("sendfile-memory", plans, runs, network, limits=limits))


def _read_and_sendfile(size_mb: int) -> list[Plan]:
    return published_plans(size_mb * 1_000_000)[:2]
