"""What the kernel joins by itself, and where it cuts: autocorking, and a cork that leaks.

Sources: net/ipv4/tcp.c of Linux 6.18 (tcp_should_autocork); commit f54b311142a9 ("tcp: auto
corking").
"""

from __future__ import annotations

import itertools
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from tcplab.checks import number
from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.cork.scripts import (
    MSS_BYTES,
    SETTLE_MS,
    Played,
    play,
    run_lengths,
    segments_of,
)
from tcplab.experiments.declaration import experiment
from tcplab.experiments.interfaces import put_token_bucket
from tcplab.lab import Host, Lab
from tcplab.tables import Column

__all__ = ["Autocorking", "Autocorks", "Leak", "measure_autocorking", "measure_two_sockets"]

# ---- autocorking ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Autocorks:
    """One run of small writes with TCP_NODELAY behind a slow interface.

    Attributes:
        autocorking: net.ipv4.tcp_autocorking.
        writes: how many.
        counted: by how much the counter TcpExtTCPAutoCorking of the host grew.
        sizes: payload bytes of the data segments.
        played: calls and segments.
    """

    autocorking: bool
    writes: int
    counted: int
    sizes: tuple[int, ...]
    played: Played


@dataclass(frozen=True, slots=True)
class Autocorking:
    """The same writes with autocorking on and off."""

    experiment: ClassVar[str] = "autocorking"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "tcp_autocorking"),
        Column("writes", "writes", "d"),
        Column("segments", "data segments", "d"),
        Column("mean_bytes", "bytes/segment", ".0f"),
        Column("counted", "TCPAutoCorking grew by", "d"),
    )

    runs: Sequence[Autocorks]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a setting."""
        return [
            {
                "variant": "on" if each.autocorking else "off",
                "writes": each.writes,
                "segments": len(each.sizes),
                "mean_bytes": statistics.fmean(each.sizes),
                "counted": each.counted,
                "sizes": run_lengths(each.sizes),
            }
            for each in self.runs
        ]


@experiment("autocorking")
def measure_autocorking(writes: int = 40, size_bytes: int = 100) -> Autocorking:
    """Two full segments, then small writes with TCP_NODELAY, through an interface of 1 Mbit/s.

    Autocorking needs a packet of the connection that waits in the sender's own queue. The wire of
    the laboratory has its queue outside the host, so a token bucket (tbf) goes on the interface.

    Args:
        writes: how many small ones, 1 to 500.
        size_bytes: of each, 1 to 1000.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, a program failed, or the kernel has no tbf.
    """
    number("writes", writes, 1, 500)
    number("size_bytes", size_bytes, 1, 1000, unit=" bytes")
    body = f" 0:write={size_bytes}" * writes
    script = f"{1000 * SETTLE_MS}:nodelay=1 0:write={2 * MSS_BYTES}{body} 1000000:quickack=1"
    runs, lost = [], 0
    with Lab() as lab:
        _slow_interface(lab.client)
        for on in (True, False):
            lab.client.sysctl("net.ipv4.tcp_autocorking", str(int(on)))
            before = _autocorked(lab)
            (played,), drops = play(lab, [script])
            counted = _autocorked(lab) - before
            runs.append(Autocorks(on, writes, counted, tuple(played.sizes[2:]), played))
            lost += drops
        return Autocorking(
            runs,
            provenance(
                lab,
                congestion=lab.congestion,
                capture_drops=lost,
                interface_mbit=1,
                size_bytes=size_bytes,
            ),
        )


def _slow_interface(host: Host) -> None:
    """A token bucket on the host's own interface: packets wait there before they leave."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        put_token_bucket(host, rate="1mbit", burst=1600, latency="500ms")
    except NetlinkError as error:
        raise LabError(
            f"this kernel has no token bucket (sch_tbf: {error.args[-1]}); to load it:"
            " sudo modprobe sch_tbf"
        ) from None


def _autocorked(lab: Lab) -> int:
    """The counter TcpExtTCPAutoCorking of the client."""
    lines = [line.split() for line in lab.client.read("/proc/net/netstat").splitlines()]
    names, values = next(
        (head, tail) for head, tail in itertools.pairwise(lines) if head[0] == tail[0] == "TcpExt:"
    )
    return int(dict(zip(names, values, strict=True)).get("TCPAutoCorking", 0))


# ---- a cork that leaks ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leak:
    """Corked writes of one thread, to one socket, and to two by turns."""

    experiment: ClassVar[str] = "cork-leak"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "one thread writes"),
        Column("writes", "writes to each", "d"),
        Column("sizes", "segments of the first socket (bytes)"),
    )

    writes: int
    sizes: Mapping[str, Sequence[int]]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a number of sockets."""
        return [
            {"variant": name, "writes": self.writes, "sizes": " + ".join(map(str, sizes))}
            for name, sizes in self.sizes.items()
        ]


@experiment("cork-leak")
def measure_two_sockets(writes: int = 20) -> Leak:
    """Corked writes of 10 bytes from one thread: to one socket, then to two by turns.

    What a thread writes is copied into one memory fragment that all its sockets share. Writes that
    follow each other on one socket lie side by side in it and count as one fragment; by turns, each
    is a fragment of its own, and a packet buffer holds 17 (MAX_SKB_FRAGS).

    Args:
        writes: to each socket, 1 to 100.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    number("writes", writes, 1, 100)
    sizes, lost = {}, 0
    with Lab() as lab:
        for sockets in (1, 2):
            with lab.client.capture() as capture:
                port = _write_by_turns(lab, sockets, writes)
                time.sleep(0.05)  # what leaves with the end of the connections is recorded too
            lost += capture.drops or 0
            rows = segments_of(capture)
            mine = rows[(rows["src_port"] == port) & (rows["payload_bytes"] > 0)]
            mine = mine[~mine["is_retransmission"]]
            name = "to one socket" if sockets == 1 else "to two sockets by turns"
            sizes[name] = [int(size) for size in mine["payload_bytes"]]
        return Leak(writes, sizes, provenance(lab, congestion=lab.congestion, capture_drops=lost))


def _write_by_turns(lab: Lab, sockets: int, writes: int) -> int:
    """Corked writes to each socket by turns, from one thread; the first one's port."""
    with ExitStack() as stack:
        listener = stack.enter_context(lab.server.socket())
        listener.bind((lab.server.address, 0))
        listener.listen()
        senders = [stack.enter_context(lab.client.socket()) for _ in range(sockets)]
        for sender in senders:
            sender.settimeout(30)
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, lab.congestion.encode())
            sender.connect(listener.getsockname())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for _ in range(writes):
            for sender in senders:
                sender.send(b"x" * 10)
        port: int = senders[0].getsockname()[1]
        return port
