"""Read the TCP counters of a host, which nstat(8) shows."""

import itertools
from collections import Counter

from tcplab.lab import Host


def tcp_counters(host: Host) -> Counter[str]:
    """Return the host's counters in the group TcpExt of /proc/net/netstat, by name.

    The difference `after - before` of two results contains the counters that have grown.
    """
    lines = [line.split() for line in host.read("/proc/net/netstat").splitlines()]
    names, values = next(
        (head, tail) for head, tail in itertools.pairwise(lines) if head[0] == tail[0] == "TcpExt:"
    )
    return Counter(dict(zip(names[1:], map(int, values[1:]), strict=True)))
