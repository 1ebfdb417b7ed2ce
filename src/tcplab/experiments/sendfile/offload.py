"""Sending a file between two hosts whose interfaces segment late (TSO, GSO)."""

from __future__ import annotations

from typing import Annotated

from tcplab.experiments import Between, experiment
from tcplab.experiments.sendfile.bench import send_all
from tcplab.experiments.sendfile.plans import published_plans
from tcplab.experiments.sendfile.transfers import SendFiles
from tcplab.lab import Lab


@experiment("sendfile-offload")
def measure(
    size_mb: Annotated[int, Between(1, 20_000, "MB")] = 64,
    runs: Annotated[int, Between(1, 1000)] = 3,
) -> SendFiles:
    """Sending a file between two hosts whose interfaces segment late (TSO, GSO).

    Args:
        size_mb: size of the file.
        runs: rounds of both methods.
    """
    plans = published_plans(size_mb * 1_000_000)[:2]
    with Lab(offload=True) as lab:
        return SendFiles(*send_all("sendfile-offload", plans, runs, lab))
