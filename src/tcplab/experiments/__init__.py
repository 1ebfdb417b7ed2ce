"""One module an experiment: ``measure(...) -> Result``, pure of display.

Lessons, tests, demos and graders all call the same ``measure``. A result is data: rows of plain
numbers under the names of their columns, and the provenance without which they mean nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from tcplab.lab import Lab, Network
from tcplab.tables import Column, Table

__all__ = ["EXPERIMENTS", "Result", "as_json", "load", "provenance", "spread", "table"]

#: Name on the command line -> module.
EXPERIMENTS: Final[Mapping[str, str]] = {
    "pipes": "tcplab.experiments.pipes",
    "lab-tour": "tcplab.experiments.lab_tour",
    "send-queue": "tcplab.experiments.send_queue",
    "sendfile": "tcplab.experiments.send_file",
    "small-writes": "tcplab.experiments.small_writes",
    "write-patterns": "tcplab.experiments.write_patterns",
    "buffers": "tcplab.experiments.buffers",
    "cork": "tcplab.experiments.cork",
    "records": "tcplab.experiments.records",
    "quotes": "tcplab.experiments.quotes",
    "diagnosis": "tcplab.experiments.diagnosis",
    "tcp-vs-udp": "tcplab.experiments.tcp_vs_udp",
    "interfaces": "tcplab.experiments.interfaces",
    "mtu": "tcplab.experiments.mtu",
}


#: A wire that was later than this (99th percentile) is told in an experiment's provenance.
WIRE_LATE_MS: Final = 2.0


class Result(Protocol):
    """What every experiment returns."""

    experiment: ClassVar[str]
    columns: ClassVar[Sequence[Column]]

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Kernel, link, settings, losses of the recording: see :func:`provenance`."""

    def rows(self) -> list[dict[str, Any]]:
        """One flat row of plain data a variant; each has the key "variant"."""


class Experiment(Protocol):
    """What every module in this package offers."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Its options on the command line."""

    def from_arguments(self, arguments: argparse.Namespace) -> Result:
        """``measure`` with the options of the command line."""


def load(name: str) -> Experiment:
    """The experiment's module.

    Raises:
        KeyError: no experiment has this name.
    """
    module: Any = importlib.import_module(EXPERIMENTS[name])
    return module  # type: ignore[no-any-return]


def as_json(result: Result) -> str:
    """One JSON object: experiment, rows, provenance."""
    return json.dumps(
        {
            "experiment": result.experiment,
            "rows": result.rows(),
            "provenance": dict(result.provenance),
        }
    )


def table(result: Result) -> Table:
    """The rows under the columns that the result declares; the caption tells of a recording."""
    from tcplab.experiments.ladder import recorded_words

    return Table(result.columns, result.rows(), recorded_words(result.provenance))


def spread(values: Iterable[float]) -> dict[str, float]:
    """Minimum, median and maximum, the three that a table of repeated measurements shows."""
    ordered = sorted(values)
    return {"min": ordered[0], "median": statistics.median(ordered), "max": ordered[-1]}


def provenance(network: Network, **details: Any) -> dict[str, Any]:
    """What a number depends on: machine, kernel, compiler, the place and its settings.

    Args:
        network: where the experiment ran.
        **details: what the experiment adds (repetitions, capture drops, options of the programs).
    """
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tcplab": _version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **_network(network),
        **details,
    }


def _network(network: Network) -> dict[str, Any]:
    pinned = ("tcp_rmem", "tcp_wmem", "tcp_autocorking", "tcp_congestion_control")
    link = network.link.parameters if isinstance(network, Lab) else None
    return {
        "network": "lab" if isinstance(network, Lab) else "loopback",
        "link": link,
        **(_lateness(network) if isinstance(network, Lab) else {}),
        "mtu": network.mtu,
        "offload": network.offload,
        "sysctls": {name: network.client.sysctl(f"net.ipv4.{name}") for name in pinned},
    }


def _lateness(lab: Lab) -> dict[str, Any]:
    """How much later than it should have a packet left the wire, and whether that is too much."""
    late_ns = [way["late_ns"]["p99"] for way in lab.link.counters().values()]
    p99_ms = max(late_ns) / 1e6
    told: dict[str, Any] = {"wire_late_p99_ms": p99_ms}
    if p99_ms > WIRE_LATE_MS:
        told["wire_late"] = (
            f"1 of 100 packets left the wire more than {p99_ms:.1f} ms late: the machine was busy,"
            " and times are to be taken with a grain of salt"
        )
    return told


def _version() -> str:
    from importlib.metadata import version

    return version("tcplab")


def _cpu_model() -> str:
    described = dict(
        line.replace("\t", "").split(":", 1)
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    name = described.get("model name", described.get("Model", "")).strip()
    if len(name) > 1:
        return name
    # Some virtual machines hide the name; the numbers still tell machines apart.
    keys = ("vendor_id", "cpu family", "model")
    return " ".join(described.get(key, "?").strip() for key in keys)
