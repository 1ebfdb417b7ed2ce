"""List one message's events (calls, segments, ACKs, timers) with the sender's rule for each.

The message is from the middle of a conversation. The first message would hide the rule, because it
is acknowledged immediately (quickack mode).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from tcplab.models.conversation import Call, NetworkPath, Peer, SimulatedPacket, simulate
from tcplab.models.messages import message_calls
from tcplab.models.nagle import NagleSender, SenderState, SimulatedSegment
from tcplab.models.reasons import Reason

REPLY_BYTES: Final = 2
#: The steps are those of the last of this many messages; the model plays one more after it.
MESSAGES: Final = 4

Kind = Literal["call", "segment", "ack", "reply", "timer"]

_WHY: Final[Mapping[Reason, str]] = {
    Reason.SENT_AT_ONCE: "nothing forbids it",
    Reason.FULL_SIZED: "a full segment never waits for Nagle",
    Reason.RELEASED_BY_ACK: "the ACK it waited for has come",
    Reason.UNCORKED: "the cork was pulled",
    Reason.CORK_TIMEOUT: "the cork's time is up",
    Reason.TAIL_LOSS_PROBE: "an ACK is overdue, so it probes",
    Reason.RETRANSMISSION: "no ACK came in time",
    Reason.MSG_MORE: "MSG_MORE could not hold it any longer",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One event at the sender."""

    #: Time since the first call of the message.
    time_ms: float
    #: The kind of event.
    kind: Kind
    #: The event in words.
    text: str
    #: Size of a write, segment or reply; otherwise 0.
    bytes: int = 0
    #: The rule after the event, or empty if unknown.
    why: str = ""
    #: The sender's visible state after the event, by name, or empty if unknown.
    state: Mapping[str, str] = field(default_factory=dict)


def message_steps(
    option: str, writes_bytes: Sequence[int], rtt_ms: float, quickack: str = "on"
) -> list[Step]:
    """Return the model's events of one message, with the sender's state after each.

    Args:
        option: the sender's option, see :func:`message_calls`. "+no_delay" appended sets
            TCP_NODELAY too
        quickack: the receiver's setting, see :class:`Peer`
    """
    option, nodelay = option.removesuffix("+no_delay"), option.endswith("no_delay")
    count = len(message_calls(writes_bytes, option)) + 1
    calls, packets = _conversation(option, nodelay, tuple(writes_bytes), rtt_ms, quickack)
    path = NetworkPath(rtt_ms=rtt_ms)
    rtt_ms = path.rtt_ms + path.wakeup_ms
    sender = NagleSender(nodelay=nodelay, rtt_ms=rtt_ms, clock=path.clock)
    begin_ms, end_ms = calls[count * (MESSAGES - 1)][0], calls[count * MESSAGES][0]
    steps = []
    for time_ms, event in _in_order(calls, packets, sender):
        if time_ms >= end_ms and not isinstance(event, SimulatedPacket):
            break
        left, text, kind = _feed(sender, event, time_ms)
        if time_ms < begin_ms:
            continue
        after_ms = time_ms - begin_ms
        why = " ".join(_sentence(part) for part in (*map(_leaves, left), sender.state.why))
        state = _visible(sender.state)
        steps.append(Step(after_ms, kind, text, _bytes(event), why, state))
        for segment in left:
            text = f"{segment.payload_bytes} bytes, {_reason(segment)}"
            steps.append(Step(after_ms, "segment", text, segment.payload_bytes, why, state))
    return steps


@lru_cache(maxsize=8)
def _conversation(
    option: str, nodelay: bool, writes_bytes: tuple[int, ...], rtt_ms: float, quickack: str
) -> tuple[tuple[tuple[float, Call], ...], tuple[SimulatedPacket, ...]]:
    """Return the client's calls with their times, and the packets that arrive at it."""
    every_bytes = sum(writes_bytes)
    peer = Peer(reply_every_bytes=every_bytes, reply_bytes=REPLY_BYTES, quickack=quickack)
    body = (*message_calls(writes_bytes, option), Call("read", REPLY_BYTES))
    schedule = body * (MESSAGES + 1)
    result = simulate(schedule, NetworkPath(rtt_ms=rtt_ms), peer, nodelay=nodelay)
    arriving = tuple(packet for packet in result.packets if not packet.outgoing)
    return tuple(zip(result.call_ms, schedule, strict=False)), arriving


def _in_order(
    calls: Sequence[tuple[float, Call]], packets: Sequence[SimulatedPacket], sender: NagleSender
) -> Iterator[tuple[float, Call | SimulatedPacket | None]]:
    """Yield calls, packets and, as they fall due, the sender's timers (None)."""
    known: list[tuple[float, Call | SimulatedPacket]] = [
        *calls,
        *((packet.time_ms, packet) for packet in packets),
    ]
    for time_ms, event in sorted(known, key=lambda item: item[0]):
        while (due := sender.next_timer_ms) is not None and due <= time_ms:
            yield due, None
        yield time_ms, event


def _feed(
    sender: NagleSender, event: Call | SimulatedPacket | None, time_ms: float
) -> tuple[list[SimulatedSegment], str, Kind]:
    """Pass one event to the sender; return the segments that leave, a description, and its kind."""
    if event is None:
        return sender.timer(time_ms), f"{sender.state.timer or 'the timer'} is due", "timer"
    if isinstance(event, SimulatedPacket):
        left = sender.ack(event.ack, time_ms)
        if event.segment is None:
            rule = event.why or "pure ACK"
            return left, f"all before byte {event.ack} has arrived ({rule})", "ack"
        return (
            left,
            f"{event.segment.payload_bytes} bytes, and the ACK of byte {event.ack}",
            "reply",
        )
    if event.kind in ("write", "more"):
        flag = " with MSG_MORE" if event.kind == "more" else ""
        left = sender.write(event.value, time_ms, more=event.kind == "more")
        return left, f"write of {event.value} bytes{flag}", "call"
    if event.kind == "cork":
        left = sender.set_cork(bool(event.value), time_ms)
        return left, f"TCP_CORK {'on' if event.value else 'off'}", "call"
    return [], f"read: waits for {event.value} bytes", "call"


def _bytes(event: Call | SimulatedPacket | None) -> int:
    if isinstance(event, SimulatedPacket):
        return event.segment.payload_bytes if event.segment else 0
    return event.value if event is not None and event.kind in ("write", "more") else 0


def _leaves(segment: SimulatedSegment) -> str:
    return f"{segment.payload_bytes} bytes leave: {_reason(segment)}"


def _reason(segment: SimulatedSegment) -> str:
    return _WHY.get(segment.reason, str(segment.reason))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _visible(state: SenderState) -> dict[str, str]:
    return {
        "waiting": f"{state.queued_bytes} B",
        "unacknowledged": f"{state.unacked_bytes} B",
        "small one out": "yes" if state.small_outstanding else "no",
        "corked": "yes" if state.corked else "no",
        "timer": state.timer or "none",
    }
