"""Read a host's TCP counters, as nstat(8) shows them."""

from __future__ import annotations

import itertools
from collections import Counter

from tcplab.lab import Host


def tcp_counters(host: Host) -> Counter[str]:
    """Return the counters TcpExt of /proc/net/netstat; `after - before` leaves out zeros."""
    lines = [line.split() for line in host.read("/proc/net/netstat").splitlines()]
    names, values = next(
        (head, tail) for head, tail in itertools.pairwise(lines) if head[0] == tail[0] == "TcpExt:"
    )
    return Counter(dict(zip(names[1:], map(int, values[1:]), strict=True)))
