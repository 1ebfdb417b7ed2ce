"""Read the socket calls of a command, as recorded by src/laboratory/calls."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tcplab.programs.logs import Event, File

#: An address (without brackets) and a port.
End = tuple[str, int]

#: The recorder logs this many calls, and only counts later ones (src/laboratory/calls).
MOST_LOGGED: Final = 200_000
#: The names of calls that hand bytes to TCP.
HANDS_OVER: Final = ("write", "more", "zerocopy")
#: Names of the events that setting and clearing an option add to an exchange's log, by option.
_EVENTS: Final = {"nodelay": ("nodelay", "delay"), "cork": ("cork", "uncork")}
#: The fields of a SocketCall that form a sample of TCP_INFO.
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
class SocketCall:
    """One call on a connected socket, with the kernel's state just before the call."""

    time_ns: int  #: Start of the call on CLOCK_REALTIME
    name: str  #: "write", "more", "zerocopy", "read", "shutdown", "close"
    pid: int  #: Thread that made the call
    asked_bytes: int  #: Bytes that a write offers to TCP, or 0 for any other call
    written: int  #: Number of bytes handed to TCP before the call
    read: int  #: Number of bytes read from TCP before the call
    unread: int  #: Bytes available to read
    unacked: int  #: Segments sent but not acknowledged, including those SACKed or lost
    snd_cwnd: int  #: Congestion window, in segments
    snd_ssthresh: int  #: Slow start threshold, in segments
    sacked: int  #: Segments that the peer has received out of order
    lost: int  #: Segments presumed lost
    retrans: int  #: Resent segments in flight
    notsent_bytes: int  #: Bytes handed over but not sent
    snd_wnd_bytes: int  #: The peer's window
    sndbuf_limited_us: int  #: Total time for which the send buffer was the limit
    rwnd_limited_us: int  #: Total time for which the peer's window was the limit
    rtt_us: int  #: Smoothed round-trip time
    min_rtt_us: int  #: Smallest round-trip time
    total_retrans: int  #: Total number of resent segments


@dataclass(slots=True)
class SocketCalls:
    """The calls that a command made on one connected TCP socket."""

    cookie: int  #: The kernel's number for the socket
    pid: int  #: Process that used the socket first
    local: End
    peer: End
    #: TCP_NODELAY when the socket was first seen. All fields up to `congestion` are from that time
    nodelay: bool
    cork: bool  #: TCP_CORK
    sndbuf_bytes: int  #: SO_SNDBUF
    rcvbuf_bytes: int  #: SO_RCVBUF
    mss_bytes: int  #: TCP_MAXSEG
    congestion: str
    seen_ns: int  #: Time at which the socket was first seen connected
    calls: list[SocketCall] = field(default_factory=list)  #: The calls on the socket, in order
    begun_ns: int | None = None  #: Time of the connect() call, or None if it was accepted
    #: (time, name, value) of each option set, in order, even before the socket was connected
    options: list[tuple[int, str, int]] = field(default_factory=list)

    def events(
        self, arrival_ns: Callable[[int], int | None], carried: int, came: int
    ) -> list[Event]:
        """Return the socket's calls as events of a log (see programs.read_log).

        The recorder sees when a call begins, but not what it returned. The kernel's counts at the
        next call of any thread show how many bytes moved in between, and these belong to the write
        or read in progress. A read that waited returned when the last byte it took had arrived. A
        write that may have waited for buffer space counts as lasting until its thread's next call.
        (The kernel's count of full send buffers misses most of these waits.) Bytes that no recorded
        call moved count as written at the start of the previous call.

        Args:
            arrival_ns: returns when the byte at an offset reached this host, or None
            carried: number of the socket's bytes in the whole capture, for the last write
            came: number of the peer's bytes in it, for a last read that no close() follows
        """
        events = [*self._options_set(), *self._writes(carried), *self._reads(arrival_ns, came)]
        return sorted(events, key=lambda event: event.time_ns)

    def _options_set(self) -> Iterator[Event]:
        if self.cork:
            yield Event(self.seen_ns, "cork", 0)
        for time_ns, name, value in self.options:
            if name in _EVENTS and time_ns >= self.seen_ns:
                yield Event(time_ns, _EVENTS[name][value == 0], 0)

    def _writes(self, carried: int) -> Iterator[Event]:
        if self.calls and self.calls[0].written:
            yield Event(self.begun_ns or self.seen_ns, "write", self.calls[0].written)
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

    def _moved(self, count: str, last: int) -> list[tuple[SocketCall, int, SocketCall | None]]:
        """Return each call during which a count grew, by how much, and its thread's next call.

        `count` is "written" or "read". `last` is its value at the end, if known to exceed the value
        at the last call.
        """
        names = HANDS_OVER if count == "written" else ("read",)
        following = self._following()
        grown: dict[int, int] = {}
        current: int | None = None
        highest = getattr(self.calls[0], count) if self.calls else 0
        fin = 0
        was_shut = count == "read"
        for i, call in enumerate(self.calls):
            if call.name in names:
                current = i
            elif current is not None and call.pid == self.calls[current].pid:
                current = None  # the write or read has returned
            if call.name == "shutdown" and not was_shut:
                # TCP counts a FIN like a byte until the FIN has left. Calls of other threads may
                # begin before it counts.
                fin, was_shut = 1, True
            later = getattr(self.calls[i + 1], count) if i + 1 < len(self.calls) else last
            # Data that arrives while the kernel reads the counts may make a count too large for a
            # moment.
            if later > highest:
                at = i if current is None else current
                taken, fin = later - highest - fin, 0
                if taken:
                    grown[at] = grown.get(at, 0) + taken
            highest = max(highest, later)
        return [(self.calls[i], size, following[i]) for i, size in grown.items()]

    def _following(self) -> list[SocketCall | None]:
        latest: dict[int, SocketCall] = {}
        following: list[SocketCall | None] = []
        for call in reversed(self.calls):
            following.append(latest.get(call.pid))
            latest[call.pid] = call
        return following[::-1]

    def _may_have_waited(self, call: SocketCall, after: SocketCall) -> bool:
        if after.sndbuf_limited_us > call.sndbuf_limited_us:
            return True
        held = call.unacked * self.mss_bytes + call.notsent_bytes + call.asked_bytes
        return self.fixed("sndbuf") is not None and held >= self.sndbuf_bytes // 4

    def fixed(self, name: str) -> int | None:
        """Return the last value set for an option such as "sndbuf", or None if it was not set."""
        values = [value for _time_ns, option, value in self.options if option == name]
        return values[-1] if values else None

    def samples(self) -> list[dict[str, int]]:
        """Return the kernel's state at each call, as samples of TCP_INFO with time_ns."""
        return [{name: getattr(call, name) for name in _SAMPLED} for call in self.calls]

    def unseen_bytes(self) -> int:
        """Return how many bytes were handed to TCP while no recorded write was in progress."""
        total = self.calls[0].written if self.calls else 0
        for call, taken, _after in self._moved("written", 0):
            total += taken if call.name not in HANDS_OVER else max(taken - call.asked_bytes, 0)
        return total


class CallStart(NamedTuple):
    """The start of any recorded call of a thread, which shows how it spends its time."""

    time_ns: int
    pid: int  #: The thread
    kind: str  #: "sleep", "poll", "udp", "unix", "accept", "connect", "read", "write", or "other"
    where: str = ""  #: Address of a UDP or Unix socket, or cookie of a TCP socket
    limit_ns: int = -1  #: Longest duration of the call (0 if it cannot wait), or -1 without a limit


class Used(NamedTuple):
    """The use of the CPU up to a time. The kernel's counts begin with the process."""

    time_ns: int
    pid: int  #: The thread that made a call at this time
    process: int
    cpu_ns: int  #: CPU time of the process
    delay_ns: int  #: Time for which the thread was ready, and waited for a CPU
    stopped_ns: int  #: Time for which the recorder had stopped any thread, or waited for a CPU


class Attempt(NamedTuple):
    """An attempt to connect that failed."""

    start_ns: int
    end_ns: int
    pid: int
    peer: End
    errno: int  #: EINPROGRESS if the program gave up, the reason if there was no route, or 0


@dataclass(slots=True)
class CallLog:
    """A recording of the socket calls of one command."""

    #: The command's TCP connections, in order
    sockets: list[SocketCalls] = field(default_factory=list)
    #: Time and address of each listen() call
    listening: list[tuple[int, End]] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)  #: Files that the command executed
    #: Kinds of activity that could not be recorded: "io_uring", "setuid", ...
    unseen: list[str] = field(default_factory=list)
    exit_status: int | None = None  #: Exit status, or None if the command had not ended
    calls: int = 0  #: Number of calls at which the command was stopped
    logged: int = 0  #: Number of these calls that are in the log
    stopped_ns: int = 0  #: Total time for which the command was stopped
    whole: bool = False  #: True if the recorder finished its log
    steps: list[CallStart] = field(default_factory=list)  #: The starts of all recorded calls
    used: list[Used] = field(default_factory=list)  #: The use of the CPU
    failed: list[Attempt] = field(default_factory=list)  #: Attempts to connect that failed
    exited_ns: int | None = None  #: Time at which the command ended, or None

    @property
    def is_full(self) -> bool:
        """True if the recorder logged as many calls as it can, and only counted the others."""
        return self.whole and MOST_LOGGED <= self.logged < self.calls


def read_calls(path: File) -> CallLog:
    """Read the recorder's log, which ends early if the recorder did."""
    reader = _Reader()
    with Path(path).open(errors="replace") as lines:
        for line in lines:
            if not line.endswith("\n"):
                break  # the recorder is writing this line, and the next one would be its rest
            reader.take(line.split())
    reader.log.steps.sort()
    return reader.log


class _Reader:
    """Collect the lines of a log into a CallLog (see src/laboratory/calls/record.h)."""

    def __init__(self) -> None:
        self.log = CallLog()
        self._sockets: dict[int, SocketCalls] = {}  # the key is the cookie
        self._options: dict[int, list[tuple[int, str, int]]] = {}
        self._listeners: dict[int, int] = {}  # cookies of the listening sockets, by port
        self._begun: dict[int, tuple[int, int]] = {}  # last connect: time and thread, by cookie

    def take(self, fields: list[str]) -> None:
        time_ns, name, cookie, pid = int(fields[0]), fields[1], int(fields[2]), int(fields[3])
        rest, log = fields[4:], self.log
        log.calls += 1
        log.logged += 1
        match name:
            case "sleep" | "poll" | "other" | "accept":
                log.steps.append(_step(time_ns, name, cookie, pid, rest))
            case "used":
                log.used.append(Used(time_ns, pid, *map(int, rest)))
                log.steps.append(CallStart(time_ns, pid, "other"))
            case "socket":
                self._introduce(time_ns, cookie, pid, rest)
            case "listen":
                log.listening.append((time_ns, _end(rest)))
                self._listeners[_end(rest)[1]] = cookie
            case "connect":
                self._begun[cookie] = time_ns, pid
                log.steps.append(CallStart(time_ns, pid, "connect", str(cookie)))
            case "failed":
                begun_ns, thread = self._begun.get(cookie, (time_ns, pid))
                log.failed.append(Attempt(begun_ns, time_ns, thread, _end(rest), int(rest[2])))
            case "option":
                self._options.setdefault(cookie, []).append((time_ns, rest[0], int(rest[1])))
            case "exec" | "unseen" | "exit" | "end":
                self._command(time_ns, name, rest)
            case _ if cookie in self._sockets:
                self._sockets[cookie].calls.append(SocketCall(time_ns, name, pid, *map(int, rest)))
                kind = "write" if name in HANDS_OVER else name if name == "read" else "other"
                limit_ns = 0 if kind != "write" and int(rest[3]) else -1  # a read finds data
                log.steps.append(CallStart(time_ns, pid, kind, str(cookie), limit_ns))

    def _command(self, time_ns: int, name: str, rest: list[str]) -> None:
        log = self.log
        if name == "exec" and " ".join(rest) not in log.programs:
            log.programs.append(" ".join(rest))
        elif name == "unseen" and rest[0] not in log.unseen:
            log.unseen.append(rest[0])
        elif name == "exit":
            log.exit_status, log.exited_ns = int(rest[0]), time_ns
        elif name == "end":
            log.whole = True
            log.calls, log.logged, log.stopped_ns = map(int, rest)

    def _introduce(self, time_ns: int, cookie: int, pid: int, rest: list[str]) -> None:
        if cookie in self._sockets:  # the recorder had forgotten the socket and introduces it again
            return
        *numbers, congestion = rest[4:]
        nodelay, cork, sndbuf, rcvbuf, mss = map(int, numbers)
        options = self._options.setdefault(cookie, [])
        # An accepted socket inherits the options of its listening socket.
        listener = self._listeners.get(int(rest[1]))
        if listener is not None and listener != cookie:
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
            begun_ns=self._begun[cookie][0] if cookie in self._begun else None,
            options=options,
        )
        self.log.sockets.append(self._sockets[cookie])


def _step(time_ns: int, name: str, cookie: int, pid: int, rest: list[str]) -> CallStart:
    if name == "accept":
        return CallStart(time_ns, pid, name, str(cookie))
    if name == "other":
        call, kind, address, port = rest
        where = address if kind == "unix" else f"{address} port {port}"
        return CallStart(time_ns, pid, kind, where, 0 if call == "write" else -1)
    limit_ns = int(rest[0])
    if len(rest) == 1:
        return CallStart(time_ns, pid, name, "", limit_ns)
    where = rest[2] if rest[1] == "unix" else " port ".join(rest[2:4])
    return CallStart(time_ns, pid, rest[1], where, limit_ns)


def _end(fields: Sequence[str]) -> End:
    """Return address and port. An IPv4-mapped IPv6 address becomes the IPv4 address."""
    return fields[0].removeprefix("::ffff:"), int(fields[1])
