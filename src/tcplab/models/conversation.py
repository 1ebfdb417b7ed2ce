"""Simulate a conversation, to compute which segments are on the wire, when, and why."""

import heapq
import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from tcplab.checks import choice, number, whole
from tcplab.errors import ParameterError
from tcplab.models.acks import DelayedAckReceiver
from tcplab.models.kernel import Clock
from tcplab.models.links import mss_bytes
from tcplab.models.nagle import DEFAULT_WINDOW_BYTES, NagleSender, SimulatedSegment
from tcplab.models.reasons import Reason

Kind: TypeAlias = Literal["write", "more", "read", "cork", "nodelay", "quickack", "drain"]
_KINDS: Final = get_args(Kind)
_OPTIONS: Final = ("cork", "nodelay", "quickack")
MAX_EVENTS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the schedule of the client's application."""

    #: "write", "more" (a write with MSG_MORE), "read" (waits for `value` bytes), "cork", "nodelay",
    #: "quickack" (value 0 or 1) or "drain" (waits until everything is acknowledged, as a Winsock
    #: send without a send buffer does).
    kind: Kind
    value: int = 0  #: Number of bytes, or 0 or 1 for an on/off option
    #: Pause before the call. It counts from the end of a previous "read" or "drain", and from the
    #: time at which any other previous call was due.
    delay_ms: float = 0.0

    def __post_init__(self) -> None:
        choice("kind", self.kind, _KINDS)
        number("delay_ms", self.delay_ms, 0, 1e8, fix="a call cannot come before the one before")
        if self.kind in _OPTIONS:
            whole("value", self.value, 0, 1, fix=f"{self.kind} is 0 or 1")
        elif self.kind in ("write", "more", "read"):
            whole("value", self.value, 1, 1 << 30, fix=f"{self.kind} at least one byte")


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of the connection, with the habits of its application and of its kernel."""

    #: The application sends a reply each time it has read this many bytes; 0 means never.
    reply_every_bytes: int = 0
    reply_bytes: int = 1
    #: "on" leaves acknowledging to the kernel. "off" and "always" set TCP_QUICKACK to 0 or 1 at the
    #: start and again after each read, as the course's programs do.
    quickack: str = "on"
    #: False for an application that reads nothing. The simulation refuses to fill its window.
    reads: bool = True
    #: True if replies come on a second connection and carry no ACKs for the first.
    other_connection: bool = False
    nodelay: bool = False  #: True if TCP_NODELAY is set on the sockets that send replies

    def __post_init__(self) -> None:
        choice("quickack", self.quickack, ("on", "off", "always"))
        whole("reply_every_bytes", self.reply_every_bytes, 0, fix="0 is for no answer")
        whole("reply_bytes", self.reply_bytes, 1, fix="an answer has at least one byte")


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """The path between the two ends, and the speed of the ends."""

    rtt_ms: float = 0.0  #: RTT of the path, whose rate is unlimited
    call_ms: float = 0.002  #: Duration of a system call
    #: Time from the arrival of data until an application that waits for it has read it.
    wakeup_ms: float = 0.02
    clock: Clock = field(default_factory=Clock)  #: The clock tick of both kernels

    def __post_init__(self) -> None:
        number("rtt_ms", self.rtt_ms, 0, 60_000, fix="give the round-trip time in ms")
        number("call_ms", self.call_ms, 1e-6, 1000, fix="a system call takes some time")
        number("wakeup_ms", self.wakeup_ms, 0, 1000, fix="give the time to wake up, in ms")


@dataclass(frozen=True, slots=True)
class SimulatedPacket:
    """A packet on the wire, as captured at the client's interface."""

    connection: int  #: Number of the connection, 0 or 1 (see Peer.other_connection)
    outgoing: bool  #: True if the client sent it, False if the peer did
    time_ms: float  #: Time at which the packet passes the client's interface
    segment: SimulatedSegment | None  #: The data with its reason, or None for a pure ACK
    ack: int  #: The acknowledgement number


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulated conversation."""

    #: Packets in the order in which they pass the client's interface.
    packets: tuple[SimulatedPacket, ...]
    call_ms: tuple[float, ...]  #: Time at which each call of the schedule began

    @property
    def data(self) -> tuple[SimulatedSegment, ...]:
        """Data segments that the client sent on the first connection, including retransmissions."""
        return tuple(
            packet.segment
            for packet in self.packets
            if packet.outgoing and packet.connection == 0 and packet.segment
        )

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Payload sizes of the client's data segments in order, without retransmissions."""
        return tuple(s.payload_bytes for s in self.data if s.reason != Reason.RETRANSMISSION)


# ---- event loop and ends ----


class _EventLoop:
    """Run events in order of time. Events at the same time run in the order of their creation."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, time_ms: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(time_ms, self.now), next(self._numbers), work))

    def run(self) -> None:
        for _ in range(MAX_EVENTS):
            if not self._events:
                return
            self.now, _number, work = heapq.heappop(self._events)
            work()
        raise ValueError(
            f"schedule=… makes more than {MAX_EVENTS} events; simulate fewer messages at a time"
        )


class _End:
    """One end of a connection. Its packets are listed as they pass the client's interface."""

    def __init__(
        self,
        loop: _EventLoop,
        path: NetworkPath,
        packets: list[SimulatedPacket],
        connection: int,
        *,
        outgoing: bool,
        nodelay: bool,
    ) -> None:
        self.loop = loop
        self._packets, self._connection, self._outgoing = packets, connection, outgoing
        self._delay_ms = path.rtt_ms / 2
        #: Time at which this end has the connection, and delay of its packets at the client.
        self.late_ms = 0.0 if outgoing else self._delay_ms
        mss, rtt_ms = mss_bytes(1500), path.rtt_ms + path.wakeup_ms
        self.sender = NagleSender(mss_bytes=mss, nodelay=nodelay, rtt_ms=rtt_ms, clock=path.clock)
        self.receiver = DelayedAckReceiver(mss_bytes=mss, rtt_ms=rtt_ms, clock=path.clock)
        self.other: _End = self
        self.readable: Callable[[], None] = lambda: None
        self.acked: Callable[[], None] = lambda: None
        self.unread = 0
        self._set_timers: set[float] = set()

    # ---- sending ----

    def emit(self, segments: Iterable[SimulatedSegment]) -> None:
        for segment in segments:
            self.receiver.data_sent(self.loop.now)
            self._launch(segment)
        self._watch_timers()

    def answer(self, acknowledged: bool) -> None:
        if acknowledged:
            self._launch(None)
        self._watch_timers()

    def _launch(self, segment: SimulatedSegment | None) -> None:
        upto, now = self.receiver.next_seq, self.loop.now
        self._packets.append(
            SimulatedPacket(self._connection, self._outgoing, now + self.late_ms, segment, upto)
        )
        self.loop.at(now + self._delay_ms, lambda: self.other.arrive(segment, upto))

    # The receiver first accepts the data without acknowledging it. The segments that the packet's
    # ACK releases leave next, and may carry the ACK of the data. Only then may a pure ACK leave.

    def arrive(self, segment: SimulatedSegment | None, upto: int) -> None:
        now = self.loop.now
        before = self.receiver.next_seq
        if segment:
            self.receiver.accept(segment.seq, segment.payload_bytes, now, push=segment.push)
        self.emit(self.sender.ack(upto, now))
        self.answer(self.receiver.check(now))
        if self.sender.is_drained:
            self.acked()
        if segment and self.receiver.next_seq > before:
            self.unread += segment.payload_bytes
            self.readable()

    # ---- timers ----

    def _watch_timers(self) -> None:
        for due in (self.sender.next_timer_ms, self.receiver.next_timer_ms):
            if due is not None and due not in self._set_timers:
                self._set_timers.add(due)
                self.loop.at(due, lambda due=due: self._tick(due))  # type: ignore[misc]

    def _tick(self, due: float) -> None:
        self._set_timers.discard(due)
        self.answer(self.receiver.timer(self.loop.now))
        self.emit(self.sender.timer(self.loop.now))
        self._watch_timers()


_Script: TypeAlias = Generator[float | str, None, None]


class _Application:
    """A program as a script, which yields the time or the event at which it goes on."""

    def __init__(self, loop: _EventLoop, path: NetworkPath, end: _End, other: _End) -> None:
        self._loop, self._path, self._end, self._other = loop, path, end, other
        self._waiting = ""
        self._script = self._play()
        loop.at(0.0, self._step)

    def _play(self) -> _Script:
        raise NotImplementedError

    def _step(self) -> None:
        wanted = next(self._script, None)
        if isinstance(wanted, str):
            self._waiting = wanted
        elif wanted is not None:
            self._loop.at(wanted, self._step)

    def _wake(self, event: str) -> None:
        if self._waiting == event:
            self._waiting = ""
            self._loop.at(self._loop.now + self._path.wakeup_ms, self._step)

    def _take(self, end: _End) -> int:
        """Read everything that has arrived at an end; return its size."""
        size, end.unread = end.unread, 0
        end.answer(end.receiver.read(self._loop.now))
        return size

    def _called(self) -> float:
        """Return the time at which a call that begins now returns."""
        return self._loop.now + self._path.call_ms


class _Client(_Application):
    """The application that makes the calls, and reads replies from the end `other`."""

    def __init__(
        self, loop: _EventLoop, path: NetworkPath, end: _End, other: _End, calls: Sequence[Call]
    ):
        super().__init__(loop, path, end, other)
        self._calls = calls
        self.began: list[float] = []
        other.readable = lambda: self._wake("read")
        end.acked = lambda: self._wake("drain")

    def _play(self) -> _Script:
        due = 0.0
        for call in self._calls:
            due += call.delay_ms
            if due > self._loop.now:
                yield due
            self.began.append(self._loop.now)
            if call.kind == "read":
                yield from self._read(call.value)
                due = self._loop.now
            elif call.kind == "drain":
                while not self._end.sender.is_drained:
                    yield "drain"
                due = self._loop.now
            else:
                self._do(call)
                yield self._called()

    def _read(self, size: int) -> _Script:
        while size > 0:
            while not self._other.unread:
                yield "read"
            size -= self._take(self._other)
        yield self._called()

    def _do(self, call: Call) -> None:
        end, now, on = self._end, self._loop.now, bool(call.value)
        if call.kind == "write" or call.kind == "more":
            end.emit(end.sender.write(call.value, now, more=call.kind == "more"))
        elif call.kind == "cork":
            end.emit(end.sender.set_cork(on, now))
        elif call.kind == "nodelay":
            end.emit(end.sender.set_nodelay(on, now))
        else:
            end.answer(end.receiver.set_quickack(on, now))


class _Server(_Application):
    """The peer's application, which reads what arrives, and replies from the end `other`."""

    def __init__(self, loop: _EventLoop, path: NetworkPath, end: _End, other: _End, peer: Peer):
        super().__init__(loop, path, end, other)
        self._peer = peer
        end.readable = self._notice
        if peer.quickack != "on":
            loop.at(end.late_ms + path.wakeup_ms, self._set_quickack)

    def _notice(self) -> None:
        if not self._peer.reads and self._end.unread > DEFAULT_WINDOW_BYTES:
            raise ParameterError(
                f"reads=False: {self._end.unread} bytes are unread, and the model has no receive"
                f" buffer that fills up; write at most {DEFAULT_WINDOW_BYTES} bytes to this peer"
            )
        self._wake("read")

    def _set_quickack(self) -> None:
        on = self._peer.quickack == "always"
        self._end.answer(self._end.receiver.set_quickack(on, self._loop.now))

    def _play(self) -> _Script:
        peer, unanswered = self._peer, 0
        while peer.reads:
            while not self._end.unread:
                yield "read"
            unanswered += self._take(self._end)
            if peer.quickack != "on":
                self._set_quickack()
            yield self._called()
            while peer.reply_every_bytes and unanswered >= peer.reply_every_bytes:
                unanswered -= peer.reply_every_bytes
                self._other.emit(self._other.sender.write(peer.reply_bytes, self._loop.now))
                yield self._called()


def simulate(
    calls: Sequence[Call],
    path: NetworkPath | None = None,
    peer: Peer | None = None,
    *,
    nodelay: bool = False,
) -> Simulation:
    """Run a schedule of calls over a simulated connection.

    Time 0 is the end of the client's connect(). `nodelay` sets TCP_NODELAY on the client's socket
    from the start. No packet is lost or reordered, and the simulation leaves out what NagleSender
    and DelayedAckReceiver leave out.
    """
    path, peer = path or NetworkPath(), peer or Peer()
    loop = _EventLoop()
    packets: list[SimulatedPacket] = []
    first = second = _connect(loop, path, packets, 0, (nodelay, peer.nodelay))
    if peer.other_connection:
        second = _connect(loop, path, packets, 1, (False, peer.nodelay))
    client = _Client(loop, path, first[0], second[0], calls)
    _Server(loop, path, first[1], second[1], peer)
    loop.run()
    in_order = sorted(packets, key=lambda packet: packet.time_ms)
    return Simulation(tuple(in_order), tuple(client.began))


def _connect(
    loop: _EventLoop,
    path: NetworkPath,
    packets: list[SimulatedPacket],
    connection: int,
    nodelay: tuple[bool, bool],
) -> tuple[_End, _End]:
    client, server = (
        _End(loop, path, packets, connection, outgoing=outgoing, nodelay=on)
        for outgoing, on in zip((True, False), nodelay, strict=True)
    )
    client.other, server.other = server, client
    return client, server
