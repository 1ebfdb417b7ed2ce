"""List tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Server = Literal["bsd", "localhost", "sparc", "router"]
Protocol = Literal["tcp", "udp"]
Key = tuple[Server, Protocol, int]  #: server, protocol, bytes per block

PUBLISHED_COUNT: Final = 5000  # blocks in a run


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the published tables, the mean of 50 runs of 5000 blocks."""

    wall_s: float
    user_s: float
    system_s: float
    mb_per_s: float  #: bytes sent, divided by wall_s
    lost: int | None = None  #: number of lost datagrams out of 5000, or None for TCP

    @property
    def lost_percent(self) -> float | None:
        return None if self.lost is None else 100 * self.lost / PUBLISHED_COUNT

    @property
    def arrived_mb_per_s(self) -> float:
        return self.mb_per_s * (1 - (self.lost or 0) / PUBLISHED_COUNT)


#: Tables 2.2 and 2.3, complete.
PUBLISHED: Final[Mapping[tuple[str, str, int], Published]] = {
    ("bsd", "tcp", 1440): Published(2.88, 0.0292, 1.4198, 2.5),
    ("localhost", "tcp", 1440): Published(0.9558, 0.0096, 0.6316, 7.53),
    ("sparc", "tcp", 1440): Published(7.1882, 0.016, 1.6226, 1.002),
    ("bsd", "udp", 1440): Published(1.9618, 0.0316, 1.1934, 3.67, 336),
    ("localhost", "udp", 1440): Published(1.9748, 0.031, 1.1906, 3.646, 272),
    ("sparc", "udp", 1440): Published(5.8284, 0.0564, 0.844, 1.235, 440),
    ("bsd", "tcp", 300): Published(1.059, 0.0124, 0.445, 1.416),
    ("sparc", "tcp", 300): Published(1.5552, 0.0084, 1.2442, 0.965),
    ("bsd", "udp", 300): Published(1.6324, 0.0324, 0.9998, 0.919, 212),
    ("sparc", "udp", 300): Published(1.9118, 0.0278, 1.4352, 0.785, 306),
}
