"""From write() to wire: why each segment left when it did, and what it waited for.

:func:`explain` joins what the programs logged, what was captured beside the sender (and, if there
is one, beside the receiver), and what the kernel said of the connection, on one clock::

    with lab.client.capture() as capture:
        result = programs.small_writes(lab, "default", messages=3, log="client.log")
    timeline = explain(programs.read_log("client.log"), capture.segments, result.options)
    print("\\n".join(timeline.sentences()))

Every reason comes with its evidence. Where the evidence is missing the reason is ``unknown``, and
the field ``missing`` says what would have told it. `tcplab.models.Reason` names the reasons.

Sources: net/ipv4/tcp_output.c of Linux 6.18 (tcp_write_xmit, tcp_nagle_check, tcp_write_wakeup),
RFC 896, RFC 9293 (3.7.4, 3.8.6), RFC 6928, RFC 8985 (7), tcp(7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcplab.models import Reason
from tcplab.programs import Event, SocketOptions, TcpInfo
from tcplab.segments import SegmentArray
from tcplab.timeline.acks import explain_acks, with_fates
from tcplab.timeline.evidence import Evidence, gather
from tcplab.timeline.records import Ack, Hold, Mark, Segment, Stretch, Timeline, Write
from tcplab.timeline.replay import NO_LOG, Replay
from tcplab.timeline.rules import NO_OPTIONS
from tcplab.timeline.wire import wire_queue

__all__ = [
    "Ack",
    "Event",
    "Hold",
    "Mark",
    "Reason",
    "Segment",
    "Stretch",
    "Timeline",
    "Write",
    "explain",
]


def explain(
    log: Sequence[Event] | None,
    segments: SegmentArray,
    options: SocketOptions | None = None,
    *,
    peer_log: Sequence[Event] | None = None,
    peer_segments: SegmentArray | None = None,
    tcp_info: TcpInfo | None = None,
    samples: Sequence[Mapping[str, Any]] = (),
    counters: Mapping[str, int] | None = None,
    rate_mbit: float | None = None,
    connection: int | None = None,
    sender: str | None = None,
    nodelay: bool | None = None,
) -> Timeline:
    """Why each data segment of one sender left when it did. A pure function.

    Args:
        log: what the sender's application did (see programs.read_log). Events "write" and "more" (a
            write with MSG_MORE) stand at the start of the call; "wrote" (optional, with the bytes
            that TCP took), "reply", "read" and "acknowledged" at the end; "cork", "uncork" and
            "nodelay" at either.
            None if there is no log: then only full segments and retransmissions can be explained.
        segments: a capture on the sender's interface (`capture.segments`).
        options: the sender's socket (`result.options`): which connection, TCP_NODELAY, SO_SNDBUF.
        peer_log: what the peer's application did.
        peer_segments: a capture on the peer's interface, on the same clock: tells the delay of each
            ACK, and what waited in the wire.
        tcp_info: TCP_INFO of the sender at the end (`result.tcp_info`).
        samples: TCP_INFO of the sender now and then, each with the key "time_ns"
            (CLOCK_REALTIME).
        counters: by how much TcpExt counters of the sender's host grew, such as "TCPAutoCorking".
        rate_mbit: rate of the wire in 10^6 bit/s, if it is known.
        connection: its number in the capture; needed if there are several and no options.
        sender: "client" or "server"; from the options, else the client.
        nodelay: whether TCP_NODELAY was set at the start, if no options tell it.

    Raises:
        ValueError: the pieces don't belong together, the clock stepped, the capture is empty, or
            holds several connections. One line.
    """
    evidence = gather(
        log,
        segments,
        options,
        peer_log=peer_log,
        peer_segments=peer_segments,
        tcp_info=tcp_info,
        samples=samples,
        counters=counters,
        rate_mbit=rate_mbit,
        connection=connection,
        sender=sender,
        nodelay=nodelay,
    )
    replay = Replay(evidence).run()
    found, queues = wire_queue(evidence, with_fates(evidence, replay.segments))
    rtt_ns = evidence.rtt_ns
    return Timeline(
        connection=evidence.connection,
        mss_bytes=replay.mss_bytes,
        rtt_ms=None if rtt_ns is None else rtt_ns / 1e6,
        nodelay=evidence.nodelay,
        writes=replay.writes,
        marks=replay.marks,
        segments=found,
        acks=explain_acks(evidence, found),
        holds=sorted([*replay.holds, *queues], key=lambda hold: hold.start_ns),
        peer_marks=[Mark(*event, message=0) for event in peer_log or ()],
        missing=_missing(evidence, replay),
        samples=evidence.samples,
    )


def _missing(evidence: Evidence, replay: Replay) -> list[str]:
    missing = []
    if evidence.log is None:
        missing.append(NO_LOG)
    if evidence.nodelay is None:
        missing.append(NO_OPTIONS)
    if not evidence.saw_syn:
        missing.append("the start of the connection: MSS, window scale, congestion window")
    if evidence.cut_ns is not None:
        missing.append(f"packets: the capture ends {evidence.cut_ns / 1e6:.1f} ms before the log")
    for start, end in replay.gaps:
        missing.append(
            f"segments: {end - start} bytes from offset {start} on are not in the capture"
        )
    return missing
