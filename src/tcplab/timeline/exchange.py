"""Record a conversation between two programs, and explain what its sender did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcplab.segments.left_out import opaque
from tcplab.timeline.acks import add_arrivals, explain_acks
from tcplab.timeline.evidence import Evidence, ExchangeData, R
from tcplab.timeline.parts import Mark
from tcplab.timeline.replay import NO_LOG, Replay
from tcplab.timeline.rules import NO_OPTIONS
from tcplab.timeline.timeline import Timeline
from tcplab.timeline.wire_queue import wire_queue


@dataclass(frozen=True, slots=True)
class Exchange(ExchangeData[R]):
    """Everything recorded of one conversation, which can be explained."""

    def timeline(self) -> Timeline:
        """Explain the segments of the sender; see :func:`explain`."""
        return explain(self)


def explain(
    exchange: ExchangeData[Any], *, connection: int | None = None, sender: str | None = None
) -> Timeline:
    """Explain why each data segment of one sender left when it did.

    Args:
        exchange: the recording
        connection: the connection's number in the capture, required if several connections carry
            data and there are no options
        sender: "client" or "server", by default the end in the options, or else the client

    Raises:
        ValueError: the recordings do not match, a clock stepped back, nothing was recorded, or the
            connection cannot be determined
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
        missing.append("the start of the connection: MSS, window scale, congestion window")
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
