"""Recognize faults apart from the division of time, and describe a program that is awaited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tcplab.explain.activity import Activities
from tcplab.explain.causes import CAUSES
from tcplab.explain.intervals import Interval, merged
from tcplab.explain.joining import Conversation, arrivals_at
from tcplab.explain.recording import CommandExchange
from tcplab.explain.shares import Division
from tcplab.programs import SocketCalls
from tcplab.programs.calls import HANDS_OVER
from tcplab.segments import FIN, RST
from tcplab.tables import ms

#: An MSS of at most this many bytes is small (RFC 9293 gives 536 as the default).
_SMALL_MSS: Final = 536
_MANY_SEGMENTS: Final = 200
#: A wait on a connection that was not captured is Nagle × delayed ACK if it is as long as the
#: timer, and the kernel still holds a small write.
_TIMER_NS: Final = (35_000_000, 250_000_000)
_PATTERN: Final = 3
#: A smaller share of the time is not worth a word.
_LEAST: Final = 0.1


@dataclass(frozen=True, slots=True)
class Fact:
    """A fault that the record shows, apart from the division of time."""

    cause: str
    side: str
    title: str
    evidence: str
    fix: str
    conversations: int = 1
    waited: Sequence[Interval] = ()  #: Time that it cost, if this is known


# ---- resets --------------------------------------------------------------------------------------


def resets(recorded: CommandExchange, conversations: Sequence[Conversation]) -> Iterator[Fact]:
    """Yield the resets (RST) of connections that the other side was still using."""
    found: dict[str, list[tuple[Conversation, str]]] = defaultdict(list)
    for conversation in conversations:
        if (kind := _reset(conversation)) is not None:
            found[kind[0]].append((conversation, kind[1]))
    for cause, several in found.items():
        waited = [interval for one, _text in several for interval in _retried(recorded, one)]
        title, fix = CAUSES[cause]["title"], CAUSES[cause]["fix"]
        times = f" ({len(several)} times)" * (len(several) > 1)
        yield Fact(cause, "server", title, several[0][1] + times, fix, len(several), waited)


def _reset(conversation: Conversation) -> tuple[str, str] | None:
    """Return the kind of the server's reset and its evidence, or None if it did no harm."""
    rows = conversation.rows
    from_server = rows["direction"] == 1
    rsts = rows["time_ns"][from_server & (rows["flags"] & RST != 0)]
    if not len(rsts) or not len(conversation.syns("server")):
        return None
    reset_ns = int(rsts[0])
    ended = rows["time_ns"][~from_server & (rows["flags"] & (FIN | RST) != 0)]
    fins = rows["time_ns"][from_server & (rows["flags"] & FIN != 0)]
    if len(ended) and int(ended[0]) < reset_ns:
        # The client had ended the connection. What it sent after the server's last data is a
        # farewell, such as TLS's close_notify.
        lost = _lost_times(conversation)
        answers = rows["time_ns"][from_server & (rows["payload_bytes"] > 0)]
        if not len(lost) or (len(answers) and bool((lost > int(answers.max())).all())):
            return None
    client, server = (conversation.sockets.get(side) for side in ("client", "server"))
    if not _was_used(conversation, client, reset_ns):
        return None
    unread = 0
    if server is not None:
        closes = [call for call in server.calls if call.name == "close"]
        unread = closes[-1].unread if closes else 0
    if unread:
        return "reset-unread", f"the server closed the connection with {unread} bytes unread"
    sent = rows["time_ns"][~from_server & (rows["payload_bytes"] > 0)]
    late = len(fins) and len(sent) and bool((sent > int(fins[0]) - conversation.rtt_ns).any())
    if not late:
        return "reset", "the server's host reset the connection while the client was using it"
    upload = int(rows["payload_bytes"][~from_server & (rows["time_ns"] < int(fins[0]))].sum())
    answered = int(rows["payload_bytes"][from_server].sum())
    if upload and not _is_idle(conversation, int(fins[0])):
        return "reset-unread", f"the server closed while the client was sending ({upload} bytes)"
    after = f"after {answered} bytes of answers, " * bool(answered)
    return "keep-alive-race", f"{after}the server's FIN and the client's request crossed"


def _was_used(conversation: Conversation, client: SocketCalls | None, reset_ns: int) -> bool:
    """Return whether the client wrote or waited around the reset, so that it lost something."""
    rows = conversation.rows
    if client is not None:
        late = [call for call in client.calls if call.time_ns > reset_ns - conversation.rtt_ns]
        last = client.calls[-1:]
        return any(call.name in (*HANDS_OVER, "read") for call in [*late, *last])
    sent = rows["time_ns"][(rows["direction"] == 0) & (rows["payload_bytes"] > 0)]
    return bool(len(sent)) and bool(len(_lost_times(conversation)))


def _lost_times(conversation: Conversation) -> Any:
    """Return when the client's data left that the server's host never acknowledged."""
    rows = conversation.rows
    acked = rows[(rows["direction"] == 1) & (rows["flags"] & RST == 0)]["ack"].max(initial=0)
    ends = rows["seq"] + rows["payload_bytes"]
    lost = (rows["direction"] == 0) & (rows["payload_bytes"] > 0) & (ends > acked)
    return rows["time_ns"][lost]


def _is_idle(conversation: Conversation, fin_ns: int) -> bool:
    """Return whether nothing was sent for two round trips before the server's FIN."""
    rows = conversation.rows
    came_ns = fin_ns - conversation.rtt_ns  # a request that leaves later crosses the FIN
    data = rows["time_ns"][(rows["payload_bytes"] > 0) & (rows["time_ns"] < came_ns)]
    return not len(data) or fin_ns - int(data[-1]) > 2 * max(conversation.rtt_ns, 10_000_000)


def _retried(recorded: CommandExchange, conversation: Conversation) -> Iterator[Interval]:
    """Yield the pause of a client after a reset, before it goes on."""
    client = conversation.sockets.get("client")
    if client is None or not client.calls:
        return
    last = client.calls[-1]
    activities = Activities(recorded.client, recorded.span_ns[1])
    if (pause := activities.pause_after(last.pid, last.time_ns)) is not None:
        yield pause


# ---- small MSS -----------------------------------------------------------------------------------


def small_mss(conversations: Sequence[Conversation]) -> Iterator[Fact]:
    """Yield the sender with the most segments of a small MSS."""
    senders = [
        (len(timeline.segments), side, timeline.mss_bytes, conversation)
        for conversation in conversations
        for side, timeline in conversation.timelines.items()
        if timeline.mss_bytes is not None
        and timeline.mss_bytes <= _SMALL_MSS
        and sum(segment.gso_count for segment in timeline.segments) >= _MANY_SEGMENTS
    ]
    if not senders:
        return
    _count, side, mss, conversation = max(senders, key=lambda sender: sender[0])
    timeline = conversation.timelines[side]
    count = sum(segment.gso_count for segment in timeline.segments)
    set_by = [
        f"the {whose} set TCP_MAXSEG to {size}"
        for whose, socket in conversation.sockets.items()
        if (size := socket.fixed("maxseg")) is not None
    ]
    offered = conversation.rows["mss"][conversation.rows.is_syn].tolist()
    why = " and ".join(set_by) or f"the SYNs offer an MSS of {' and '.join(map(str, offered))}"
    yield Fact(
        "small-mss",
        side,
        "a small MSS",
        f"{why}, so the {side} sends {count} segments of at most {mss} bytes; the congestion window"
        " counts segments, so that slow start takes longer, too",
        "do not set TCP_MAXSEG" if set_by else "find what lowers the MSS: a small MTU, or a router",
    )


# ---- connections within a host -------------------------------------------------------------------


def held_inside(recorded: CommandExchange, conversations: Sequence[Conversation]) -> Iterator[Fact]:
    """Yield Nagle × delayed ACK on a connection whose packets were not captured."""
    for whose, log in (("server", recorded.server), ("client", recorded.client)):
        if log is None:
            continue
        used = {
            one.cookie
            for conversation in conversations
            if (one := conversation.sockets.get(whose)) is not None
        }
        for peer, sockets in _by_peer(
            socket for socket in log.sockets if socket.cookie not in used
        ):
            waited = [interval for socket in sockets for interval in _held(socket)]
            if len(waited) >= _PATTERN:
                took = sorted(end - start for start, end in waited)
                yield Fact(
                    "nagle-delayed-ack",
                    whose,
                    f"Nagle × delayed ACK on the {whose}'s own connection to {peer}",
                    f"by its calls alone, because this connection is not captured: {len(waited)}"
                    f" times the {whose} waited {took[len(took) // 2] / 1e6:.0f} ms for an answer"
                    " while its kernel held a small write behind an unacknowledged one"
                    " (TCP_NODELAY is off)",
                    "hand each message over in one write (a buffer, writev()), or set TCP_NODELAY"
                    " on that connection",
                    len(sockets),
                    merged(waited),
                )


def _by_peer(sockets: Iterator[SocketCalls]) -> Iterator[tuple[str, list[SocketCalls]]]:
    by_peer: dict[str, list[SocketCalls]] = defaultdict(list)
    for socket in sockets:
        by_peer[" port ".join(map(str, socket.peer))].append(socket)
    yield from by_peer.items()


def _held(socket: SocketCalls) -> Iterator[Interval]:
    nodelay = socket.nodelay
    for call, after in pairwise(socket.calls):
        changed = [value for t, name, value in socket.options if name == "nodelay"]
        small = 0 < call.notsent_bytes < (socket.mss_bytes or 536)
        waits = call.name == "read" and _TIMER_NS[0] <= after.time_ns - call.time_ns <= _TIMER_NS[1]
        if waits and small and call.unacked and not (nodelay or any(changed)):
            yield call.time_ns, after.time_ns


# ---- what the awaited program did ----------------------------------------------------------------


def doings_of(
    side: str,
    recorded: CommandExchange,
    conversations: Sequence[Conversation],
    divisions: Sequence[Division],
) -> str:
    """Return what a program did while the other side waited for it, or "" if that is unknown."""
    log = recorded.server if side == "server" else recorded.client
    if log is None or not log.used:
        return ""
    sockets = [conversation.sockets.get(side) for conversation in conversations]
    activities = Activities(log, recorded.span_ns[1], arrivals_at(conversations, side))
    total: dict[tuple[str, str], float] = defaultdict(float)
    for socket, division in zip(sockets, divisions, strict=True):
        if socket is not None and (awaited := division.intervals.get(side)):
            threads = {call.pid for call in socket.calls}
            for what, took_ms in activities.divided(awaited, threads).items():
                total[what] += took_ms
    whole = sum(total.values())
    parts = [
        f"{ms(took_ms)} {CAUSES['awaited'][kind]}{f' {where}' * bool(where)}"
        for (kind, where), took_ms in sorted(total.items(), key=lambda item: -item[1])
        if took_ms >= _LEAST * whole
    ]
    return ", ".join(parts)
