"""Datagrams that are lost on one machine: what the receive buffer had no room for.

Behind tables 2.2 and 2.3 of J. Snader, Effective TCP/IP Programming, whose text puts the loss down
to exhausted buffers: here what they had no room for is counted. The largest size is the one that
the published sink asks for, 32 KiB is that of the TCP programs.
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import Variant, column, derived, spread
from tcplab.lab import Host
from tcplab.programs import udp_bulk


class ReceiveBuffer(Variant):
    """A receive buffer: what it holds, and what got lost with it."""

    requested_bytes: int = column("SO_RCVBUF (bytes)", ",d")
    #: what getsockopt returned: twice as much, and at most what the system allows
    granted_bytes: int = column("granted (bytes)", ",d")
    #: how many arrived at a socket that nobody read from
    room_datagrams: int = column("room for (datagrams)", ",d")
    #: datagrams of a run with a sink that reads as fast as it can
    sent: int = column("sent", ",d", is_setting=True)
    #: of these that did not arrive, run by run
    lost: Sequence[int] = spread("min", "lost", "max", ",d")
    #: what the sink's kernel threw away because the buffer was full, run by run
    drops: Sequence[int] = column("buffer was full (median)", ",.0f", show=statistics.median)

    @derived("lost elsewhere", ",d")
    def lost_elsewhere(self) -> int:
        # The end markers take the same path and may be dropped as well, so more drops than losses
        # is no contradiction.
        elsewhere = [lost - drops for lost, drops in zip(self.lost, self.drops, strict=True)]
        return max(0, *elsewhere)


ReceiveBuffers: TypeAlias = Result[ReceiveBuffer]


@experiment("udp-receive-buffers", on_loopback=True)
def measure(
    requests: Annotated[Sequence[int], Between(1, 10**9, "bytes")] = (
        4096,
        32_768,
        262_144,
        5000 * 1440,
    ),
    runs: Annotated[int, Between(1, 10_000)] = 5,
    count: Annotated[int, Between(1, 1_000_000)] = 3000,
    datagram_bytes: Annotated[int, Between(16, 65_507, "bytes")] = 1440,
) -> ReceiveBuffers:
    """Datagrams lost on one machine, by the size of the receive buffer.

    Args:
        requests: sizes to ask for with SO_RCVBUF; the kernel doubles them, and grants what it may.
        runs: rounds of all sizes.
        count: datagrams in a run.
        datagram_bytes: size of a datagram.
    """
    with open_loopback() as network:
        work: dict[str, Any] = {"datagram_bytes": datagram_bytes, "count": count}
        results, done = in_rounds(
            "udp-receive-buffers",
            runs,
            requests,
            lambda request: udp_bulk(network, **work, rcvbuf_bytes=request).sink,
        )
        buffers = []
        for request, sinks in results.items():
            granted, room = fill_receive_buffer(network.client, request, datagram_bytes)
            lost, drops = [each.lost for each in sinks], [each.drops for each in sinks]
            buffers.append(ReceiveBuffer(request, granted, room, count, lost, drops))
        rmem_max = int(network.client.read("/proc/sys/net/core/rmem_max"))
        return ReceiveBuffers(buffers, provenance(network, **work, rmem_max_bytes=rmem_max, **done))


def fill_receive_buffer(
    host: Host, rcvbuf_bytes: int, datagram_bytes: int = 1440
) -> tuple[int, int]:
    """Sends datagrams to a socket of the same host that nobody reads from, until it is full.

    Returns:
        The size of the receive buffer that the kernel granted, and how many datagrams it held.
    """
    datagram = bytes(datagram_bytes)
    udp = socket.SOCK_DGRAM
    with host.socket(kind=udp) as sleeper, host.socket(kind=udp) as sender:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
        granted_bytes = sleeper.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        sleeper.bind(("127.0.0.1", 0))
        for _ in range(granted_bytes // datagram_bytes + 10):  # more than can fit
            sender.sendto(datagram, sleeper.getsockname())
        sleeper.settimeout(0.2)
        held = 0
        try:
            while sleeper.recv(datagram_bytes):
                held += 1
        except TimeoutError:  # that was all
            return granted_bytes, held
    raise AssertionError("an empty datagram that nobody has sent")
