"""Limits, grants and readings of TCP_INFO, for the experiments with socket buffers."""

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

#: What the kernel charges the send buffer for each packet beyond its data [measured, Linux 6.18].
SEND_OVERHEAD_BYTES: Final = 832
#: The most that the experiments ask for.
MOST_BYTES: Final = 1 << 30


def core_limit(name: str) -> int:
    """net.core.rmem_max or wmem_max, of the whole machine."""
    return int(Path("/proc/sys/net/core", name).read_text())


def kernel_version() -> tuple[int, int]:
    """Major and minor number of the running kernel."""
    major, minor = re.match(r"(\d+)\.(\d+)", platform.release()).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


# ---- what TCP_INFO says of a transfer ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a transfer."""

    time_s: float  #: since its start
    acked_bytes: int  #: acknowledged so far
    window_bytes: int  #: the receiver's window
    rtt_ms: float  #: the smoothed round-trip time
    cwnd_bytes: int  #: the congestion window
    retransmissions: int  #: segments sent again so far


def samples_of(result: TcpBulkResult) -> tuple[Sample, ...]:
    """The samples of TCP_INFO that the source took."""
    return tuple(
        Sample(
            time_s=each["sample_s"],
            acked_bytes=each["bytes_acked"],
            window_bytes=each["snd_wnd_bytes"],
            rtt_ms=each["rtt_us"] / 1e3,
            cwnd_bytes=each["snd_cwnd"] * MSS_BYTES,
            retransmissions=each["total_retrans"],
        )
        for each in result.samples
    )


def steady_mbit(result: TcpBulkResult) -> float:
    """The rate of the second half of a transfer, when slow start is over."""
    samples = result.samples
    half = [each for each in samples if each["sample_s"] >= samples[-1]["sample_s"] / 2]
    if len(half) < 2:
        raise LabError(
            f"only {len(samples)} samples of TCP_INFO: the machine is too busy; run again"
        )
    bits = 8 * (half[-1]["bytes_acked"] - half[0]["bytes_acked"])
    return float(bits / (half[-1]["sample_s"] - half[0]["sample_s"]) / 1e6)


def limited_share(source: TcpSource, name: str) -> float:
    """The part of the time with data outstanding in which one thing was in the way, 0 to 1."""
    return float(source.tcp_info[name] / max(source.tcp_info["busy_time_us"], 1))


def held_bytes(sample: Mapping[str, Any]) -> int:
    """Bytes that a sender keeps: in flight, and not sent yet."""
    return int(sample["unacked"] * MSS_BYTES + sample["notsent_bytes"])


def send_window(granted_bytes: int, mss: int = MSS_BYTES) -> int:
    """Bytes in segments of one MSS that a send buffer takes.

    A new segment may begin while the charge of those before it is less than the limit.
    """
    return -(-granted_bytes // (mss + SEND_OVERHEAD_BYTES)) * mss
