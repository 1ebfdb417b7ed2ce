"""The socket calls of any command, as src/laboratory/calls records them, read into Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tcplab.programs.logs import Event, File

#: Address without brackets, and port.
End = tuple[str, int]

#: Names of the calls that hand bytes to TCP.
HANDS_OVER: Final = ("write", "more", "zerocopy")
#: Options whose change is an event of the log of an exchange: name -> event when set, when cleared.
_EVENTS: Final = {"nodelay": ("nodelay", "delay"), "cork": ("cork", "uncork")}
#: What of a Call is a sample of TCP_INFO.
_SAMPLED: Final = (
    "time_ns",
    "unacked",
    "snd_cwnd",
    "sacked",
    "lost",
    "retrans",
    "notsent_bytes",
    "snd_wnd_bytes",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call on a connected socket, and what the kernel knew just before it."""

    time_ns: int  #: CLOCK_REALTIME, when it began
    name: str  #: "write", "more", "zerocopy", "read", "shutdown", "close"
    pid: int  #: Of the thread that made it
    asked_bytes: int  #: That it offers to TCP; 0 for a read
    written: int  #: Bytes handed to TCP before, in all
    read: int  #: Bytes taken from TCP before, in all
    unread: int  #: Bytes that could have been taken
    unacked: int  #: Segments in flight
    snd_cwnd: int  #: Congestion window, in segments
    snd_ssthresh: int  #: Where slow start ends, in segments
    sacked: int  #: Segments that the peer has out of order
    lost: int  #: Segments that are thought lost
    retrans: int  #: Segments that were sent again and are in flight
    notsent_bytes: int  #: Handed over and not sent
    snd_wnd_bytes: int  #: The peer's window
    sndbuf_limited_us: int  #: How long the send buffer was in the way, in all
    rwnd_limited_us: int  #: How long the peer's window was in the way, in all
    rtt_us: int  #: Smoothed round-trip time
    min_rtt_us: int  #: The smallest
    total_retrans: int  #: Segments that were sent again, in all


@dataclass(slots=True)
class SocketCalls:
    """The calls of a command on one connected TCP socket."""

    cookie: int  #: The kernel's number of the socket
    pid: int  #: Of the first that used it
    local: End  #: Its own end
    peer: End  #: The other end
    nodelay: bool  #: TCP_NODELAY when it was first seen; this and the next ones
    cork: bool  #: TCP_CORK
    sndbuf_bytes: int  #: SO_SNDBUF
    rcvbuf_bytes: int  #: SO_RCVBUF
    mss_bytes: int  #: TCP_MAXSEG
    congestion: str  #: Congestion control
    seen_ns: int  #: When it was first seen connected
    calls: list[Call] = field(default_factory=list)  #: In order
    #: Options that were set, (when, name, value), in order; before it was connected, too
    options: list[tuple[int, str, int]] = field(default_factory=list)

    def events(
        self, arrival_ns: Callable[[int], int | None], carried: int, came: int
    ) -> list[Event]:
        """Return its calls as the log of an exchange (see programs.read_log).

        The recorder sees a call begin, not what it returned. The kernel's counts at the next call
        of any thread say how many bytes moved meanwhile; they belong to the write or read that
        was going on. A read that waited returned when the last byte that it took had come, and a
        write into a buffer of fixed size had not returned before its thread made its next call.
        (The kernel's own count of full send buffers leaves most of them out.) Bytes that no
        recorded call moved count as written when the call before them began, at the earliest.

        Args:
            arrival_ns: when the byte of that offset came to this host, or None.
            carried: bytes of its own that the capture shows in all, for the last write.
            came: the peer's bytes that the capture shows, for a last read without a close() behind.
        """
        found = [*self._options_set(), *self._writes(carried), *self._reads(arrival_ns, came)]
        return sorted(found, key=lambda event: event.time_ns)

    def _options_set(self) -> Iterator[Event]:
        if self.cork:
            yield Event(self.seen_ns, "cork", 0)
        for time_ns, name, value in self.options:
            if name in _EVENTS and time_ns >= self.seen_ns:
                yield Event(time_ns, _EVENTS[name][value == 0], 0)

    def _writes(self, carried: int) -> Iterator[Event]:
        if self.calls and self.calls[0].written:
            yield Event(self.seen_ns, "write", self.calls[0].written)
        for call, taken, after in self._moved("written", carried):
            yield Event(call.time_ns, "more" if call.name == "more" else "write", taken)
            if after is not None and self._may_have_waited(call, after):
                yield Event(after.time_ns, "wrote", taken)

    def _reads(self, arrival_ns: Callable[[int], int | None], came: int) -> Iterator[Event]:
        for call, taken, after in self._moved("read", came):
            if call.name == "read":
                came_ns = arrival_ns(call.read + taken - 1) or call.time_ns
                latest_ns = after.time_ns if after else came_ns
                yield Event(min(max(call.time_ns, came_ns), latest_ns), "read", taken)

    def _moved(self, count: str, last: int) -> list[tuple[Call, int, Call | None]]:
        """Return each call during which a count grew, by how much, and its thread's next call.

        Args:
            count: "written" or "read".
            last: the count at the end, if that is known to be more than at the last call.
        """
        names = HANDS_OVER if count == "written" else ("read",)
        following = self._following()
        grown: dict[int, int] = {}
        current: int | None = None
        highest = getattr(self.calls[0], count) if self.calls else 0
        for i, call in enumerate(self.calls):
            if call.name in names:
                current = i
            elif current is not None and call.pid == self.calls[current].pid:
                current = None  # it has returned
            later = getattr(self.calls[i + 1], count) if i + 1 < len(self.calls) else last
            # TCP counts its own FIN like a byte until it has left.
            fin = count == "written" and current is None and call.name == "shutdown"
            # Data that comes while a count is taken may make it too large for a moment.
            if later - highest > fin:
                at = i if current is None else current
                grown[at] = grown.get(at, 0) + later - highest - fin
            highest = max(highest, later)
        return [(self.calls[i], size, following[i]) for i, size in grown.items()]

    def _following(self) -> list[Call | None]:
        """Return, for each call, the next one of the same thread."""
        latest: dict[int, Call] = {}
        found: list[Call | None] = []
        for call in reversed(self.calls):
            found.append(latest.get(call.pid))
            latest[call.pid] = call
        return found[::-1]

    def _may_have_waited(self, call: Call, after: Call) -> bool:
        """Return whether a write may have waited for room in the send buffer."""
        if after.sndbuf_limited_us > call.sndbuf_limited_us:
            return True
        held = call.unacked * self.mss_bytes + call.notsent_bytes + call.asked_bytes
        return self.fixed("sndbuf") is not None and held >= self.sndbuf_bytes // 4

    def fixed(self, name: str) -> int | None:
        """Return the value to which an option was set ("sndbuf", "rcvbuf"); None if it was not."""
        values = [value for _time_ns, option, value in self.options if option == name]
        return values[-1] if values else None

    def samples(self) -> list[dict[str, int]]:
        """The kernel's view at each call, as samples of TCP_INFO with time_ns."""
        return [{name: getattr(call, name) for name in _SAMPLED} for call in self.calls]

    def unseen_bytes(self) -> int:
        """Return how many bytes were handed to TCP while no recorded write was going on."""
        total = self.calls[0].written if self.calls else 0
        for call, taken, _after in self._moved("written", 0):
            total += taken if call.name not in HANDS_OVER else max(taken - call.asked_bytes, 0)
        return total


@dataclass(frozen=True, slots=True)
class CallLog:
    """The record of `calls` about a command."""

    sockets: Sequence[SocketCalls] = ()  #: Its connections, in order
    listening: Sequence[tuple[int, End]] = ()  #: When it began to listen, and where
    connects: Sequence[tuple[int, End]] = ()  #: When it tried to connect, and whereto
    programs: Sequence[str] = ()  #: The files that were executed
    unseen: Sequence[str] = ()  #: Kinds of what could not be seen: "io_uring", "setuid", ...
    exit_status: int | None = None  #: None if it had not ended
    calls: int = 0  #: How many calls it was stopped at
    logged: int = 0  #: How many of them are here
    stopped_ns: int = 0  #: How long it was stopped in all
    whole: bool = False  #: The recorder came to its end


def read_calls(path: File) -> CallLog:
    """The log of the recorder; as much as is there, if it was ended early."""
    reader = _Reader()
    with Path(path).open(errors="replace") as lines:
        for line in lines:
            if line.endswith("\n"):
                reader.take(line.split())
    return reader.result()


class _Reader:
    """Sorts the lines of a log (see src/laboratory/calls/record.h)."""

    def __init__(self) -> None:
        self._sockets: dict[int, SocketCalls] = {}
        self._options: dict[int, list[tuple[int, str, int]]] = {}
        self._listening: list[tuple[int, End]] = []
        self._listeners: dict[int, int] = {}  # port -> cookie
        self._connects: list[tuple[int, End]] = []
        self._programs: dict[str, None] = {}
        self._unseen: dict[str, None] = {}
        self._end: tuple[int, ...] = ()
        self._exit: int | None = None
        self._seen = 0

    def take(self, words: list[str]) -> None:
        time_ns, name, cookie, pid = int(words[0]), words[1], int(words[2]), int(words[3])
        rest = words[4:]
        self._seen += 1
        if name == "socket":
            self._introduce(time_ns, cookie, pid, rest)
        elif name == "listen":
            self._listening.append((time_ns, _end(rest)))
            self._listeners[_end(rest)[1]] = cookie
        elif name == "connect":
            self._connects.append((time_ns, _end(rest)))
        elif name == "option":
            self._options.setdefault(cookie, []).append((time_ns, rest[0], int(rest[1])))
        elif name == "exec":
            self._programs[" ".join(rest)] = None
        elif name == "unseen":
            self._unseen[rest[0]] = None
        elif name == "exit":
            self._exit = int(rest[0])
        elif name == "end":
            self._end = tuple(map(int, rest))
        elif cookie in self._sockets:
            self._sockets[cookie].calls.append(Call(time_ns, name, pid, *map(int, rest)))

    def _introduce(self, time_ns: int, cookie: int, pid: int, rest: list[str]) -> None:
        if cookie in self._sockets:  # whose line was pushed out of the recorder's memory
            return
        *numbers, congestion = rest[4:]
        nodelay, cork, sndbuf, rcvbuf, mss = map(int, numbers)
        options = self._options.setdefault(cookie, [])
        # What the listening socket was told, the accepted one inherits.
        listener = self._listeners.get(int(rest[1]))
        if listener is not None:
            options[:0] = self._options.get(listener, [])
        self._sockets[cookie] = SocketCalls(
            cookie,
            pid,
            _end(rest[:2]),
            _end(rest[2:4]),
            bool(nodelay),
            bool(cork),
            sndbuf,
            rcvbuf,
            mss,
            congestion,
            time_ns,
            options=options,
        )

    def result(self) -> CallLog:
        calls, logged, stopped_ns = self._end or (self._seen, self._seen, 0)
        return CallLog(
            tuple(self._sockets.values()),
            tuple(self._listening),
            tuple(self._connects),
            tuple(self._programs),
            tuple(self._unseen),
            self._exit,
            calls,
            logged,
            stopped_ns,
            whole=bool(self._end),
        )


def _end(words: Sequence[str]) -> End:
    """An IPv4 address inside an IPv6 one is that IPv4 address."""
    return words[0].removeprefix("::ffff:"), int(words[1])
