"""Compute the cost of messages written in pieces, and the sizes of their segments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tcplab.checks import choice, whole
from tcplab.models.conversation import Call, NetworkPath, Peer, simulate
from tcplab.models.nagle import NagleSender, SimulatedSegment

OPTIONS: Final = ("default", "no_delay", "cork", "msg_more", "writev", "one write", "forgotten")
#: Number of earlier messages, which do not count because their ACKs are immediate.
WARM_UP: Final = 20


def message_calls(writes: Sequence[int], option: str = "default") -> tuple[Call, ...]:
    """Return the calls that send one message written in pieces.

    "default" and "no_delay" make one write per piece. TCP_NODELAY is left to the caller.
    "cork" sets TCP_CORK before the writes and clears it after them, and "forgotten" only sets it.
    "msg_more" flags every write except the last. "writev" and "one write" make a single call.
    """
    choice("option", option, OPTIONS)
    if not writes:
        raise ValueError("writes=[] must hold at least one size; a message has at least one byte")
    if option in ("writev", "one write"):
        return (Call("write", sum(writes)),)
    if option == "msg_more":
        return (*(Call("more", size) for size in writes[:-1]), Call("write", writes[-1]))
    pieces = tuple(Call("write", size) for size in writes)
    if option in ("cork", "forgotten"):
        return (Call("cork", 1), *pieces, *[Call("cork", 0)] * (option == "cork"))
    return pieces


@dataclass(frozen=True, slots=True)
class MessageCost:
    """The average cost of one message, after the warm-up."""

    ms_per_message: float  #: Time from the first call of a message to the first call of the next
    data_segments_per_message: float  #: Data segments that the client sends


def message_cost(
    writes: Sequence[int],
    option: str = "default",
    *,
    reply_bytes: int = 2,
    path: NetworkPath | None = None,
    peer: Peer | None = None,
    messages: int = 40,
) -> MessageCost:
    """Return the average cost of a message when a loop writes it in pieces and awaits the reply.

    In Red Hat's article on TCP_NODELAY and TCP_CORK, a message has 15 writes of 2 bytes and a
    2-byte reply. On one machine with 250 ticks per second it takes 44 ms by default (the article
    gives 40.0), and microseconds with TCP_NODELAY, TCP_CORK or one writev. The microseconds merely
    reflect `path.call_ms` and `path.wakeup_ms`.

    Args:
        writes, option: see :func:`message_calls`
        reply_bytes: size of the reply; with 0 the loop waits until everything is acknowledged, as
            in the first case of Microsoft's article on small writes with Winsock
        path: the network between the two ends
        peer: the other end. Its fields reply_every_bytes and reply_bytes are replaced
        messages: number of messages to average over, after WARM_UP
    """
    path, peer = path or NetworkPath(), peer or Peer()
    whole("messages", messages, 1, 10_000, fix="average over at least one")
    whole("reply_bytes", reply_bytes, 0, 1 << 20, fix="0 is for no reply")
    body = message_calls(writes, option)
    wait = Call("read", reply_bytes) if reply_bytes else Call("drain")
    every_bytes = sum(writes) if reply_bytes else 0
    peer = replace(peer, reply_every_bytes=every_bytes, reply_bytes=max(reply_bytes, 1))
    count = WARM_UP + messages
    # The first call of an extra message marks the end of the last measured one.
    result = simulate((*body, wait) * (count + 1), path, peer, nodelay=option == "no_delay")
    starts = result.call_ms[:: len(body) + 1]
    begin_ms, end_ms = starts[WARM_UP], starts[count]
    data = [segment for segment in result.data if begin_ms <= segment.time_ms < end_ms]
    return MessageCost((end_ms - begin_ms) / messages, len(data) / messages)


def segment_sizes(writes: Sequence[int], option: str = "default") -> tuple[tuple[int, ...], ...]:
    """Return the sizes of the segments in which successive writes leave, one tuple per flight.

    The first tuple holds the segments that leave before any ACK has come, the second one those that
    the ACK of the first flight releases, and so on. Bytes that only a timer would send are left
    out.

    >>> segment_sizes([4, 100])
    ((4,), (100,))
    >>> segment_sizes([1448, 100])
    ((1448, 100),)
    """
    sender = NagleSender(nodelay=option == "no_delay", window_bytes=1 << 20)
    flight: list[SimulatedSegment] = []
    for call in message_calls(writes, option):
        if call.kind == "cork":
            flight += sender.set_cork(bool(call.value), 0.0)
        else:
            flight += sender.write(call.value, 0.0, more=call.kind == "more")
    flights = []
    while flight:
        flights.append(tuple(segment.payload_bytes for segment in flight))
        flight = sender.ack(sender.next_seq, 0.0)
    return tuple(flights)
