"""Read the kernel's limits and TCP_INFO for the experiments with socket buffers."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.models import receive_window
from tcplab.programs import TcpBulkResult

#: Overhead that the kernel charges to the send buffer per packet (measured on Linux 6.18).
SEND_OVERHEAD_BYTES: Final = 832
MOST_BYTES: Final = 1 << 30  #: the largest request that the experiments accept


def core_limit(name: str) -> int:
    """Return a limit of this machine, net.core.rmem_max or net.core.wmem_max."""
    return int(Path("/proc/sys/net/core", name).read_text())


def usable_window(granted_bytes: int, release: str = "") -> int:
    """Return the largest window of a fixed receive buffer with the given or the running kernel."""
    major, minor = map(int, re.findall(r"\d+", release or platform.release())[:2])
    window = receive_window(granted_bytes, autotuned=False, kernel=(major, minor))
    return window.usable_bytes


def steady_mbit(result: TcpBulkResult) -> float:
    """Return the rate in a transfer's second half; LabError if that has fewer than two samples."""
    samples = result.samples
    half = [sample for sample in samples if sample["sample_s"] >= samples[-1]["sample_s"] / 2]
    if len(half) < 2:
        raise LabError(
            f"only {len(samples)} samples of TCP_INFO: the machine is too busy; run again"
        )
    bits = 8 * (half[-1]["bytes_acked"] - half[0]["bytes_acked"])
    return float(bits / (half[-1]["sample_s"] - half[0]["sample_s"]) / 1e6)


def held_bytes(sample: Mapping[str, Any]) -> int:
    """Return the number of bytes that a sender holds, in flight or not yet sent."""
    return int(sample["unacked"] * MSS_BYTES + sample["notsent_bytes"])


def send_window(granted_bytes: int, mss: int = MSS_BYTES) -> int:
    """Return the number of bytes that a send buffer accepts if they form full segments.

    A new segment may begin as long as the charge for the earlier ones is below the limit.
    """
    return -(-granted_bytes // (mss + SEND_OVERHEAD_BYTES)) * mss
