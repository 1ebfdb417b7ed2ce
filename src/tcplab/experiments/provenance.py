"""Describe the circumstances of a measurement, to be stored with its result."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tcplab.lab import Lab, Network


def provenance(network: Network, **details: Any) -> dict[str, Any]:
    """Return the machine, kernel, network and settings of a measurement, and the given details."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tcplab": _version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **_settings(network),
        **details,
    }


def wire_note(provenance: Mapping[str, Any]) -> str:
    """Return a warning if the link of a live run missed packets or sent them late, or ""."""
    warning = "" if provenance.get("recorded") else str(provenance.get("wire_late", ""))
    return f"{warning[0].upper()}{warning[1:]}." if warning else ""


def _settings(network: Network) -> dict[str, Any]:
    pinned = ("tcp_rmem", "tcp_wmem", "tcp_autocorking")
    link = network.link.parameters if isinstance(network, Lab) else None
    return {
        "network": "lab" if isinstance(network, Lab) else "loopback",
        "link": link,
        **(network.link.lateness() if isinstance(network, Lab) else {}),
        "mtu": network.mtu,
        "offload": network.offload,
        "congestion": network.congestion,
        "capture_drops": network.capture_drops,
        "capture_left_out": dict(network.capture_left_out),
        "sysctls": {name: network.client.sysctl(f"net.ipv4.{name}") for name in pinned},
    }


def _version() -> str:
    from importlib.metadata import version

    return version("tcplab")


def _cpu_model() -> str:
    described = dict(
        line.replace("\t", "").split(":", 1)
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    return described.get("model name", described.get("Model", "?")).strip()
