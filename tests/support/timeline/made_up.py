"""Captures made up row by row, for a connection between ports 40000 and 5001, and explained."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcplab.programs import Event, SocketOptions
from tcplab.segments import ACK, DTYPE, PSH, SYN, SegmentArray
from tcplab.timeline import Exchange, Timeline, explain

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000


def ns(time_ms: float) -> int:
    """Convert ms after the handshake to the time of a capture or a log."""
    return START_NS + round(time_ms * MS)


def row(time_ms: float, outgoing: bool, **values: Any) -> dict[str, Any]:
    """Return a row; seq and ack are offsets of data bytes, as in tcplab.timeline."""
    ports = (40_000, 5001) if outgoing else (5001, 40_000)
    usual: dict[str, Any] = {
        "time_ns": ns(time_ms),
        "connection": 0,
        "protocol": 6,
        "direction": int(not outgoing),
        "outbound": int(outgoing),
        "src_port": ports[0],
        "dst_port": ports[1],
        "payload_bytes": 0,
        "wire_bytes": 66 + values.get("payload_bytes", 0),
        "flags": ACK,
        "window": 65_160,
        "window_shift": 7,
        "wscale": -1,
        "has_timestamps": True,
        "gso_count": 1,
    }
    values = dict(values)
    for name in ("seq", "ack"):
        values[name] = values.get(name, 0) + 1
    return usual | values


def handshake(rtt_ms: float = 0.1, mss: int = 1460) -> list[dict[str, Any]]:
    """Return SYN, SYN-ACK and ACK before time 0."""
    syn = {"seq": -1, "mss": mss, "wscale": 7}
    return [
        row(-2 * rtt_ms, True, flags=SYN, ack=-1, **syn),
        row(-rtt_ms, False, flags=SYN | ACK, ack=0, **syn),
        row(-rtt_ms, True),
    ]


def data(time_ms: float, seq: int, size: int, **values: Any) -> dict[str, Any]:
    """Return a data segment of the sender."""
    return row(time_ms, True, seq=seq, payload_bytes=size, flags=ACK | PSH, **values)


def ack(time_ms: float, upto: int, **values: Any) -> dict[str, Any]:
    """Return an ACK of the peer."""
    return row(time_ms, False, ack=upto, **values)


def capture(rows: Sequence[dict[str, Any]]) -> SegmentArray:
    """Return a capture of the rows in the given order."""
    made = np.zeros(len(rows), DTYPE)
    for i, values in enumerate(rows):
        made[i]["packet"] = i
        for name, value in values.items():
            made[i][name] = value
    return made.view(SegmentArray)


def socket_options(**values: Any) -> SocketOptions:
    """Return the usual options of the sender's socket, changed by these values."""
    usual: dict[str, Any] = {
        "sndbuf_bytes": 46_080,
        "rcvbuf_bytes": 131_072,
        "local": "10.0.0.1 port 40000",
        "peer": "10.0.0.2 port 5001",
        "cpu": None,
        "deadline_s": 30.0,
        "congestion": "reno",
        "mss_bytes": 1448,
        "nodelay": False,
    }
    return SocketOptions(**usual | values)


def explain_evidence(
    log: Sequence[Event] | None,
    segments: SegmentArray,
    options: SocketOptions | None = None,
    *,
    connection: int | None = None,
    sender: str | None = None,
    **evidence: Any,
) -> Timeline:
    """Return the timeline of an exchange without a result; keywords add further evidence."""
    exchange = Exchange(None, log, segments, options=options, **evidence)
    return explain(exchange, connection=connection, sender=sender)
