"""Count the datagrams that are lost on one machine because the receive buffer is full.

J. Snader's text on tables 2.2 and 2.3 (Effective TCP/IP Programming) attributes the loss to
exhausted buffers. By default, the largest buffer here is that of his UDP sink, and 32 KiB is that
of his TCP programs.
"""

import socket
import statistics
from collections.abc import Sequence
from typing import Annotated, Final

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.mode import open_loopback
from tcplab.experiments.progress import in_rounds
from tcplab.experiments.quantities import Variant, column, derived, spread
from tcplab.lab import Host
from tcplab.programs import udp_bulk

_REQUESTS: Final = (4096, 32_768, 262_144, 5000 * 1440)
_DATAGRAM_BYTES: Final = 1440  # default size of a datagram of udp_bulk


class ReceiveBuffer(Variant):
    """A receive buffer, the datagrams that it holds, and the datagrams lost with it."""

    requested_bytes: int = column("SO_RCVBUF (bytes)", ",d")
    granted_bytes: int = column("granted (bytes)", ",d")  #: twice the request, up to a limit
    room_datagrams: int = column("room (datagrams)", ",d")  #: number held if nothing is read
    sent: int = column("sent", ",d", is_setting=True)  #: datagrams per run, to a fast sink
    lost: Sequence[int] = spread("min", "lost", "max", ",d")
    #: datagrams per run that the sink's kernel dropped because the buffer was full
    drops: Sequence[int] = column("dropped, buffer full (median)", ",.0f", show=statistics.median)

    @derived("lost elsewhere", ",d")
    def lost_elsewhere(self) -> int:
        # Drops may exceed losses, because end markers may be dropped as well.
        elsewhere = [lost - drops for lost, drops in zip(self.lost, self.drops, strict=True)]
        return max(0, *elsewhere)


@experiment(
    "udp-receive-buffers",
    on_loopback=True,
    figure=("lost", "drops"),
    finding="Of the datagrams, {lost.high} are lost with {lost.most} bytes, and {lost.low} with "
    "{lost.least} bytes",
)
def measure(
    requests: Annotated[Sequence[int], Between(1, 10**9, "bytes"), "SO_RCVBUF"] = _REQUESTS,
    runs: Annotated[int, Between(1, 10_000), "rounds of all sizes"] = 5,
    count: Annotated[int, Between(1, 1_000_000), "datagrams per run"] = 3000,
) -> Result[ReceiveBuffer]:
    """Count the datagrams that are lost on one machine, for each size of the receive buffer."""
    with open_loopback() as network:
        results, done = in_rounds(
            runs,
            requests,
            lambda request: udp_bulk(network, count=count, rcvbuf_bytes=request).sink,
        )
        buffers = []
        for request, sinks in results.items():
            granted, room = fill_receive_buffer(network.client, request)
            lost, drops = [sink.lost for sink in sinks], [sink.drops for sink in sinks]
            buffers.append(ReceiveBuffer(request, granted, room, count, lost, drops))
        rmem_max = int(network.client.read("/proc/sys/net/core/rmem_max"))
        return Result(buffers, provenance(network, count=count, rmem_max_bytes=rmem_max, **done))


def fill_receive_buffer(host: Host, rcvbuf_bytes: int) -> tuple[int, int]:
    """Fill an unread receive buffer; return its granted size and the number of datagrams in it."""
    datagram = bytes(_DATAGRAM_BYTES)
    udp = socket.SOCK_DGRAM
    with host.socket(kind=udp) as sleeper, host.socket(kind=udp) as sender:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
        granted_bytes = sleeper.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        sleeper.bind(("127.0.0.1", 0))
        for _ in range(granted_bytes // _DATAGRAM_BYTES + 10):  # more datagrams than fit
            sender.sendto(datagram, sleeper.getsockname())
        sleeper.settimeout(0.2)
        held = 0
        try:
            while sleeper.recv(_DATAGRAM_BYTES):
                held += 1
        except TimeoutError:  # the buffer is empty
            return granted_bytes, held
    raise AssertionError("received an empty datagram that was not sent")
