"""Measure how much a send buffer holds, and when it is so small that delayed ACKs stall the sender.

Source: tcp_sendmsg_locked() in net/ipv4/tcp.c of Linux 6.18, which checks the limit only when a new
packet buffer begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.buffers.common import held_bytes, send_window, steady_mbit
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.parameters import RateMbit, RttMs
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.programs import QuickAck, tcp_bulk, tcp_source, writepattern_peer
from tcplab.tables import Column


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


Held: TypeAlias = Result[Holding]


@experiment("send-buffer-held")
def measure_held(
    writes_bytes: Annotated[Sequence[int], Between(1, 1 << 20, "bytes")] = (
        1440,
        1448,
        2896,
        4096,
        8000,
        8192,
        65_536,
    ),
    sndbuf_bytes: Annotated[int, Between(1, 1_000_000, "bytes"), "requested SO_SNDBUF"] = 8192,
    rtt_ms: Annotated[RttMs, Between(5, 500, "ms")] = 40,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 50,
) -> Held:
    """Measure how much data a send buffer holds, depending on the size of the writes.

    Snader's writes have 1440 bytes, and a full segment has 1448. In MSDN's article on small data
    segments, 80 records of 100 bytes make 8000, and the buffer has 8192.

    Args:
        writes_bytes: sizes of the writes
    """
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit) as lab:
        holdings = []
        for size in writes_bytes:
            result = tcp_bulk(
                lab,
                write_bytes=size,
                duration_s=0.4 + 0.02 * rtt_ms,
                sndbuf_bytes=sndbuf_bytes,
                rcvbuf_bytes=1_000_000,
                interval_ms=rtt_ms / 4,
            )
            held = max(map(held_bytes, result.samples))
            granted = result.source.sndbuf_granted_bytes
            holdings.append(Holding(size, granted, held, steady_mbit(result)))
        return Result(holdings, provenance(lab, sndbuf_bytes=sndbuf_bytes))


# ---- the rule of 3 × MSS -------------------------------------------------------------------------


Receiver = Literal["linux", "delaying"]
_LARGE_MTU: Final = 9000
_LARGE_MSS: Final = 8948


class SmallBuffer(Variant, key=("requested_bytes", "receiver", "nodelay")):
    """Writes of one MSS each, with one size of send buffer."""

    requested_bytes: int
    receiver: Receiver
    nodelay: bool  #: True if TCP_NODELAY is set on the sender
    granted_bytes: int
    segments: int  #: number of full segments that the buffer holds according to the model
    writes: int
    stalls: int  #: number of times that the sender waited 20 ms or more for an ACK
    ms_per_write: float


class SmallBuffers(Result[SmallBuffer]):
    """Send buffers of several sizes, for two kinds of receiver, with and without TCP_NODELAY."""

    columns: ClassVar[Sequence[Column]] = (
        Column("requested_bytes", "requested (bytes)", ",d"),
        Column("granted_bytes", "granted (bytes)", ",d"),
        Column("segments", "model (full segments)", "d"),
        Column("linux", "ms/write, Linux receiver", ".2f"),
        Column("linux_nodelay", "with TCP_NODELAY", ".2f"),
        Column("delaying", "ms/write, delayed ACKs", ".2f"),
        Column("delaying_nodelay", "with TCP_NODELAY", ".2f"),
        Column("stalls", "stalls, delayed ACKs", "d"),
    )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per size, with the four combinations of receiver and option in columns."""
        rows: dict[int, dict[str, Any]] = {}
        for case in self.variants:
            row = rows.setdefault(
                case.requested_bytes,
                {
                    "variant": f"{case.requested_bytes} bytes",
                    "requested_bytes": case.requested_bytes,
                    "granted_bytes": case.granted_bytes,
                    "segments": case.segments,
                    "writes": case.writes,
                },
            )
            row[case.receiver + ("_nodelay" if case.nodelay else "")] = case.ms_per_write
            if case.receiver == "delaying" and not case.nodelay:
                row["stalls"] = case.stalls
        return list(rows.values())


@experiment("send-buffer-rule")
def measure_one_segment(
    requests: Annotated[Sequence[int], Between(1, 1_000_000, "bytes"), "requested SO_SNDBUF"] = (
        1,
        4096,
        8192,
        13_422,
    ),
    writes: Annotated[int, Between(4, 1000), "writes per connection"] = 20,
) -> SmallBuffers:
    """Write to small send buffers over jumbo frames, where delayed ACKs may stall the sender.

    Each write is one MSS, which is 8948 bytes with an MTU of 9000.
    """
    receivers: tuple[Receiver, ...] = get_args(Receiver)
    with Lab(mtu=_LARGE_MTU) as lab:
        measured = [
            _small_buffer(lab, request, receiver, nodelay, writes)
            for request in requests
            for receiver in receivers
            for nodelay in (False, True)
        ]
        return SmallBuffers(measured, provenance(lab, writes=writes))


def _small_buffer(
    lab: Lab, request: int, receiver: Receiver, nodelay: bool, writes: int
) -> SmallBuffer:
    quickack: QuickAck = "on" if receiver == "linux" else "off"
    with writepattern_peer(lab, quickack=quickack) as port, lab.client.capture() as capture:
        source = tcp_source(
            lab, port, write_bytes=_LARGE_MSS, count=writes, sndbuf_bytes=request, nodelay=nodelay
        )
    sent = segments_of(capture).data("client")["time_ns"]
    waits = [(int(b) - int(a)) / 1e6 for a, b in itertools.pairwise(sent)]
    granted = source.sndbuf_granted_bytes
    return SmallBuffer(
        requested_bytes=request,
        granted_bytes=granted,
        segments=send_window(granted, _LARGE_MSS) // _LARGE_MSS,
        receiver=receiver,
        nodelay=nodelay,
        writes=writes,
        stalls=sum(wait >= 20 for wait in waits),
        ms_per_write=source.usage.wall_s * 1e3 / writes,
    )
