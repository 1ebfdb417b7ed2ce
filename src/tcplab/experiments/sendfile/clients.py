"""Sending a file to many clients at once: the published author's first guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from tcplab.experiments import Between, experiment
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.sendfile.bench import send_all
from tcplab.experiments.sendfile.plans import published_plans
from tcplab.experiments.sendfile.transfers import SendFiles


@experiment("sendfile-clients", on_loopback=True)
def measure(
    clients: Annotated[Sequence[int], Between(1, 256)] = (1, 4, 16, 64),
    size_mb: Annotated[int, Between(1, 20_000, "MB")] = 9,
    runs: Annotated[int, Between(1, 1000)] = 3,
) -> SendFiles:
    """Sending a file to many clients at once.

    Args:
        clients: numbers of clients that get the file at the same time.
        size_mb: size of the file.
        runs: rounds of all variants.
    """
    plans = [
        replace(plan, connections=count, special=f"{count} client{'s' * (count > 1)}")
        for count in clients
        for plan in published_plans(size_mb * 1_000_000)[:2]
    ]
    with open_loopback() as network:
        return SendFiles(*send_all("sendfile-clients", plans, runs, network))
