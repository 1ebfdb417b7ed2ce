"""Build the timeline of messages that are simulated instead of recorded."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tcplab.models import Call, NetworkPath, Peer, message_calls, simulate
from tcplab.models.conversation import SimulatedPacket
from tcplab.segments import ACK, DTYPE, SYN, TCP, SegmentArray
from tcplab.timeline import Event, Exchange, Timeline

_CLIENT, _SERVER = 40_000, 5001  # port numbers
REPLY_BYTES: Final = 2
#: Number of messages simulated. figures.timeline omits the first by default, as it is not typical.
_MESSAGES: Final = 3
_START_NS: Final = 1_000_000_000
_NAMES: Final = {("cork", 1): "cork", ("cork", 0): "uncork"}


@lru_cache(maxsize=8)
def message_timeline(
    option: str, writes_bytes: tuple[int, ...], rtt_ms: float, quickack: str = "on"
) -> Timeline:
    """Return the timeline of messages sent with an option such as "cork" or "default+no_delay"."""
    option, nodelay = option.removesuffix("+no_delay"), option.endswith("no_delay")
    path = NetworkPath(rtt_ms=rtt_ms)
    peer = Peer(sum(writes_bytes), REPLY_BYTES, quickack)
    calls = (*message_calls(writes_bytes, option), Call("read", REPLY_BYTES)) * _MESSAGES
    simulation = simulate(calls, path, peer, nodelay=nodelay)
    begun = [
        *simulation.call_ms,
        max(packet.time_ms for packet in simulation.packets) + path.wakeup_ms,
    ]
    log = [
        _event(call, start, end) for call, (start, end) in zip(calls, pairwise(begun), strict=False)
    ]
    rows = [*_handshake(path), *map(_row, simulation.packets)]
    captured = np.zeros(len(rows), DTYPE)
    for number, row in enumerate(rows):
        for name, value in ({"packet": number} | row).items():
            captured[number][name] = value
    segments = captured.view(SegmentArray)
    return Exchange(None, log, segments, nodelay=nodelay).timeline()


def _event(call: Call, start_ms: float, end_ms: float) -> Event:
    if call.kind == "read":
        return Event(_ns(end_ms), "reply", call.value)
    name = _NAMES.get((call.kind, call.value), call.kind)
    return Event(_ns(start_ms), name, 0 if call.kind == "cork" else call.value)


def _handshake(path: NetworkPath) -> Iterator[dict[str, Any]]:
    syn = {"mss": 1460, "wscale": 7, "flags": SYN}
    yield _fields(True, -path.rtt_ms - path.wakeup_ms, syn)
    yield _fields(False, -path.wakeup_ms, syn | {"flags": SYN | ACK, "ack": 1})
    yield _fields(True, -path.wakeup_ms / 2, {"seq": 1, "ack": 1})


def _row(packet: SimulatedPacket) -> dict[str, Any]:
    size = packet.segment.payload_bytes if packet.segment else 0
    values = {"ack": packet.ack + 1, "payload_bytes": size}
    if packet.segment:
        values["seq"] = packet.segment.seq + 1
    return _fields(packet.outgoing, packet.time_ms, values)


def _fields(outgoing: bool, time_ms: float, values: dict[str, Any]) -> dict[str, Any]:
    source, target = (_CLIENT, _SERVER) if outgoing else (_SERVER, _CLIENT)
    ends = {"src_port": source, "dst_port": target, "protocol": TCP, "direction": int(not outgoing)}
    usual = {"flags": ACK, "window": 65_536, "wscale": -1, "gso_count": 1, "has_timestamps": True}
    return {"time_ns": _ns(time_ms), "outbound": int(outgoing)} | ends | usual | values


def _ns(time_ms: float) -> int:
    return _START_NS + round(time_ms * 1e6)
