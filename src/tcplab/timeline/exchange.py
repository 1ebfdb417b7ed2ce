"""Record a conversation between two programs, and explain what its sender did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tcplab.programs import Event, SocketOptions
from tcplab.programs.reports import TcpInfo
from tcplab.segments import SegmentArray
from tcplab.segments.left_out import opaque
from tcplab.timeline.acks import add_arrivals, explain_acks
from tcplab.timeline.evidence import Evidence
from tcplab.timeline.parts import Mark
from tcplab.timeline.replay import NO_LOG, Replay
from tcplab.timeline.rules import NO_OPTIONS
from tcplab.timeline.timeline import Timeline
from tcplab.timeline.wire_queue import wire_queue

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Exchange(Generic[R]):
    """Everything recorded of one conversation, which can be explained."""

    result: R  #: The report of the programs, or None
    #: Calls of the sender's application (see programs.read_log), or None. "write" and "more" (a
    #: write with MSG_MORE) have the time at which the call began. "wrote" (optional, with the bytes
    #: that TCP took), "read", "acknowledged" and a client's "reply" have that at which it ended.
    #: Without a log, only full segments and retransmissions can be explained
    log: Sequence[Event] | None = None
    segments: SegmentArray | None = None  #: Captured at the sender; None on plain loopback
    peer_log: Sequence[Event] | None = None  #: Calls of the peer's application
    #: Captured at the peer, on the same clock. It shows the delay of each ACK and the queue of the
    #: link
    peer_segments: SegmentArray | None = None
    drops: int | None = None  #: Packets that the recorders dropped, or None without a recording
    options: SocketOptions | None = None  #: Options of the sender's socket
    tcp_info: TcpInfo | None = None  #: TCP_INFO of the sender at the end
    #: Samples of the sender's TCP_INFO, each with the key "time_ns" (CLOCK_REALTIME)
    samples: Sequence[Mapping[str, Any]] = ()
    #: Rate of the link in 10^6 bit/s, infinite if it has no limit, or None if it is unknown
    rate_mbit: float | None = None
    nodelay: bool | None = None  #: TCP_NODELAY at the start; None for that of the options

    @property
    def captured(self) -> SegmentArray:
        """The segments on the sender's interface. Raises ValueError if there is no capture."""
        if self.segments is None:
            raise ValueError("no segments were recorded on plain loopback; measure in a Lab")
        return self.segments

    def timeline(self) -> Timeline:
        """Explain the segments of the sender; see :func:`explain`."""
        return explain(self)


def explain(
    exchange: Exchange[Any], *, connection: int | None = None, sender: str | None = None
) -> Timeline:
    """Explain why each data segment of one sender left when it did, or raise ValueError.

    Several connections with data need a number, unless the options name one. The sender is "client"
    or "server", by default the end in the options, or else the client.
    """
    evidence = Evidence(exchange, connection, sender)
    replay = Replay(evidence).run()
    add_arrivals(evidence, replay.segments)
    queues = wire_queue(evidence, replay.segments)
    rtt_ns = evidence.rtt_ns
    return Timeline(
        connection=evidence.connection,
        mss_bytes=replay.sender.mss_bytes,
        rtt_ms=None if rtt_ns is None else rtt_ns / 1e6,
        nodelay=evidence.nodelay,
        writes=replay.writes,
        marks=replay.marks,
        segments=replay.segments,
        acks=explain_acks(evidence, replay.segments),
        holds=sorted([*replay.holds, *queues], key=lambda hold: hold.start_ns),
        peer_marks=[Mark(*event, message=0) for event in exchange.peer_log or ()],
        missing=_missing(evidence, replay),
        samples=evidence.samples,
    )


def _missing(evidence: Evidence, replay: Replay) -> list[str]:
    missing = [*evidence.notes]
    missing += [NO_LOG] * (evidence.log is None) + [NO_OPTIONS] * (evidence.nodelay is None)
    if not evidence.saw_syn:
        missing.append("the start of the connection: MSS, windows; the client is taken by its port")
    if evidence.copies:
        missing.append(
            f"{evidence.copies} packets were recorded twice (the same IP ID, TCP timestamp, or all"
            " packets alike): the copies are left out"
        )
    if evidence.at_peer:
        missing.append(
            f"{evidence.connection}: the times at which this sender's segments left. The handshake"
            " shows that the capture was made at the peer, so their times are those of arrivals"
        )
    if evidence.cut_ns is not None:
        missing.append(f"packets: the capture ends {evidence.cut_ns / 1e6:.1f} ms before the log")
    if unread := opaque(evidence.exchange.captured.left_out):
        kinds = ", ".join(f"{count} {what}" for what, count in unread.items())
        missing.append(f"packets that were not read: {kinds}")
    for start, end in replay.gaps:
        missing.append(f"segments: {end - start} bytes from offset {start} are not in the capture")
    return missing
