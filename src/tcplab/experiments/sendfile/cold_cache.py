"""Sending a file from the disk, and from the page cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from tcplab.experiments import Between, experiment
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.sendfile.bench import send_all
from tcplab.experiments.sendfile.plans import published_plans
from tcplab.experiments.sendfile.transfers import SendFiles
from tcplab.programs import CacheState

_STATES: Final[tuple[CacheState, ...]] = ("cold", "warm")


@experiment("sendfile-cold-cache", on_loopback=True)
def measure(
    size_mb: Annotated[int, Between(1, 20_000, "MB")] = 64,
    runs: Annotated[int, Between(1, 1000)] = 3,
) -> SendFiles:
    """Sending a file from the disk instead of the page cache.

    Args:
        size_mb: size of the file.
        runs: rounds of all variants.
    """
    plans = [
        replace(plan, cache=state, special=state)
        for plan in published_plans(size_mb * 1_000_000)[:2]
        for state in _STATES
    ]
    with open_loopback() as network:
        return SendFiles(*send_all("sendfile-cold-cache", plans, runs, network))
