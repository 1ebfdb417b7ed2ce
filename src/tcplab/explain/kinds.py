"""Recognize faults apart from the division of time, and describe a program that is awaited."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median_high
from typing import Final

import numpy as np

from tcplab.explain.activity import Activities
from tcplab.explain.causes import CAUSES
from tcplab.explain.intervals import Interval, merged
from tcplab.explain.joining import Conversation, arrivals_at
from tcplab.explain.recording import CommandExchange
from tcplab.explain.shares import Division
from tcplab.models import Reason
from tcplab.programs import SocketCalls
from tcplab.programs.calls import HANDS_OVER
from tcplab.segments import SegmentArray
from tcplab.tables import ms
from tcplab.timeline import Segment, Timeline

#: An MSS of at most this many bytes is small (RFC 9293 gives 536 as the default).
_SMALL_MSS: Final = 536
_MANY_SEGMENTS: Final = 200
#: A shorter run of small segments is a message in several parts.
_RUN: Final = 20
#: A program that pauses for longer is right to send at once, because waiting would add delay.
_PUSH_NS: Final = 1_000_000
#: At least this many segments must be unnecessary, and at least this share of all the sender's
#: segments.
_TOO_MANY: Final = 100
_NEEDLESS: Final = 0.5
#: A wait on a connection that was not captured is Nagle × delayed ACK if it is as long as the
#: timer, and the kernel still holds a small write.
_TIMER_NS: Final = (35_000_000, 250_000_000)
_PATTERN: Final = 3
#: A client that ends a connection sends its farewell at most this long before.
_FAREWELL_NS: Final = 5_000_000
#: TLS's farewell, the record close_notify, is not longer (RFC 5246, 6.2.3.2, with AES and SHA-384).
_CLOSE_NOTIFY_BYTES: Final = 85
#: A smaller share of the time is not worth a word.
_LEAST: Final = 0.1

#: The name of a fault in causes.toml, its facts, and the time that it cost, if this is known.
Fault = tuple[str, dict[str, object], Sequence[Interval]]


def faults(
    recorded: CommandExchange | None, conversations: Sequence[Conversation]
) -> Iterator[Fault]:
    """Yield the faults that the record shows, apart from the division of time."""
    yield from _small_segments(conversations)
    yield from _small_mss(conversations)
    if recorded is not None:
        yield from _resets(recorded, conversations)
        yield from _held_inside(recorded, conversations)
    sides = {one.only for one in conversations if not one.failure}
    if len(sides) == 1 and "" not in sides:
        yield "one-direction", {"side": sides.pop()}, ()


# ---- resets --------------------------------------------------------------------------------------


def _resets(recorded: CommandExchange, conversations: Sequence[Conversation]) -> Iterator[Fault]:
    """Yield the resets (RST) of connections that the other side was still using."""
    found: dict[str, list[tuple[Conversation, str]]] = defaultdict(list)
    for conversation in conversations:
        if (kind := _reset(conversation)) is not None:
            found[kind[0]].append((conversation, kind[1]))
    came = arrivals_at(conversations, "client")
    activities = Activities(recorded.client, recorded.span_ns[1], came)
    for cause, several in found.items():
        # The client's pause after a reset, before it goes on, is time that it costs.
        calls = [one.sockets["client"].calls for one, _text in several if "client" in one.sockets]
        pauses = [activities.pause_after(some[-1].pid, some[-1].time_ns) for some in calls if some]
        waited = [pause for pause in pauses if pause is not None]
        times = f" ({len(several)} times)" * (len(several) > 1)
        yield cause, {"evidence": several[0][1] + times}, waited


def _reset(conversation: Conversation) -> tuple[str, str] | None:
    """Return the kind of the server's reset and its evidence, or None if it did no harm."""
    rows = conversation.rows
    client, server = rows.sent_by("client"), rows.sent_by("server")
    sent, answers = rows.data("client"), rows.data("server")
    rsts, fins = server["time_ns"][server.is_rst], server["time_ns"][server.is_fin]
    if not len(rsts) or not len(conversation.syns("server")):
        return None
    reset_ns = int(rsts[0])
    ended = client["time_ns"][client.is_fin | client.is_rst]
    if len(ended) and int(ended[0]) < reset_ns:
        # The client had ended the connection. What it sent after the server's last data, and just
        # before its own end, is a farewell. TLS's is short, and may cross the server's equal one.
        lost, heard, farewell_ns = _lost(conversation), answers, int(ended[0]) - _FAREWELL_NS
        size = int(lost["payload_bytes"].max(initial=0))
        if conversation.is_tls and size <= _CLOSE_NOTIFY_BYTES:
            heard, farewell_ns = answers[answers["payload_bytes"] != size], 0
        latest_ns = max(heard["time_ns"].max(initial=0), farewell_ns)
        is_farewell = bool((lost["time_ns"] > latest_ns).all()) and not _asks_last(conversation)
        if not len(lost) or (len(heard) and is_farewell):
            return None
    late = sent["payload_bytes"][sent["time_ns"] > fins.min(initial=1 << 62)]
    if conversation.is_tls and 0 < late.max(initial=0) <= _CLOSE_NOTIFY_BYTES:
        return None  # TLS's farewell, which answers the server's FIN
    if not _was_used(conversation, reset_ns):
        return None
    socket = conversation.sockets.get("server")
    closes = [call for call in socket.calls if call.name == "close"] if socket else []
    if closes and (unread := closes[-1].unread):
        return "reset-unread", f"the server closed the connection with {unread} bytes unread"
    upload = int(sent["payload_bytes"][sent["time_ns"] < int([*fins, reset_ns][0])].sum())
    # Without a FIN, data came between the recorder's look at the socket and the close itself.
    is_cut = not len(fins) and bool(closes) and upload > closes[-1].read
    if not is_cut and not (sent["time_ns"] > fins.min(initial=1 << 62) - conversation.rtt_ns).any():
        return "reset", "the server's host reset the connection while the client was using it"
    if upload and (is_cut or not _is_idle(conversation, int(fins[0]))):
        return "reset-unread", f"the server closed while the client was sending ({upload} bytes)"
    answered = int(answers["payload_bytes"].sum())
    after = f"after {answered} bytes of answers, " * bool(answered)
    return "keep-alive-race", f"{after}the server's FIN and the client's request crossed"


def _was_used(conversation: Conversation, reset_ns: int) -> bool:
    """Return whether the client wrote or waited around the reset, so that it lost something."""
    if (client := conversation.sockets.get("client")) is not None:
        late = [call for call in client.calls if call.time_ns > reset_ns - conversation.rtt_ns]
        used = any(call.name in (*HANDS_OVER, "read") for call in [*late, *client.calls[-1:]])
        return used or _asks_last(conversation)
    return bool(len(_lost(conversation)))


def _asks_last(conversation: Conversation) -> bool:
    """Return whether the client's last call was a read, for the answer to data that was lost."""
    lost, answers = _lost(conversation), conversation.rows.data("server")
    socket = conversation.sockets.get("client")
    calls = [call.name for call in socket.calls if call.name != "close"] if socket else []
    unanswered = lost["time_ns"].max(initial=0) > answers["time_ns"].max(initial=0)
    return calls[-1:] == ["read"] and bool(unanswered) and not conversation.is_tls


def _lost(conversation: Conversation) -> SegmentArray:
    """Return the client's data that the server's host never acknowledged."""
    answers, sent = conversation.rows.sent_by("server"), conversation.rows.data("client")
    acked = answers["ack"][~answers.is_rst].max(initial=0)
    lost: SegmentArray = sent[sent["seq"] + sent["payload_bytes"] > acked]
    return lost


def _is_idle(conversation: Conversation, fin_ns: int) -> bool:
    """Return whether nothing was sent for two round trips before the server's FIN."""
    data = conversation.rows.data()
    # A request that leaves later crosses the FIN. An answer just before it shows no idle server.
    later_ns = np.where(data.from_client, conversation.rtt_ns, 0)
    times = data["time_ns"][data["time_ns"] < fin_ns - later_ns]
    return not len(times) or fin_ns - int(times[-1]) > 2 * max(conversation.rtt_ns, 10_000_000)


# ---- small segments ------------------------------------------------------------------------------


def _small_mss(conversations: Sequence[Conversation]) -> Iterator[Fault]:
    """Yield the sender with the most segments of a small MSS."""
    senders = [
        (count, side, timeline.mss_bytes, conversation)
        for conversation in conversations
        for side, timeline in conversation.timelines.items()
        if timeline.mss_bytes is not None
        and timeline.mss_bytes <= _SMALL_MSS
        and (count := sum(segment.gso_count for segment in timeline.segments)) >= _MANY_SEGMENTS
    ]
    if not senders:
        return
    count, side, mss, conversation = max(senders, key=lambda sender: sender[0])
    set_by = [
        f"the {whose} set TCP_MAXSEG to {size}"
        for whose, socket in conversation.sockets.items()
        if (size := socket.fixed("maxseg")) is not None
    ]
    offered = map(str, conversation.rows["mss"][conversation.rows.is_syn].tolist())
    why = " and ".join(set_by or offered)
    facts = {"side": side, "count": count, "mss": mss, "why": why}
    yield "small-mss-set" if set_by else "small-mss", facts, ()


def _small_segments(conversations: Sequence[Conversation]) -> Iterator[Fault]:
    """Yield the sender with the most needlessly small segments, although more data is ready.

    Nagle's algorithm or a cork would have filled the segments, so both must be off.
    """
    senders: list[tuple[int, str, dict[str, object]]] = []
    for conversation in conversations:
        for side, timeline in conversation.timelines.items():
            if (mss_bytes := timeline.mss_bytes) is None:
                continue
            runs = [run for run in _small_runs(timeline, mss_bytes) if len(run) >= _RUN]
            count = sum(map(len, runs))
            sizes = [sum(segment.payload_bytes for segment in run) for run in runs]
            full = sum(math.ceil(size / mss_bytes) for size in sizes)
            if count - full >= max(_TOO_MANY, _NEEDLESS * len(timeline.segments)):
                writes = len({number for run in runs for one in run for number in one.writes})
                facts = {"side": side, "segments": count, "size": sum(sizes) / count, "full": full}
                name = "many-small-writes" if writes else "data-in-pieces"
                senders.append((count - full, name, {**facts, "writes": writes}))
    if senders:
        _needless, name, facts = max(senders, key=lambda sender: sender[0])
        yield name, facts, ()


def _small_runs(timeline: Timeline, mss_bytes: int) -> Iterator[Sequence[Segment]]:
    """Yield runs of small segments of a message, each written within _PUSH_NS of the previous."""
    known = timeline.nodelay or any(mark.name == "nodelay" for mark in timeline.marks)
    if timeline.nodelay is False and not known:
        return
    run: list[Segment] = []
    for segment in timeline.segments:
        small = segment.payload_bytes < mss_bytes and segment.reason is not Reason.RETRANSMISSION
        if run and not (small and _follows(run[-1], segment, known)):
            yield run
            run = []
        if small:
            run.append(segment)
    yield run


def _follows(before: Segment, after: Segment, nodelay: bool) -> bool:
    ready_ns = after.time_ns - round((after.waited_ms or 0) * 1e6)
    if after.message != before.message or ready_ns - before.time_ns > _PUSH_NS:
        return False
    # If TCP_NODELAY is unknown, two small segments in flight show that Nagle's algorithm is off.
    return nodelay or before.acked_ns is None or before.acked_ns > after.time_ns


# ---- connections within a host -------------------------------------------------------------------


def _held_inside(
    recorded: CommandExchange, conversations: Sequence[Conversation]
) -> Iterator[Fault]:
    """Yield Nagle × delayed ACK on a connection whose packets were not captured."""
    for whose, log in (("server", recorded.server), ("client", recorded.client)):
        captured = {one.sockets[whose].cookie for one in conversations if whose in one.sockets}
        waits: dict[str, list[Interval]] = defaultdict(list)
        for socket in log.sockets if log is not None else ():
            if socket.cookie not in captured:
                waits[" port ".join(map(str, socket.peer))] += _held(socket)
        for peer, waited in waits.items():
            if len(waited) >= _PATTERN:
                took_ms = median_high(end - start for start, end in waited) / 1e6
                facts = {"whose": whose, "peer": peer, "count": len(waited), "took_ms": took_ms}
                yield "nagle-inside", facts, merged(waited)


def _held(socket: SocketCalls) -> Iterator[Interval]:
    for call, after in pairwise(socket.calls):
        changed = [value for t, name, value in socket.options if name == "nodelay"]
        small = 0 < call.notsent_bytes < (socket.mss_bytes or 536)
        waits = call.name == "read" and _TIMER_NS[0] <= after.time_ns - call.time_ns <= _TIMER_NS[1]
        if waits and small and call.unacked and not (socket.nodelay or any(changed)):
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
