"""When Linux sends what was written, and when it holds it back: an executable model.

:class:`NagleSender` follows net/ipv4/tcp_output.c and tcp.c of Linux 6.18 event by event: a write,
an acknowledgement, a timer, an option in; segments out, each with the reason why it left now.
tests/lab/models compares it with the running kernel.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from tcplab.checks import choice, number, whole
from tcplab.models.bursts import Burst, burst_segments
from tcplab.models.kernel import PROBE_SLACK_MS, RTO_MAX_MS, RTO_MIN_MS, Clock, RttEstimator
from tcplab.models.links import INITIAL_CWND_SEGMENTS
from tcplab.models.reasons import Reason
from tcplab.models.sending import Head, WindowUsage, is_small_out

DEFAULT_WINDOW_BYTES: Final = 65160  # a receiver with Linux's default buffer: 45 segments of 1448
MAX_TIME_MS: Final = 1e9
#: Slow start is left at this window, in segments: cubic's own growth is not modelled.
_NO_THRESHOLD: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class SimulatedSegment:
    """A segment that left the sender."""

    time_ms: float
    #: Sequence number of its first byte; the first byte of the connection is 0.
    seq: int
    payload_bytes: int
    reason: Reason
    #: What had held its first byte back, or None.
    waited_for: Reason | None = None
    #: Since the write of its first byte.
    waited_ms: float = 0.0
    push: bool = True
    #: The FIN flag; a FIN takes one sequence number after the payload.
    fin: bool = False

    @property
    def end_seq(self) -> int:
        """Sequence number after its last byte (and FIN)."""
        return self.seq + self.payload_bytes + self.fin


@dataclass(frozen=True, slots=True)
class SenderState:
    """The inside of a sender between two events."""

    #: Of the last event.
    time_ms: float
    #: Written, not yet sent.
    queued_bytes: int
    #: Sent, not yet acknowledged.
    unacked_bytes: int
    #: Segments sent, not yet acknowledged.
    packets_out: int
    #: Minshall's question: is a segment shorter than the MSS unacknowledged?
    small_outstanding: bool
    corked: bool
    nodelay: bool
    cwnd_segments: int
    window_bytes: int
    #: Retransmission timeout; also how long a cork holds.
    rto_ms: float
    #: Which timer runs ("retransmit", "loss-probe", "probe"), or None.
    timer: str | None
    #: When it fires, or None.
    timer_ms: float | None
    #: Why the queued bytes wait, or None if there are none.
    held_because: Reason | None
    #: The same as a sentence.
    why: str


@dataclass(slots=True)
class _InFlight:
    seq: int
    end_seq: int
    sent_ms: float
    retransmitted: bool = False


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rule of tp->nonagle, or of the flags of one call, for a last small segment."""

    cork: bool = False
    nodelay: bool = False
    push: bool = False  # send now, whatever the cork says


class NagleSender:
    """The sending half of a Linux TCP connection, one event at a time.

    Each event takes the time at which it happens and returns the segments that leave; times must
    not go back. Between events, :attr:`state` says what waits and why.

    >>> sender = NagleSender()
    >>> [s.payload_bytes for s in sender.write(2, 0.0)]
    [2]
    >>> sender.write(2, 0.1), sender.write(26, 0.2)
    ([], [])
    >>> sender.state.why
    '28 bytes wait: less than a full segment of 1448, and a small segment is unacknowledged (Nagle)'
    >>> [(s.payload_bytes, str(s.reason)) for s in sender.ack(2, 40.0)]
    [(28, 'released-by-ack')]

    The rules, in the order in which they are asked, for the bytes at the head of the queue:

    1. the congestion window and the peer's window must have room;
    2. full segments go; but when the windows take few of them, and an ACK is due any moment, Linux
       waits for it, to send a longer burst (tcp_tso_should_defer);
    3. a last, small piece goes if TCP_NODELAY was just set or a cork just pulled with it set;
    4. it waits while TCP_CORK is set, or its last write had MSG_MORE (until the next event only:
       an ACK that arrives sends it);
    5. it goes with TCP_NODELAY;
    6. it waits while a *small* segment is unacknowledged (Minshall's modification of Nagle's
       algorithm, draft-minshall-nagle-01; with nagle="rfc896": while *anything* is unacknowledged,
       full segments of the same write too);
    7. when nothing at all is unacknowledged and bytes still wait, a timer of one RTO sends them.
       This is the "200 millisecond ceiling" of tcp(7), but the RTO is the RTT and 200 ms (and at
       first at least 3 RTT);
    8. a tail loss probe (RFC 8985, section 7) sends waiting bytes, corked or not, when an ACK is
       overdue: after 2 RTT + 2 ms if two or more segments are unacknowledged. Both ends are taken
       to have permitted SACK, without which Linux sends no such probe.

    Left out: loss recovery (a timeout resends the first segment, no more), congestion windows
    beyond slow start, packets that wait in the sender's own interface queue (then autocorking and
    TCP small queues hold what may go until one of them has left, and what MSG_MORE held goes with
    it), the limit of 17 memory fragments for each buffer, urgent data, a full send buffer.

    Args:
        mss_bytes: full segment (TCP_MAXSEG, less options).
        nodelay: TCP_NODELAY at the start.
        cork: TCP_CORK at the start.
        nagle: "minshall" as Linux does it, or "rfc896" as RFC 896 and RFC 9293 have it.
        cwnd_segments: initial congestion window.
        window_bytes: the peer's window.
        rtt_ms: measured during the handshake; None if unknown.
        clock: the kernel's tick.
    """

    def __init__(
        self,
        *,
        mss_bytes: int = 1448,
        nodelay: bool = False,
        cork: bool = False,
        nagle: str = "minshall",
        cwnd_segments: int = INITIAL_CWND_SEGMENTS,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        rtt_ms: float | None = 0.05,
        clock: Clock | None = None,
    ) -> None:
        self.mss_bytes = whole("mss_bytes", mss_bytes, 1, 65535, fix="1448 on Ethernet")
        self._minshall = choice("nagle", nagle, ("minshall", "rfc896")) == "minshall"
        self._cwnd = self._initial_cwnd = whole(
            "cwnd_segments", cwnd_segments, 1, fix="a sender may send at least one segment"
        )
        self._window = whole("window_bytes", window_bytes, 0, fix="give the peer's window")
        self._largest_window = self._window
        if rtt_ms is not None:
            number("rtt_ms", rtt_ms, 0, 60_000, fix="give the handshake's round trip in ms")
        self.clock = clock or Clock()
        self.rtt = RttEstimator(rtt_ms)
        self._cork, self._nodelay, self._push_all = cork, nodelay, False
        self._una = self._nxt = self._written = 0
        self._small_end = 0  # snd_sml: end of the last segment shorter than the MSS
        self._in_flight: deque[_InFlight] = deque()
        self._writes: deque[tuple[int, float]] = deque()  # (end of a write, its time), unsent
        self._tail_push = False
        self._pushed = 0  # end of the last write that set PSH
        self._closed = self._fin_sent = False
        self._held: Reason | None = None
        self._timer: tuple[str, float] | None = None
        self._backoff = 0
        self._probed_at: int | None = None  # SND.NXT when a tail loss probe left
        self._last_sent_ms = 0.0
        self._usage = WindowUsage()
        self._now = 0.0

    # ---- events ----

    def write(self, size_bytes: int, at_ms: float, *, more: bool = False) -> list[SimulatedSegment]:
        """The application writes; more is MSG_MORE. A writev is one write of the sum."""
        whole("size_bytes", size_bytes, 1, 1 << 30, fix="write at least one byte")
        if self._closed:
            raise ValueError("write after close(): make a new sender, the FIN has been queued")
        self._advance(at_ms)
        if not self._queued:
            self._begin_buffer()
        self._written += size_bytes
        self._writes.append((self._written, at_ms))
        # tcp_mark_push, also after half a window without one (forced_push).
        self._tail_push = not more or self._written > self._pushed + self._largest_window // 2
        if self._tail_push:
            self._pushed = self._written
        rules = _Rules(cork=True) if more else self._rules()
        cause = Reason.MSG_MORE if more else Reason.SENT_AT_ONCE
        return self._push(cause, rules)

    def ack(
        self, upto: int, at_ms: float, window_bytes: int | None = None
    ) -> list[SimulatedSegment]:
        """An acknowledgement of all bytes before sequence number upto arrives."""
        whole("upto", upto, 0, self._nxt, fix="only what was sent can be acknowledged")
        self._advance(at_ms)
        if window_bytes is not None and window_bytes != self._window:
            self._window = whole("window_bytes", window_bytes, 0, fix="give the peer's window")
            self._largest_window = max(self._largest_window, window_bytes)
            if self._queued:
                self._restart_after_idle()
        if upto > self._una:
            self._take_ack(upto)
        elif self._timer and self._timer[0] == "probe":
            self._timer = None  # the peer lives and has room: the wait begins anew
        return self._push(Reason.RELEASED_BY_ACK, self._rules()) if self._queued else []

    def set_nodelay(self, on: bool, at_ms: float) -> list[SimulatedSegment]:
        """TCP_NODELAY; setting it, or again, sends all that waits, even if corked (tcp(7))."""
        self._advance(at_ms)
        self._nodelay = on
        if not on:
            return []
        self._push_all = True
        return self._push(Reason.NODELAY_SET, self._rules())

    def set_cork(self, on: bool, at_ms: float) -> list[SimulatedSegment]:
        """TCP_CORK; pulling the cork sends what waits, unless Nagle's algorithm still holds it."""
        self._advance(at_ms)
        self._cork = on
        if on:
            return []
        if self._nodelay:
            self._push_all = True
        return self._push(Reason.UNCORKED, self._rules())

    def close(self, at_ms: float) -> list[SimulatedSegment]:
        """Shutdown or close: the last segment carries the FIN, and a FIN never waits for Nagle."""
        self._advance(at_ms)
        if self._closed:
            return []
        self._closed = True
        return self._push(Reason.SHUTDOWN, _Rules(nodelay=True))

    def timer(self, at_ms: float) -> list[SimulatedSegment]:
        """Time passes; if the timer of :attr:`next_timer_ms` is due by then, it fires."""
        self._advance(at_ms)
        if self._timer is None or self._timer[1] > at_ms:
            return []
        name, self._timer = self._timer[0], None
        if name == "probe":
            return self._fire_probe()
        if name == "loss-probe":
            return self._fire_loss_probe()
        return self._fire_retransmit()

    # ---- what can be seen ----

    @property
    def next_timer_ms(self) -> float | None:
        """When the next timer fires, or None."""
        return self._timer[1] if self._timer else None

    @property
    def is_drained(self) -> bool:
        """All that was written has been acknowledged."""
        return self._una >= self._written

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def next_seq(self) -> int:
        """SND.NXT: the sequence number that the next new byte on the wire has."""
        return self._nxt

    @property
    def state(self) -> SenderState:
        """All that decides what happens next."""
        return SenderState(
            time_ms=self._now,
            queued_bytes=self._queued,
            unacked_bytes=self._nxt - self._una,
            packets_out=len(self._in_flight),
            small_outstanding=self._small_is_out(),
            corked=self._cork,
            nodelay=self._nodelay,
            cwnd_segments=self._cwnd,
            window_bytes=self._window,
            rto_ms=self.rtt.rto_ms,
            timer=self._timer[0] if self._timer else None,
            timer_ms=self.next_timer_ms,
            held_because=self._held if self._queued else None,
            why=self._why(),
        )

    def _why(self) -> str:
        if not self._queued:
            return "nothing waits"
        waiting = f"{self._queued} byte{'s wait' if self._queued > 1 else ' waits'}"
        small = f"less than a full segment of {self.mss_bytes}"
        out = "a small segment is" if self._minshall else "earlier data are"
        until = f"until {self._timer[1]:.0f} ms" if self._timer else "until the next ACK"
        sentences = {
            Reason.HELD_BY_NAGLE: f"{small}, and {out} unacknowledged (Nagle)",
            Reason.CORKED: f"{small}, and the socket is corked, {until} at most",
            Reason.MSG_MORE: f"{small}, and the last write said MSG_MORE, {until} at most",
            Reason.CWND_LIMITED: f"the congestion window of {self._cwnd} segments is full",
            Reason.WINDOW_LIMITED: f"the peer's window of {self._window} bytes has no room",
            Reason.DEFERRED: "an ACK is due that allows a longer burst",
        }
        return f"{waiting}: {sentences[self._held]}" if self._held in sentences else waiting

    # ---- the queue ----

    @property
    def _queued(self) -> int:
        return self._written - (self._nxt - self._fin_sent)

    def _advance(self, at_ms: float) -> None:
        number("at_ms", at_ms, self._now, MAX_TIME_MS, fix="events must come in order of time")
        self._now = at_ms

    def _rules(self) -> _Rules:
        # A queued FIN says that no more will come, so there is nothing to wait for.
        if self._closed:
            return _Rules(nodelay=True)
        return _Rules(self._cork, self._nodelay, self._push_all)

    def _begin_buffer(self) -> None:
        """tcp_skb_entail: a new buffer forgets the urge to push, and an idle window shrinks."""
        self._push_all = False
        self._restart_after_idle()

    def _restart_after_idle(self) -> None:
        """tcp_slow_start_after_idle_check: the window halves with each timeout without a segment.

        It is asked when a first byte is queued, and when the peer's window changes while some wait.
        """
        idle_ms = self._now - self._last_sent_ms - self.rtt.rto_ms
        if not self._in_flight and self._nxt:
            while idle_ms > 0 and self._cwnd > self._initial_cwnd:
                self._cwnd = max(self._cwnd // 2, self._initial_cwnd)
                idle_ms -= self.rtt.rto_ms

    def _small_is_out(self) -> bool:
        return is_small_out(self._una, self._small_end, self._nxt)

    def _head(self, rules: _Rules) -> Head:
        return Head(
            queued_bytes=self._queued,
            mss_bytes=self.mss_bytes,
            room_bytes=self._room,
            cwnd_full=len(self._in_flight) >= self._cwnd,
            small_is_out=self._small_is_out() if self._minshall else bool(self._in_flight),
            corked=rules.cork,
            nodelay=rules.nodelay,
            push=rules.push,
        )

    # ---- sending ----

    def _push(self, cause: Reason, rules: _Rules) -> list[SimulatedSegment]:
        """tcp_write_xmit: sends what the rules allow, then sees to the timers and the window."""
        segments: list[SimulatedSegment] = []
        limit: Reason | None = None
        while self._queued and limit is None:
            limit, size = self._next_piece(rules)
            if size:
                segments += self._send(size, cause)
        if self._closed and not self._fin_sent and not self._queued:
            segments = self._send_fin(segments)
        if limit is Reason.CORKED and cause is Reason.MSG_MORE and not self._cork:
            limit = Reason.MSG_MORE
        self._held = limit
        deferred = self._burst() if limit is Reason.DEFERRED else None
        full = len(self._in_flight) >= self._cwnd
        full = full or (deferred is not None and deferred.is_cwnd_limited)
        if segments or full:
            self._usage.note(len(self._in_flight), self._una, self._nxt, full=full)
        if segments:
            self._arm_loss_probe()
        elif self._queued and not self._in_flight and self._timer is None:
            self._arm("probe", max(self.rtt.rto_ms, RTO_MIN_MS))
        return segments

    def _next_piece(self, rules: _Rules, *, probe: bool = False) -> tuple[Reason | None, int]:
        """The reason that stops the head of the queue (or None), and the bytes that may go."""
        queued, mss = self._queued, self.mss_bytes
        head = self._head(rules)
        if wait := head.held_by():
            return wait, 0
        if queued <= mss:
            return None, queued
        if not probe and self._burst() is not None:
            return Reason.DEFERRED, 0
        reach = min(queued, head.room_bytes)
        burst = self._burst_segments() * mss
        if burst <= reach:
            return None, burst
        small = reach % mss
        # Linux asks once for all that it sends together; the letter of the RFC, for each segment.
        by_letter = not (self._minshall or rules.nodelay or rules.push)
        return None, reach - small if small and (by_letter or head.small_held_by()) else reach

    def _burst_segments(self) -> int:
        """Segments in one super-segment: half the window at most (tcp_cwnd_test)."""
        quota = min(max(self._cwnd // 2, 1), self._cwnd - len(self._in_flight))
        return min(quota, burst_segments(self._cwnd, self.mss_bytes, self.rtt))

    @property
    def _room(self) -> int:
        """Bytes that the peer's window takes."""
        return self._una + self._window - self._nxt

    def _burst(self) -> Burst | None:
        """The burst that Linux would defer, and the letter of the RFC would not; or None."""
        if not (self._minshall and self._in_flight):
            return None
        burst = Burst(
            queued_bytes=self._queued,
            mss_bytes=self.mss_bytes,
            cwnd_segments=self._cwnd,
            in_flight=len(self._in_flight),
            window_bytes=self._window,
            room_bytes=self._room,
            largest_window_bytes=self._largest_window,
            quiet_ms=self._now - self._last_sent_ms,
            oldest_ms=self._now - self._in_flight[0].sent_ms,
            closed=self._closed,
        )
        return burst if burst.is_deferred(self.rtt) else None

    def _send(self, size: int, cause: Reason) -> list[SimulatedSegment]:
        segments = []
        several = size > self.mss_bytes
        for start in range(0, size, self.mss_bytes):
            piece = min(self.mss_bytes, size - start)
            # Behind a burst of several the receiver should not wait (__tcp_transmit_skb).
            segments.append(self._send_one(piece, cause, push=several and start + piece == size))
        if size % self.mss_bytes and cause is not Reason.CORK_TIMEOUT:
            # The timer's own way of sending does not look back at what it sent.
            self._small_end = self._nxt
        return segments

    def _send_one(self, size: int, cause: Reason, *, push: bool) -> SimulatedSegment:
        seq = self._nxt
        since = self._writes[0][1]
        waited_ms = self._now - since
        last = seq + size == self._written
        segment = SimulatedSegment(
            self._now,
            seq,
            size,
            self._reason(size, cause),
            self._held if waited_ms > 0 else None,
            waited_ms,
            push=push or (last and self._tail_push) or cause is Reason.CORK_TIMEOUT,
        )
        self._nxt += size
        while self._writes and self._writes[0][0] <= self._nxt:
            self._writes.popleft()
        self._track(seq, self._nxt)
        return segment

    def _track(self, seq: int, end_seq: int) -> None:
        self._in_flight.append(_InFlight(seq, end_seq, self._now))
        if len(self._in_flight) == 1:
            self._arm("retransmit", self.rtt.rto_ms)
        self._last_sent_ms = self._now

    def _reason(self, size: int, cause: Reason) -> Reason:
        if cause in (Reason.SENT_AT_ONCE, Reason.MSG_MORE):
            return Reason.FULL_SIZED if size == self.mss_bytes else Reason.SENT_AT_ONCE
        return cause

    def _send_fin(self, segments: list[SimulatedSegment]) -> list[SimulatedSegment]:
        """The FIN rides on the last segment of this push, or goes alone."""
        self._fin_sent = True
        self._nxt += 1
        if not segments:
            self._track(self._nxt - 1, self._nxt)
            return [
                SimulatedSegment(self._now, self._nxt - 1, 0, Reason.SHUTDOWN, push=False, fin=True)
            ]
        self._in_flight[-1].end_seq = self._nxt
        return [*segments[:-1], replace(segments[-1], fin=True)]

    # ---- acknowledgements ----

    def _take_ack(self, upto: int) -> None:
        acked: list[_InFlight] = []
        while self._in_flight and self._in_flight[0].end_seq <= upto:
            acked.append(self._in_flight.popleft())
        if self._in_flight:
            self._in_flight[0].seq = max(self._in_flight[0].seq, upto)
        self._una = upto
        self._backoff = 0
        if self._probed_at is not None and upto >= self._probed_at:
            self._probed_at = None
        if acked and not any(segment.retransmitted for segment in acked):
            self.rtt.sample(self._now - acked[0].sent_ms, self._una, self._nxt)
        # Slow start, as far as the window was used (tcp_is_cwnd_limited).
        if self._usage.allows_growth(self._cwnd):
            self._cwnd = min(self._cwnd + len(acked), _NO_THRESHOLD)
        self._timer = None
        if self._in_flight:
            self._arm_loss_probe(advancing=True)

    # ---- timers ----

    def _arm(self, name: str, delay_ms: float) -> None:
        self._timer = (name, self.clock.expiry_ms(self._now, self.clock.ticks(delay_ms)))

    def _arm_loss_probe(self, *, advancing: bool = False) -> None:
        """tcp_schedule_loss_probe: two round trips, and time for a delayed ACK if one is out.

        Never later than the retransmission timeout, which an ACK of new data starts anew.
        """
        started_ms = self._now if advancing else self._in_flight[0].sent_ms
        timeout_ms = started_ms + self._rto_ms() - self._now
        if self.rtt.srtt_ms is None:
            self._arm("retransmit", max(timeout_ms, 0))
            return
        probe_ms = 2 * self.rtt.srtt_ms
        probe_ms += RTO_MIN_MS if len(self._in_flight) == 1 else PROBE_SLACK_MS
        self._arm("loss-probe", min(probe_ms, timeout_ms) if timeout_ms > 0 else probe_ms)

    def _rto_ms(self) -> float:
        return min(self.rtt.rto_ms * (1 << min(self._backoff, 16)), RTO_MAX_MS)

    def _fire_probe(self) -> list[SimulatedSegment]:
        """tcp_write_wakeup: one segment of what waits, as much as the window allows."""
        if self._in_flight or not self._queued:
            return []
        size = min(self._queued, self.mss_bytes, self._room)
        if size <= 0:
            self._backoff += 1
            wait_ms = max(self.rtt.rto_ms, RTO_MIN_MS) * (1 << min(self._backoff, 16))
            self._arm("probe", min(wait_ms, RTO_MAX_MS))
            return []
        return self._send(size, Reason.CORK_TIMEOUT)

    def _fire_loss_probe(self) -> list[SimulatedSegment]:
        """tcp_send_loss_probe: new data if there are any, corked or not; else the last segment."""
        if not self._in_flight:
            return []
        segments: list[SimulatedSegment] = []
        if self._probed_at is None:
            segments = self._probe()
            self._probed_at = self._nxt
        self._arm("retransmit", self._rto_ms())
        return segments

    def _probe(self) -> list[SimulatedSegment]:
        # The probe may exceed the congestion window by one segment, the peer's window never.
        limit, size = None, 0
        if self._queued:
            limit, size = self._next_piece(_Rules(nodelay=True), probe=True)
        if limit is Reason.CWND_LIMITED:
            size = min(self._queued, self.mss_bytes)
            if size > self._room:
                size = 0
        if size:
            return self._send(size, Reason.TAIL_LOSS_PROBE)
        return [self._resend(self._in_flight[-1])]

    def _fire_retransmit(self) -> list[SimulatedSegment]:
        if not self._in_flight:
            return []
        self._backoff += 1
        self._arm("retransmit", self._rto_ms())
        return [self._resend(self._in_flight[0])]

    def _resend(self, lost: _InFlight) -> SimulatedSegment:
        lost.retransmitted = True
        fin = self._fin_sent and lost.end_seq == self._nxt
        return SimulatedSegment(
            self._now,
            lost.seq,
            lost.end_seq - lost.seq - fin,
            Reason.RETRANSMISSION,
            Reason.ACK_DELAYED_BY_PEER,
            self._now - lost.sent_ms,
            fin=fin,
        )
