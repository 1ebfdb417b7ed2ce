"""Read the kernel's limits and TCP_INFO for the experiments with socket buffers."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.programs import TcpBulkResult, TcpSource

#: Overhead that the kernel charges to the send buffer per packet (measured on Linux 6.18).
SEND_OVERHEAD_BYTES: Final = 832
MOST_BYTES: Final = 1 << 30  #: the largest request that the experiments accept


def core_limit(name: str) -> int:
    """Return a limit of this machine, net.core.rmem_max or net.core.wmem_max."""
    return int(Path("/proc/sys/net/core", name).read_text())


def kernel_version() -> tuple[int, int]:
    """Return the major and minor version of the running kernel."""
    major, minor = re.match(r"(\d+)\.(\d+)", platform.release()).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the source's TCP_INFO during a transfer."""

    time_s: float  #: time since the start of the transfer
    acked_bytes: int
    window_bytes: int  #: window that the receiver offers
    rtt_ms: float  #: smoothed RTT
    cwnd_bytes: int
    retransmissions: int


def samples_of(result: TcpBulkResult) -> tuple[Sample, ...]:
    """Convert the TCP_INFO samples of a transfer to Sample objects."""
    return tuple(
        Sample(
            time_s=sample["sample_s"],
            acked_bytes=sample["bytes_acked"],
            window_bytes=sample["snd_wnd_bytes"],
            rtt_ms=sample["rtt_us"] / 1e3,
            cwnd_bytes=sample["snd_cwnd"] * MSS_BYTES,
            retransmissions=sample["total_retrans"],
        )
        for sample in result.samples
    )


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


def limited_share(source: TcpSource, name: str) -> float:
    """Return a time in TCP_INFO, such as rwnd_limited_us, as a share (0 to 1) of the busy time."""
    return float(source.tcp_info[name] / max(source.tcp_info["busy_time_us"], 1))


def held_bytes(sample: Mapping[str, Any]) -> int:
    """Return the number of bytes that a sender holds, in flight or not yet sent."""
    return int(sample["unacked"] * MSS_BYTES + sample["notsent_bytes"])


def send_window(granted_bytes: int, mss: int = MSS_BYTES) -> int:
    """Return the number of bytes that a send buffer accepts if they form full segments.

    A new segment may begin as long as the charge for the earlier ones is below the limit.
    """
    return -(-granted_bytes // (mss + SEND_OVERHEAD_BYTES)) * mss
