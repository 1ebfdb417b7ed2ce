"""Measure how much a send buffer holds, and when it is so small that delayed ACKs stall the sender.

Source: tcp_sendmsg_locked() in net/ipv4/tcp.c of Linux 6.18, which checks the limit only when a new
packet buffer begins.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeAlias

from tcplab.experiments import Between, Result, Variant, column, computed, experiment
from tcplab.experiments.buffers.throughput import held_bytes, send_window, steady_mbit
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.parameters import RateMbit, RttMs
from tcplab.experiments.progress import case_by_case
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.programs import tcp_bulk, tcp_source, writepattern_peer
from tcplab.programs.messages import QuickAck

_REQUESTS: Final = (1, 4096, 8192, 13_422)
WritesBytes: TypeAlias = Annotated[Sequence[int], Between(1, 1 << 20, "bytes"), "write sizes"]
_WRITES_BYTES: Final = (1440, 1448, 2896, 4096, 8000, 8192, 65_536)


class Holding(Variant, label="{0.write_bytes:,}", heading="write (bytes)"):
    """The most data that the sender held, with writes of one size."""

    write_bytes: int
    segments = computed(
        lambda holding: holding.write_bytes / MSS_BYTES, "segments per write", ".2f"
    )
    granted_bytes: int = column("SO_SNDBUF", ",d", is_setting=True)
    held_bytes: int = column("max held (bytes)", ",d")  #: written and not acknowledged
    times = computed(
        lambda holding: holding.held_bytes / holding.granted_bytes, "held / SO_SNDBUF", ".1f"
    )
    mbit: float = column("Mbit/s", ".1f")  #: rate in the second half


@experiment(
    "send-buffer-held",
    figure=("held_bytes", "mbit"),
    finding="With writes of {most} bytes, the kernel holds {ratio} times as much as with {least}",
)
def measure_held(
    writes_bytes: WritesBytes = _WRITES_BYTES,
    sndbuf_bytes: Annotated[int, Between(1, 1_000_000, "bytes"), "requested SO_SNDBUF"] = 8192,
    rtt_ms: Annotated[RttMs, Between(5, 500, "ms")] = 40,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 50,
) -> Result[Holding]:
    """Measure how much data a send buffer holds, depending on the size of the writes.

    Snader's writes have 1440 bytes, and a full segment has 1448. In MSDN's article on small data
    segments, 80 records of 100 bytes make 8000, and the buffer has 8192.
    """
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit) as lab:

        def run(size: int) -> Holding:
            result = tcp_bulk(
                lab,
                write_bytes=size,
                duration_s=0.4 + 0.02 * rtt_ms,
                sndbuf_bytes=sndbuf_bytes,
                rcvbuf_bytes=1_000_000,
                interval_ms=rtt_ms / 4,
            )
            granted, held = result.source.sndbuf_granted_bytes, max(map(held_bytes, result.samples))
            return Holding(size, granted, held, steady_mbit(result))

        return case_by_case(lab, writes_bytes, run, sndbuf_bytes=sndbuf_bytes)


# ---- the rule of 3 × MSS -------------------------------------------------------------------------

_LARGE_MSS: Final = 8948


class SmallBuffer(Variant, label="{0.requested_bytes} bytes"):
    """Writes of one MSS each, with one size of send buffer, to two kinds of receiver."""

    requested_bytes: int = column("requested (bytes)", ",d")
    granted_bytes: int = column("granted (bytes)", ",d")
    #: full segments that the buffer holds
    segments = computed(
        lambda case: send_window(case.granted_bytes, _LARGE_MSS) // _LARGE_MSS,
        "model (full segments)",
        "d",
    )
    linux: float = column("ms/write, Linux receiver", ".2f")
    linux_nodelay: float = column("with TCP_NODELAY", ".2f")
    delaying: float = column("ms/write, delayed ACKs", ".2f")
    delaying_nodelay: float = column("with TCP_NODELAY", ".2f")
    #: number of times that the sender waited 20 ms or more for a delayed ACK, without TCP_NODELAY
    stalls: int = column("stalls, delayed ACKs", "d")


@experiment("send-buffer-rule", figure=("delaying", "linux"))
def measure_one_segment(
    requests: Annotated[
        Sequence[int], Between(1, 1_000_000, "bytes"), "requested SO_SNDBUF"
    ] = _REQUESTS,
    writes: Annotated[int, Between(4, 1000), "writes per connection"] = 20,
) -> Result[SmallBuffer]:
    """Write to small send buffers over jumbo frames, where delayed ACKs may stall the sender.

    Each write is one MSS, which is 8948 bytes with an MTU of 9000.
    """
    with Lab(mtu=9000) as lab:
        return case_by_case(
            lab, requests, lambda request: _small_buffer(lab, request, writes), writes=writes
        )


def _small_buffer(lab: Lab, request: int, writes: int) -> SmallBuffer:
    ms_per_write: dict[str, float] = {}
    receivers: Mapping[str, QuickAck] = {"linux": "on", "delaying": "off"}
    for (receiver, quickack), nodelay in itertools.product(receivers.items(), (True, False)):
        with writepattern_peer(lab, quickack=quickack) as port, lab.client.capture() as capture:
            source = tcp_source(
                lab,
                port,
                write_bytes=_LARGE_MSS,
                count=writes,
                sndbuf_bytes=request,
                nodelay=nodelay,
            )
        name = f"{receiver}_nodelay" if nodelay else receiver
        ms_per_write[name] = source.usage.wall_s * 1e3 / writes
    sent = segments_of(capture).data("client", retransmissions=False)["time_ns"]
    return SmallBuffer(
        requested_bytes=request,
        granted_bytes=source.sndbuf_granted_bytes,
        stalls=sum(int(b) - int(a) >= 20e6 for a, b in itertools.pairwise(sent)),
        **ms_per_write,
    )
