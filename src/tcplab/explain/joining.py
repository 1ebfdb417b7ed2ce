"""Join the recorded calls and packets of each connection into timelines."""

import bisect
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, permutations
from typing import Final

import numpy as np

from tcplab.explain.recording import LOOPBACK, CommandExchange
from tcplab.programs import Event, SocketCalls, SocketOptions
from tcplab.programs.calls import HANDS_OVER, CallLog, End
from tcplab.segments import TCP, SegmentArray
from tcplab.timeline import Exchange, Timeline, explain
from tcplab.timeline.clocks import on_one_clock, straightened
from tcplab.timeline.copies import without_copies

#: Connections and packets beyond these limits are counted but not explained. A capture of this many
#: packets takes less than a minute and 2 GB.
MOST_CONNECTIONS: Final = 200
MOST_PACKETS: Final = 1_000_000
#: A client sends the SYN again if no answer comes within this time.
_SYN_TIMEOUT_NS: Final = 1_000_000_000
NEVER_NS: Final = 1 << 62

_logger = logging.getLogger(__name__)
#: Calls with which a client ends its side of a connection.
_ENDS: Final = ("close", "shutdown")

#: The client's and the server's end of a connection.
Ends = tuple[End, End]


def other(side: str) -> str:
    """Return the other side, "client" or "server"."""
    return "server" if side == "client" else "client"


@dataclass(slots=True)
class Conversation:
    """One connection with the timelines of both senders, as far as the recording allows."""

    client: End  #: The end that sent the SYN
    server: End  #: The end that received the SYN
    rows: SegmentArray  #: The packets that are explained, from the client's capture
    packets: int = 0  #: Number of packets captured on the connection
    #: Timeline of each sender, "client" or "server". A side that sent no data has none
    timelines: dict[str, Timeline] = field(default_factory=dict)
    #: Calls of each side, "client" or "server". A side that was not recorded has none
    sockets: dict[str, SocketCalls] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  #: Evidence that could not be used, and why
    is_tls: bool = False  #: True if the first data is a TLS handshake
    has_both_captures: bool = False  #: True if packets were also captured at the server
    overflows: int = 0  #: Number of times an accept queue on the server's host was full
    #: Time at which the client gave up waiting for an answer, or None if it was not waiting
    given_up_ns: int | None = None
    cut_ns: int = 1 << 63  #: End of the recording if the client may outlive it, or 1 << 63
    end_ns: int = 1 << 63  #: End of the recording
    logs: Mapping[str, Sequence[Event]] = field(default_factory=dict)  #: Events of each side

    @property
    def name(self) -> str:
        return " -> ".join(f"{address}:{port}" for address, port in (self.client, self.server))

    @property
    def failure(self) -> str:
        """The reason why the connection was never opened, or ""."""
        syns = self.syns("client")
        if len(syns) == 0 or len(self.syns("server")):
            return ""
        if self.rows.sent_by("client").has_ack.any():
            return ""  # the answer is not in the capture, but the client acknowledged it
        if self.rows.sent_by("server").is_rst.any():
            return "refused (RST): nothing listens there"
        if self.cut_ns - int(syns["time_ns"][0]) < _SYN_TIMEOUT_NS:
            is_last = self.cut_ns <= int(syns["time_ns"][-1])
            return "1 SYN, and then the capture ends" * is_last
        return f"no answer to {len(syns)} SYN" + "s" * (len(syns) > 1)

    @property
    def only(self) -> str:
        """The side whose packets alone were captured, or "" if both directions were."""
        ways = np.unique(self.rows["direction"]).tolist()
        return "" if len(ways) != 1 else "client" if ways == [0] else "server"

    @property
    def rtt_ns(self) -> int:
        rows = self.rows[self.rows.from_client & ~self.rows.is_syn]
        if self.handshake_ns is None or not len(rows):
            return 0
        calls = self.sockets["client"].calls if "client" in self.sockets else ()
        known = [1000 * call.min_rtt_us for call in calls if call.min_rtt_us]
        return min([int(rows["time_ns"][0]) - self.handshake_ns[0], *known])

    @property
    def handshake_ns(self) -> tuple[int, int] | None:
        asked, answered = self.syns("client"), self.syns("server")
        if not (len(asked) and len(answered)):
            return None
        return int(asked["time_ns"][0]), int(answered["time_ns"][0])

    @property
    def is_fast_open(self) -> bool:
        """True if data left in the SYN (TCP Fast Open), so the handshake cost no round trip."""
        return bool(self.syns("client").carries_data.any())

    @property
    def looked_at_ns(self) -> tuple[int, int]:
        """Bounds of the explained time. The end is 1 << 63 if all packets are explained."""
        first_ns, last_ns = int(self.rows["time_ns"][0]), int(self.rows["time_ns"][-1])
        return first_ns, last_ns if len(self.rows) < self.packets else 1 << 63

    def syns(self, side: str) -> SegmentArray:
        """Return the SYN segments from one side, including retransmissions."""
        syns: SegmentArray = self.rows[self.rows.is_syn]
        return syns.sent_by(side)


def arrivals_at(conversations: Sequence[Conversation], side: str) -> dict[int, Sequence[int]]:
    """Return the times at which data or a FIN reached each socket of a side, by its cookie."""
    result: dict[int, Sequence[int]] = {}
    for one in conversations:
        if (socket := one.sockets.get(side)) is not None:
            came = one.rows.sent_by(other(side))
            news = came.carries_data | came.is_fin | came.is_rst
            result[socket.cookie] = came["time_ns"][news].tolist()
    return result


def conversations(recorded: CommandExchange) -> tuple[list[Conversation], int, list[str]]:
    """Return the client's first connections in order, the number of all of them, and notes."""
    if recorded.near is None:
        return [], 0, []
    joined: list[Conversation] = []
    missing: list[str] = []
    segments = recorded.near.segments
    if not recorded.client.sockets:  # otherwise the calls would have other times
        segments, missing = straightened(segments)
    near = _by_ends(segments)
    far = {} if recorded.far is None else _by_ends(recorded.far.segments)
    sockets = recorded.client.sockets
    ours = {ends for one in sockets for ends in permutations((one.local, one.peer))}
    if recorded.far is None and (foreign := near.keys() - ours) and ours:
        # On a shared machine, only the recorded calls show which connections are the command's.
        missing.append(
            f"{len(foreign)} other connections, which no recorded call made, are left out"
        )
        near = {ends: several for ends, several in near.items() if ends in ours}
    first_rows = sorted(
        ((rows, ends, turn) for ends, several in near.items() for turn, rows in enumerate(several)),
        key=lambda found: int(found[0]["time_ns"][0]),
    )
    _logger.info("explaining %d packets of %d connections", len(segments), len(first_rows))
    room, until_ns = MOST_PACKETS, _logged_until_ns(recorded)
    for rows, ends, turn in first_rows[:MOST_CONNECTIONS]:
        others = far.get(ends, [])
        peer_rows = others[turn] if turn < len(others) else None
        once, copies = without_copies(rows)
        note = ""
        if peer_rows is not None and not recorded.client.sockets and recorded.server is None:
            peer_rows, note = on_one_clock(once, peer_rows)
        looked_at, peer_rows = _shortened(once, peer_rows, room, until_ns)
        room -= len(looked_at)
        joined.append(_explained(recorded, ends, looked_at, peer_rows, turn))
        joined[-1].packets = len(once)
        left_out = (
            f"{copies} of {len(rows)} packets are copies of others (a mirrored port, or several"
            " captures in one file), and are left out"
        )
        joined[-1].missing[:0] = [note] * bool(note) + [left_out] * bool(copies)
    last_ns = [int(one.rows.data()["time_ns"].max(initial=0)) for one in joined]
    for i, one in enumerate(joined):
        if _is_spare(one, [*filter(None, last_ns[:i] + last_ns[i + 1 :])]):
            one.given_up_ns = None
    return joined, len(first_rows), missing


def _logged_until_ns(recorded: CommandExchange) -> int:
    """Return when a recorder had logged as many calls as it can, or 1 << 63."""
    full = [log for log in (recorded.client, recorded.server) if log is not None and log.is_full]
    last_ns = ((socket.calls[-1].time_ns for socket in log.sockets if socket.calls) for log in full)
    return min((max(times, default=0) for times in last_ns), default=1 << 63)


def _is_spare(conversation: Conversation, others_ns: Sequence[int]) -> bool:
    """Return whether a client worked on other connections, whose last data came at `others_ns`."""
    socket, given_up_ns = conversation.sockets.get("client"), conversation.given_up_ns
    if socket is None or given_up_ns is None or not others_ns:
        return False
    if any(call.name == "read" for call in socket.calls):
        return False
    data = conversation.rows.data()
    return not len(data) or max(others_ns) > (int(data["time_ns"][-1]) + given_up_ns) // 2


def _by_ends(segments: SegmentArray) -> Mapping[Ends, list[SegmentArray]]:
    """Return the segments by pair of ends, which may have had several connections in turn."""
    tcp: SegmentArray = segments[segments["protocol"] == TCP]
    order = np.argsort(tcp["connection"], kind="stable")
    numbers = tcp["connection"][order]
    by_ends: dict[Ends, list[SegmentArray]] = defaultdict(list)
    for part in np.split(order, np.flatnonzero(np.diff(numbers)) + 1) if len(tcp) else ():
        rows = tcp.rows_at(part)
        known = segments.connections[int(rows["connection"][0])]
        by_ends[known.client, known.server].append(rows)
    return by_ends


# ---- one connection ------------------------------------------------------------------------------


def _explained(
    recorded: CommandExchange, ends: Ends, rows: SegmentArray, peer: SegmentArray | None, turn: int
) -> Conversation:
    client, server = ends
    is_local = client[0] == server[0] or server[0].startswith(LOOPBACK)
    result = Conversation(
        client,
        server,
        rows,
        is_tls=_is_tls(recorded, rows),
        has_both_captures=peer is not None,
        overflows=recorded.overflows if recorded.far is not None or is_local else 0,
        cut_ns=1 << 63 if recorded.client.sockets else recorded.span_ns[1],
        end_ns=recorded.span_ns[1],
    )
    for side, log, local, other in (
        ("client", recorded.client, client, server),
        ("server", recorded.server, server, client),
    ):
        if log is not None and (socket := _socket(log, local, other, turn)) is not None:
            result.sockets[side] = socket
    if (asking := result.sockets.get("client")) is not None:
        sent, came = rows.sent_by("client"), rows.sent_by("server")
        ends_sent, ends_came = (some["time_ns"][some.is_fin | some.is_rst] for some in (sent, came))
        closed_ns = int(ends_sent.min(initial=NEVER_NS))
        is_silent = not (came.data()["time_ns"] < closed_ns).any()
        # A client does not wait for a first answer once the server has closed the connection.
        if is_silent:
            closed_ns = min(closed_ns, int(ends_came.min(initial=NEVER_NS)))
        end_ns = recorded.span_ns[1] if closed_ns == NEVER_NS else closed_ns
        result.given_up_ns = _given_up_ns(asking, end_ns, is_silent, _carried(rows, "client"))
    views = {"client": (rows, peer), "server": (rows, None) if peer is None else (peer, rows)}
    result.logs = {
        side: _log(result.sockets.get(side), own, side) for side, (own, _) in views.items()
    }
    for side, (own, others) in views.items():
        if (timeline := _timeline(result, side, own, others, recorded.rate_mbit)) is not None:
            result.timelines[side] = timeline
    return result


def _is_tls(recorded: CommandExchange, rows: SegmentArray) -> bool:
    """Return whether the first data is a TLS handshake record (RFC 8446, 5.1)."""
    data = rows.data()
    table = getattr(recorded.near, "table", None)  # a shipped recording holds only segments
    if table is None or not len(data):
        return False
    header_bytes = int(data["wire_bytes"][0]) - int(data["payload_bytes"][0])
    first: bytes = table.bytes_of(int(data["packet"][0]))[header_bytes:]
    return first[:2] == b"\x16\x03"


def _shortened(
    rows: SegmentArray, peer: SegmentArray | None, most: int, until_ns: int
) -> tuple[SegmentArray, SegmentArray | None]:
    """Return at most `most` rows until a time, or at least the handshake, with the peer's rows."""
    most = min(most, int((rows["time_ns"] <= until_ns).sum()))
    if len(rows) <= most:
        return rows, peer
    first: SegmentArray = rows[: max(most, 3)]
    if peer is not None:
        peer = peer[peer["time_ns"] <= first["time_ns"][-1]]
    return first, peer


def _socket(log: CallLog, local: End, peer: End, turn: int) -> SocketCalls | None:
    same = [socket for socket in log.sockets if (socket.local, socket.peer) == (local, peer)]
    return same[turn] if turn < len(same) else None


def _given_up_ns(
    socket: SocketCalls, end_ns: int, is_silent: bool, carried: int = 1 << 62
) -> int | None:
    """Return when a client gave up on its server, or None if it was not waiting for it.

    A client was waiting if it tried to read after its last write, if it had received an answer
    earlier, or if its last call is a write whose bytes did not all leave. A client that polls reads
    only what has arrived. With a silent server it counts as waiting, unless it wrote for longer.
    """
    calls = socket.calls
    blocked = calls[-1] if calls and calls[-1].name in HANDS_OVER else None
    if blocked is not None and blocked.written + blocked.asked_bytes > carried:
        return end_ns
    writes = [i for i, call in enumerate(calls) if call.name in HANDS_OVER]
    later = calls[writes[-1] + 1 :] if writes else calls
    closed_ns = next((call.time_ns for call in later if call.name in _ENDS), end_ns)
    if writes and (calls[writes[-1]].read or any(call.name == "read" for call in later)):
        return max(closed_ns, calls[-1].time_ns)
    if not is_silent:
        return None
    first, last = (calls[writes[i]].time_ns if writes else socket.seen_ns for i in (0, -1))
    until_ns = min(closed_ns, end_ns)
    return until_ns if until_ns - last >= last - first else None


def _timeline(
    conversation: Conversation,
    side: str,
    own: SegmentArray,
    others: SegmentArray | None,
    rate_mbit: float | None,
) -> Timeline | None:
    """Return one sender's timeline, or None without data. A log that does not fit is ignored."""
    if not len(own.data(side)):
        return None
    socket = conversation.sockets.get(side)
    end_ns = int(own["time_ns"][-1])
    log, peer_log = (
        [event for event in conversation.logs[whose] if event.time_ns <= end_ns] or None
        for whose in (side, other(side))
    )
    exchange: Exchange[None] = Exchange(
        None,
        log=log,
        segments=own,
        peer_log=peer_log,
        peer_segments=others,
        options=_options(socket),
        tcp_info={"snd_ssthresh": socket.calls[-1].snd_ssthresh} if socket else None,
        samples=socket.samples() if socket else (),
        rate_mbit=rate_mbit,
    )
    if socket is not None and (unseen := socket.unseen_bytes()):
        conversation.missing.append(f"calls that handed {unseen} bytes to TCP (the {side}'s)")
    number = int(own["connection"][0])
    alone = replace(exchange, log=None, peer_log=None, tcp_info=None, samples=())
    candidates = [(exchange, "calls do not fit its packets")] * bool(log or peer_log)
    candidates += [(alone, "packets cannot be explained")]
    for candidate, what in candidates:
        try:
            return explain(candidate, connection=number, sender=side)
        except ValueError as error:
            conversation.missing.append(f"the {side}'s {what}: {error}")
    return None


def _log(socket: SocketCalls | None, rows: SegmentArray, side: str) -> list[Event]:
    """Return the events of a socket, whose calls may not be recorded."""
    if socket is None or not socket.calls:
        return []
    came = rows.data(other(side))
    ends = list(accumulate((came["seq"] - 1 + came["payload_bytes"]).tolist(), max))
    times = came["time_ns"].tolist()

    def arrival_ns(offset: int) -> int | None:
        i = bisect.bisect_right(ends, offset)
        return times[i] if i < len(times) else None

    return socket.events(arrival_ns, _carried(rows, side), max(ends, default=0))


def _carried(rows: SegmentArray, side: str) -> int:
    sent = rows.data(side)
    return int((sent["seq"] - 1 + sent["payload_bytes"]).max(initial=0))


def _options(socket: SocketCalls | None) -> SocketOptions | None:
    if socket is None:
        return None
    local, peer = (" port ".join(map(str, end)) for end in (socket.local, socket.peer))
    return SocketOptions(
        sndbuf_bytes=socket.sndbuf_bytes,
        rcvbuf_bytes=socket.rcvbuf_bytes,
        local=local,
        peer=peer,
        cpu=None,
        deadline_s=0.0,
        congestion=socket.congestion,
        mss_bytes=socket.mss_bytes,
        nodelay=socket.nodelay,
    )
