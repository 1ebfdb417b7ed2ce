"""Describe the circumstances of a measurement, and which of its numbers they make unreliable."""

import os
import platform
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any, Final

from tcplab.lab import Lab, Link, Network
from tcplab.tables import Column

#: The name of the experiment that is being measured.
RUNNING: Final = ContextVar("RUNNING", default="measurement")

#: With two busy loops on two CPUs, programs waited for a CPU in at least 65 % of the time in each
#: of 51 experiments. Without them it was at most 58 % in all but one of 45, whose 64 clients keep
#: both CPUs busy. In seven of eight undisturbed runs, no packet left the wire more than 6 ms late.
_PRESSURE: Final = 0.6
#: Autotuning needs a reader that is never late. While programs waited in 42 to 59 % of the time, a
#: late window made three of six runs of receive-windows 17 to 51 % longer.
_READER: Final = 0.3
_OTHERS: Final = 0.1  #: with less of the CPUs' time, other programs change no number by more
_LATE_MS: Final = 6.0
_STALL_MS: Final = 50.0  #: lateness of a single packet that changes a rate
_CPU_MS: Final = 10.0  #: a shorter time depends on the CPU even if packets cross a link

_TIME: Final = re.compile(r"(?<![/'])\b(ms|µs|s)\b")  # also CPU times; all of these match headings
_RATE: Final = re.compile(r"/s\b")
_WINDOW: Final = re.compile(r"largest (window )?\(bytes\)|peer's window")  # autotuning's choice
_LOSS: Final = re.compile(r"^lost( \(%\))?$|dropped")
_NOT_MEASURED: Final = re.compile("RTT|model|pause|published")
_UNITS: Final = {"µs": 1e-3, "ms": 1.0, "s": 1e3}


def provenance(network: Network, **details: Any) -> dict[str, Any]:
    """Return the machine, kernel, network and settings of a measurement, and the given details."""
    from importlib.metadata import version

    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tcplab": version("tcplab"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **_settings(network),
        **details,
    }


@contextmanager
def disturbance(network: Network | None) -> Iterator[dict[str, Any]]:
    """Yield a dict that describes the body's disturbance when this ends.

    It has the worst lateness of the links of `network` and of each laboratory that was closed, the
    sum of their packets and of those that they missed, and, if the kernel reports it (PSI), the
    share of the time in which a program waited for a CPU, and the share of the CPUs' time that
    other programs took.
    """
    found: dict[str, Any] = {}
    ended, start_s, before = len(Link.ended), time.monotonic(), _cpu_s()
    yield found
    links = Link.ended[ended:] + ([network.link.lateness()] if isinstance(network, Lab) else [])
    for name in ("wire_packets", "wire_missed"):
        found[name] = sum(link[name] for link in links)
    for name in ("wire_late_p99_ms", "wire_late_max_ms"):
        found[name] = max((link[name] for link in links), default=0.0)
    if before and (after := _cpu_s()):
        took_s, cpus = time.monotonic() - start_s, len(os.sched_getaffinity(0))
        found["cpu_pressure"] = round((after[0] - before[0]) / took_s, 3)
        found["cpu_others"] = round((after[1] - before[1]) / took_s / cpus, 3)


def _cpu_s() -> tuple[float, float] | None:
    """Return for how many s programs have waited for a CPU, and others than this one have run.

    The children of this process count as this program once they have ended.
    """
    try:
        pressure = Path("/proc/pressure/cpu").read_text()
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    except OSError:  # a kernel without PSI, or a container that hides it
        return None
    waited_s = int(re.findall(r"^some .*total=(\d+)", pressure)[0]) / 1e6
    return waited_s, (user + nice + system) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def was_busy(found: Mapping[str, float]) -> bool:
    """Return True if a disturbance may have changed times, whatever was measured."""
    is_late = found["wire_missed"] > 0 or found["wire_late_p99_ms"] > _LATE_MS
    return is_late or _waited(found)


def _waited(found: Mapping[str, float], most: float = _PRESSURE) -> bool:
    """Return True if programs waited longer for a CPU, and not only for each other."""
    return found.get("cpu_pressure", 0) > most and found.get("cpu_others", 1) > _OTHERS


def warning(result: Any) -> str:
    """Say which kinds of numbers a disturbance may have changed in a live result, or return ""."""
    origin = result.provenance
    if missed := origin["wire_missed"]:
        missing = f"the wire missed {missed} packets, which TCP took for losses"
        return f"the machine was busy ({missing}), so do not conclude from this run"
    measured = [
        column
        for column in getattr(result, "columns", ())
        if column.format and not _NOT_MEASURED.match(column.heading)
    ]
    headings = " | ".join(column.heading for column in measured)
    shortest_ms = min((ms for column in measured for ms in _times_ms(result, column)), default=inf)
    late_ms, waited = origin["wire_late_max_ms"], origin.get("cpu_pressure", 0.0)
    is_busy = _waited(origin)
    on_cpu = is_busy and ("CPU" in headings or shortest_ms < _CPU_MS or not origin["wire_packets"])
    is_slow = is_busy or origin["wire_late_p99_ms"] > _LATE_MS or late_ms > _STALL_MS
    windows = _waited(origin, _READER) and _WINDOW.search(headings)  # a transfer waits for them
    is_late = on_cpu or windows or late_ms > max(_LATE_MS, shortest_ms / 4)
    affected = {
        "times": is_late and _TIME.search(headings),
        "rates": _RATE.search(headings) and is_slow,
        "windows": windows,
        "losses": is_busy and any(_LOSS.search(column.heading) for column in measured),
    }
    names = " and ".join(kind for kind, is_affected in affected.items() if is_affected)
    names = names.replace(" and ", ", ", names.count(" and ") - 1)
    why = f"a packet left the wire {late_ms:.0f} ms late"
    if is_busy or windows:
        why = f"programs waited for a CPU during {waited:.0%} of the run"
    return f"the machine was busy ({why}), so do not rely on {names}" if names else ""


def _times_ms(result: Any, column: Column) -> list[float]:
    """Return a column's times, or none for a CPU time, which a late packet does not change."""
    unit = _TIME.search(column.heading)
    if not unit or "CPU" in column.heading:
        return []
    values = (row[column.key] for row in result.rows())
    return [_UNITS[unit[1]] * value for value in values if isinstance(value, int | float) and value]


def warning_note(provenance: Mapping[str, Any]) -> str:
    """Return the warning of a live result as a sentence, or ""."""
    warning = "" if provenance.get("recorded") else str(provenance.get("disturbed", ""))
    return f"{warning[0].upper()}{warning[1:]}." if warning else ""


def _settings(network: Network) -> dict[str, Any]:
    pinned = ("tcp_rmem", "tcp_wmem", "tcp_autocorking")
    link = network.link.parameters if isinstance(network, Lab) else None
    return {
        "network": "lab" if isinstance(network, Lab) else "loopback",
        "link": link,
        "mtu": network.mtu,
        "offload": network.offload,
        "congestion": network.congestion,
        "capture_drops": network.capture_drops,
        "capture_left_out": dict(network.capture_left_out),
        "sysctls": {name: network.client.sysctl(f"net.ipv4.{name}") for name in pinned},
    }


def _cpu_model() -> str:
    described = dict(
        line.replace("\t", "").split(":", 1)
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    return described.get("model name", described.get("Model", "?")).strip()
