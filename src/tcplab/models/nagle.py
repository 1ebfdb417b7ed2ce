"""Model when Linux sends written data and when it holds the data back.

:class:`NagleSender` follows net/ipv4/tcp_output.c and tcp.c of Linux 6.18 event by event. An event
is a write, an acknowledgement, a timer or an option. Each event returns the segments that leave,
with the reason each of them left at that moment. tests/lab/models compares the model with the
running kernel.
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
from tcplab.models.sending import Head, WindowUsage, is_small_out, size_goal_bytes
from tcplab.models.sndbuf import NO_LIMIT_BYTES, SendBuffer

# The window of a receiver with Linux's default buffer, 45 segments of 1448 bytes.
DEFAULT_WINDOW_BYTES: Final = 65160
MAX_TIME_MS: Final = 1e9
#: The slow-start threshold, in segments. It is never reached, so slow start never ends.
_NO_THRESHOLD: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class SimulatedSegment:
    """A segment that left the sender."""

    time_ms: float
    #: Sequence number of the segment's first byte. The connection's first byte is number 0.
    seq: int
    payload_bytes: int
    reason: Reason
    #: The reason the first byte was held, or None. A retransmission has ACK_DELAYED_BY_PEER.
    waited_for: Reason | None = None
    #: Time since the first byte was written or, in a retransmission, since it was first sent.
    waited_ms: float = 0.0
    push: bool = True
    #: The FIN flag. A FIN takes one sequence number after the payload.
    fin: bool = False

    @property
    def end_seq(self) -> int:
        return self.seq + self.payload_bytes + self.fin


@dataclass(frozen=True, slots=True)
class SenderState:
    """The state of a sender between two events."""

    #: Time of the last event.
    time_ms: float
    #: Bytes written but not sent.
    queued_bytes: int
    #: Bytes sent but not acknowledged.
    unacked_bytes: int
    #: Segments sent but not acknowledged.
    packets_out: int
    #: True if a segment shorter than the MSS is unacknowledged (Minshall).
    small_outstanding: bool
    corked: bool
    nodelay: bool
    cwnd_segments: int
    window_bytes: int
    #: Retransmission timeout, which also limits a cork.
    rto_ms: float
    #: The running timer ("retransmit", "loss-probe", "probe"), or None.
    timer: str | None
    #: Time at which the timer fires, or None.
    timer_ms: float | None
    #: The reason the queued bytes wait, or None if there are none.
    held_because: Reason | None
    #: The reason in words, or "nothing waits".
    why: str


@dataclass(slots=True)
class _InFlight:
    seq: int
    end_seq: int
    sent_ms: float
    retransmitted: bool = False


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rule for a short last segment, as set by tp->nonagle or by the flags of one call."""

    cork: bool = False
    nodelay: bool = False
    push: bool = False  # send everything, even if corked


class NagleSender:
    """Simulate the sending half of a Linux TCP connection, one event at a time.

    Each event takes the time at which it happens and returns the segments that leave. Between
    events, :attr:`state` says which bytes wait and why.

    >>> sender = NagleSender()
    >>> [s.payload_bytes for s in sender.write(2, 0.0)]
    [2]
    >>> sender.write(2, 0.1), sender.write(26, 0.2)
    ([], [])
    >>> sender.state.why
    '28 bytes wait: less than a full segment of 1448, and a small segment is unacknowledged (Nagle)'
    >>> [(s.payload_bytes, str(s.reason)) for s in sender.ack(2, 40.0)]
    [(28, 'released-by-ack')]

    These rules apply to the bytes at the head of the queue, in this order:

    1. the congestion window and the peer's window must have room;
    2. full segments leave. But if the windows have room for only a few of them and an ACK is due
       soon, Linux waits for that ACK to send a longer burst (tcp_tso_should_defer);
    3. a small last piece leaves if TCP_NODELAY was just set, or was on when a cork was removed;
    4. it waits while TCP_CORK is set. After a write with MSG_MORE it waits until the next event,
       such as an ACK;
    5. it leaves if TCP_NODELAY is set;
    6. it waits while a *small* segment is unacknowledged (Minshall's modification of Nagle's
       algorithm, draft-minshall-nagle-01). With nagle="rfc896", it waits while *anything* is
       unacknowledged, even full segments of the same write;
    7. if nothing is unacknowledged and bytes still wait, a timer of one RTO sends them.
       This is the "200 millisecond ceiling" of tcp(7), but the RTO is the RTT plus at least 200 ms
       (and at first at least 3 RTT);
    8. a tail loss probe (RFC 8985, section 7) sends waiting bytes, corked or not, if no ACK
       comes within 2 RTT + 2 ms (2 RTT + 200 ms if only one segment is unacknowledged). Linux
       sends no such probe if an end did not permit SACK;
    9. a write that needs another buffer while the send buffer is full waits until ACKs have freed
       a third of it.

    Several things are left out: loss recovery (a timeout only resends the first segment),
    congestion windows beyond slow start, the limit of 17 memory fragments per buffer (since 6.4
    CONFIG_MAX_SKB_FRAGS), urgent data, and packets that wait in the sender's own interface queue.
    Such packets make autocorking and TCP small queues hold data until one of them has left, and
    data held by MSG_MORE leaves with it.

    Args:
        mss_bytes: payload of a full segment (the MSS minus the TCP options)
        nodelay, cork: TCP_NODELAY and TCP_CORK at the start
        nagle: "minshall" or "rfc896", the rule for small segments
        cwnd_segments: initial congestion window
        window_bytes: window that the peer offers first
        rtt_ms: RTT measured during the handshake, or None if unknown
        clock: clock tick of the sender's kernel
        send_buffer: its limit blocks a write until :meth:`resume`; by default there is no limit

    Set :attr:`sack` to False if an end did not permit SACK.
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
        send_buffer: SendBuffer | None = None,
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
        self._small_end = 0  # snd_sml, the end of the last segment shorter than the MSS
        self._in_flight: deque[_InFlight] = deque()
        # End and time of each write that has unsent bytes.
        self._writes: deque[tuple[int, float]] = deque()
        self._buffer = send_buffer or SendBuffer(NO_LIMIT_BYTES)
        # These three attributes describe the current call.
        self._unwritten, self._is_more, self._has_copied = 0, False, False
        self._push_ends: set[int] = set()  # ends of unsent buffers with the PSH flag
        self._pushed = 0  # end of the last buffer that got the PSH flag
        self._closed = self._fin_sent = False
        self._held: Reason | None = None
        self._timer: tuple[str, float] | None = None
        self.sack = True
        self._backoff = 0
        self._probed_at: int | None = None  # SND.NXT when a tail loss probe left, or None
        self._last_sent_ms = 0.0
        self._usage = WindowUsage()
        self._now = 0.0

    # ---- events ----

    def write(self, size_bytes: int, at_ms: float, *, more: bool = False) -> list[SimulatedSegment]:
        """Write bytes; `more` is MSG_MORE. A writev counts as one write of its total size."""
        whole("size_bytes", size_bytes, 1, 1 << 30, fix="write at least one byte")
        if self._closed:
            raise ValueError("write after close(): make a new sender, the FIN has been queued")
        self._advance(at_ms)
        if self._unwritten:
            raise ValueError("write during a blocked write: call resume() once is_writable is true")
        self._unwritten, self._is_more, self._has_copied = size_bytes, more, False
        self._writes.append((self._written + size_bytes, at_ms))
        return self._copy()

    def resume(self, at_ms: float) -> list[SimulatedSegment]:
        """Let the blocked write continue after an ACK has freed memory."""
        self._advance(at_ms)
        return self._copy()

    def set_send_buffer(self, requested_bytes: int, at_ms: float) -> None:
        """Set SO_SNDBUF, which also stops the automatic growth of the send buffer."""
        self._advance(at_ms)
        self._buffer.fix(requested_bytes)

    def ack(
        self, upto: int, at_ms: float, window_bytes: int | None = None
    ) -> list[SimulatedSegment]:
        """Process an ACK of all bytes before `upto`, with the peer's window if it is given."""
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
            self._timer = None  # the peer is alive, so the timer starts again
        segments = self._push(Reason.RELEASED_BY_ACK, self._rules()) if self._queued else []
        if self._unwritten and len(self._in_flight) < self._cwnd:
            self._buffer.enlarge(self._cwnd)
        return segments

    def set_nodelay(self, on: bool, at_ms: float) -> list[SimulatedSegment]:
        """Set TCP_NODELAY. Turning it on (again) sends everything, even if corked (tcp(7))."""
        self._advance(at_ms)
        self._nodelay = on
        if not on:
            return []
        self._push_all = True
        return self._push(Reason.NODELAY_SET, self._rules())

    def set_cork(self, on: bool, at_ms: float) -> list[SimulatedSegment]:
        """Set TCP_CORK. Removing it sends the queued bytes unless Nagle's algorithm holds them."""
        self._advance(at_ms)
        self._cork = on
        if on:
            return []
        if self._nodelay:
            self._push_all = True
        return self._push(Reason.UNCORKED, self._rules())

    def close(self, at_ms: float) -> list[SimulatedSegment]:
        """Shut down or close. The last segment carries the FIN, which does not wait for Nagle."""
        self._advance(at_ms)
        if self._closed:
            return []
        self._closed = True
        return self._push(Reason.SHUTDOWN, _Rules(nodelay=True))

    def timer(self, at_ms: float) -> list[SimulatedSegment]:
        """Advance to `at_ms`, and fire the timer of :attr:`next_timer_ms` if it is due by then."""
        self._advance(at_ms)
        if self._timer is None or self._timer[1] > at_ms:
            return []
        name, self._timer = self._timer[0], None
        if name == "probe":
            return self._fire_probe()
        if name == "loss-probe":
            return self._fire_loss_probe()
        return self._fire_retransmit()

    # ---- visible state ----

    @property
    def next_timer_ms(self) -> float | None:
        return self._timer[1] if self._timer else None

    @property
    def is_drained(self) -> bool:
        return self._una >= self._written and not self._unwritten

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that the current call still has to copy, while it is blocked."""
        return self._unwritten

    @property
    def is_writable(self) -> bool:
        """True if an ACK has freed enough memory to wake a blocked write."""
        return self._unwritten > 0 and self._buffer.wakes_writer

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def next_seq(self) -> int:
        """SND.NXT, the sequence number of the next new byte on the wire."""
        return self._nxt

    @property
    def state(self) -> SenderState:
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
            Reason.MSG_MORE: f"{small}, and the last write used MSG_MORE, {until} at most",
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
        # After close() no more data will come, so waiting for more is useless.
        if self._closed:
            return _Rules(nodelay=True)
        return _Rules(self._cork, self._nodelay, self._push_all)

    def _begin_buffer(self) -> None:
        """For a new buffer, clear the push flag and shrink cwnd after a pause (tcp_skb_entail)."""
        self._push_all = False
        self._restart_after_idle()

    def _restart_after_idle(self) -> None:
        """Shrink the congestion window after a pause (tcp_slow_start_after_idle_check).

        The window halves once per idle RTO, down to the initial window. The kernel does this when
        it starts a new buffer, and when the peer's window changes while bytes wait.
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

    # ---- writing ----

    def _copy(self) -> list[SimulatedSegment]:
        """Copy the current call's bytes to buffers, and send (tcp_sendmsg_locked).

        A full buffer may leave before the call has copied its other bytes. A call that has to wait
        for memory pushes what it has copied.
        """
        segments: list[SimulatedSegment] = []
        cause = Reason.MSG_MORE if self._is_more else Reason.SENT_AT_ONCE
        goal = size_goal_bytes(self.mss_bytes, self._largest_window)
        while True:
            filled = self._buffer.unsent_tail_bytes(self._nxt)
            is_new = not 0 < filled < goal
            if is_new and not self._buffer.has_room:
                if self._has_copied and self._queued:
                    self._mark_push()
                    segments += self._push(cause, _Rules(push=True))
                return segments
            if is_new:
                self._begin_buffer()
                filled = 0
            self._append(min(goal - filled, self._unwritten), is_new=is_new)
            if not self._unwritten:
                break
            if self._is_push_overdue:
                self._mark_push()
                segments += self._push(cause, _Rules(push=True))
            elif self._queued == goal:
                segments += self._push(cause, _Rules(push=True), once=True)
        if not self._is_more or self._is_push_overdue:
            self._mark_push()
        rules = _Rules(cork=True) if self._is_more else self._rules()
        return segments + self._push(cause, rules)

    def _append(self, size: int, *, is_new: bool) -> None:
        has_mark = not is_new and self._written in self._push_ends
        if has_mark:
            self._push_ends.remove(self._written)
        self._written += size
        self._unwritten -= size
        if has_mark and self._has_copied:  # a mark set by an earlier call is dropped
            self._push_ends.add(self._written)
        self._has_copied = True
        self._buffer.append(self._written, is_new=is_new)

    @property
    def _is_push_overdue(self) -> bool:
        """True after half a window without the PSH flag (forced_push)."""
        return self._written > self._pushed + self._largest_window // 2

    def _mark_push(self) -> None:
        self._push_ends.add(self._written)
        self._pushed = self._written

    # ---- sending ----

    def _push(self, cause: Reason, rules: _Rules, *, once: bool = False) -> list[SimulatedSegment]:
        """Send the bytes that the rules allow; update timers and window usage (tcp_write_xmit).

        With `once`, one burst leaves, and it is not deferred (tcp_push_one).
        """
        segments: list[SimulatedSegment] = []
        limit: Reason | None = None
        while self._queued and limit is None:
            limit, size = self._next_piece(rules, probe=once)
            if size:
                segments += self._send(size, cause)
                if once:
                    break
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
        """Return the reason that holds the queue's head, or None and how many bytes may leave."""
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
        # Linux decides once for all the bytes it sends together. RFC 896, taken literally, decides
        # for each segment.
        by_letter = not (self._minshall or rules.nodelay or rules.push)
        return None, reach - small if small and (by_letter or head.small_held_by()) else reach

    def _burst_segments(self) -> int:
        """Return how many segments may leave at once, at most half of cwnd (tcp_cwnd_test)."""
        quota = min(max(self._cwnd // 2, 1), self._cwnd - len(self._in_flight))
        return min(quota, burst_segments(self._cwnd, self.mss_bytes, self.rtt))

    @property
    def _room(self) -> int:
        return self._una + self._window - self._nxt

    def _burst(self) -> Burst | None:
        """Return the burst that Linux would defer, or None. The literal RFC 896 rule never does."""
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
        self._buffer.send(self._nxt, self._nxt + size)
        marks = {end for end in self._push_ends if end <= self._nxt + size}
        self._push_ends -= marks
        # The last segment of a burst has PSH, so that the receiver does not wait
        # (__tcp_transmit_skb).
        push = bool(marks) or size > self.mss_bytes or cause is Reason.CORK_TIMEOUT
        for start in range(0, size, self.mss_bytes):
            piece = min(self.mss_bytes, size - start)
            segments.append(self._send_one(piece, cause, push=push and start + piece == size))
        if size % self.mss_bytes and cause is not Reason.CORK_TIMEOUT:
            # A segment that the timer sends does not count as small.
            self._small_end = self._nxt
        return segments

    def _send_one(self, size: int, cause: Reason, *, push: bool) -> SimulatedSegment:
        seq = self._nxt
        since = self._writes[0][1]
        waited_ms = self._now - since
        segment = SimulatedSegment(
            self._now,
            seq,
            size,
            self._reason(size, cause),
            self._held if waited_ms > 0 else None,
            waited_ms,
            push=push,
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
        self._buffer.acknowledge(upto)
        self._backoff = 0
        if self._probed_at is not None and upto >= self._probed_at:
            self._probed_at = None
        if acked and not any(segment.retransmitted for segment in acked):
            self.rtt.sample(self._now - acked[0].sent_ms, self._una, self._nxt)
        # Slow start grows the window only if the window was used (tcp_is_cwnd_limited).
        if self._usage.allows_growth(self._cwnd):
            self._cwnd = min(self._cwnd + len(acked), _NO_THRESHOLD)
        self._timer = None
        if self._in_flight:
            self._arm_loss_probe(advancing=True)

    # ---- timers ----

    def _arm(self, name: str, delay_ms: float) -> None:
        self._timer = (name, self.clock.expiry_ms(self._now, self.clock.ticks(delay_ms)))

    def _arm_loss_probe(self, *, advancing: bool = False) -> None:
        """Arm the tail loss probe or, without SACK or an RTT, the retransmission timer.

        The probe fires after 2 RTT, or later if a delayed ACK of a single segment may come, but not
        after the retransmission timeout, which an ACK restarts (tcp_schedule_loss_probe).
        """
        if not self.sack:
            if advancing:
                self._arm("retransmit", self._rto_ms())
            return
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
        """Send one segment if the window has room (tcp_write_wakeup); otherwise probe later."""
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
        """Send new data, corked or not, or the last segment again (tcp_send_loss_probe)."""
        if not self._in_flight:
            return []
        segments: list[SimulatedSegment] = []
        if self._probed_at is None:
            segments = self._probe()
            self._probed_at = self._nxt
        self._arm("retransmit", self._rto_ms())
        return segments

    def _probe(self) -> list[SimulatedSegment]:
        # The probe may exceed the congestion window by one segment, but not the peer's window.
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
