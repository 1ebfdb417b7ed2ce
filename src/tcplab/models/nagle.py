"""Model when Linux sends written data and when it holds the data back.

:class:`NagleSender` follows net/ipv4/tcp_output.c and tcp.c of Linux 6.18 event by event.
tests/lab/models compares it with the running kernel.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tcplab.checks import number, whole
from tcplab.models.kernel import PROBE_SLACK_MS, RTO_MIN_MS, Clock, RttEstimator
from tcplab.models.links import INITIAL_CWND_SEGMENTS
from tcplab.models.reasons import Reason
from tcplab.models.sending import Head, WindowUsage, burst_segments, is_small_out

#: The window of a receiver with Linux's default buffer, 45 segments of 1448 bytes.
DEFAULT_WINDOW_BYTES: Final = 65160
MAX_TIME_MS: Final = 1e9


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
    #: The PSH flag. Linux sets fewer if bursts wait for an ACK that is due (see NagleSender).
    push: bool = True


@dataclass(slots=True)
class _InFlight:
    seq: int
    end_seq: int
    sent_ms: float
    retransmitted: bool = False


class NagleSender:
    """Simulate the sending half of a Linux TCP connection, one event at a time.

    Each event takes the time at which it happens and returns the segments that leave. Between
    events, :attr:`held_because` says why queued bytes wait.

    >>> sender = NagleSender()
    >>> [s.payload_bytes for s in sender.write(2, 0.0)]
    [2]
    >>> sender.write(2, 0.1), sender.write(26, 0.2)
    ([], [])
    >>> sender.queued_bytes, str(sender.held_because)
    (28, 'held-by-nagle')
    >>> [(s.payload_bytes, str(s.reason)) for s in sender.ack(2, 40.0)]
    [(28, 'released-by-ack')]

    These rules apply to the bytes at the head of the queue, in this order:

    1. the congestion window and the peer's window must have room;
    2. full segments leave;
    3. a small last piece leaves if TCP_NODELAY was just set, or was on when a cork was removed;
    4. it waits while TCP_CORK is set. After a write with MSG_MORE it waits until the next event,
       such as an ACK;
    5. it leaves if TCP_NODELAY is set;
    6. it waits while a *small* segment is unacknowledged (Minshall's modification of Nagle's
       algorithm, draft-minshall-nagle-01);
    7. if nothing is unacknowledged and bytes still wait, a timer of one RTO sends them.
       This is the "200 millisecond ceiling" of tcp(7), but the RTO is the RTT plus at least 200 ms
       (and at first at least 3 RTT);
    8. a tail loss probe (RFC 8985, section 7) sends waiting bytes, corked or not, or else the last
       segment again, if no ACK comes within min(2 SRTT + 2 ms, RTO). With only one segment
       unacknowledged it is min(2 SRTT + 200 ms, RTO), which is mostly the RTO;
    9. the congestion window halves once per RTO of idle time, down to the initial window, unless
       the congestion control sets the rate itself, as BBR does.

    Several things are left out: loss recovery, connections without SACK, changes of the peer's
    window, the end of the connection, the memory of the send buffer (SO_SNDBUF), congestion
    windows beyond slow start, bursts that wait for an ACK that is due
    (tcp_tso_should_defer), urgent data, packet buffers with 17 fragments, which leave although they
    are small and corked, and packets that wait in the sender's own interface queue. Such packets
    make autocorking and TCP small queues hold data until one of them has left, and data held by
    MSG_MORE leaves with it.

    Args:
        mss_bytes: payload of a full segment (the MSS minus the TCP options)
        nodelay: TCP_NODELAY at the start
        window_bytes: window that the peer offers
        rtt_ms: RTT measured during the handshake
        clock: clock tick of the sender's kernel
    """

    def __init__(
        self,
        *,
        mss_bytes: int = 1448,
        nodelay: bool = False,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        rtt_ms: float = 0.05,
        clock: Clock | None = None,
    ) -> None:
        self.mss_bytes = mss_bytes
        self._cwnd = INITIAL_CWND_SEGMENTS
        self._window = window_bytes
        self.clock = clock or Clock()
        self.rtt = RttEstimator(rtt_ms)
        # The rules for a short last segment (tp->nonagle). The last sends everything, even corked.
        self._cork, self._nodelay, self._push_all = False, nodelay, False
        self._una = self._written = 0
        self.next_seq = 0  #: SND.NXT, the sequence number of the next new byte on the wire
        self._small_end = 0  # snd_sml, the end of the last segment shorter than the MSS
        self._push_end = 0  # end of the last write without MSG_MORE, which gets the PSH flag
        self._in_flight: deque[_InFlight] = deque()
        # End and time of each write that has unsent bytes.
        self._writes: deque[tuple[int, float]] = deque()
        self._held: Reason | None = None
        self._timer: tuple[Callable[[], list[SimulatedSegment]], float] | None = None
        self._probed_at: int | None = None  # SND.NXT when a tail loss probe left, or None
        self._last_sent_ms = 0.0
        self._usage = WindowUsage()
        self._now = 0.0

    # ---- events ----

    def write(self, size_bytes: int, at_ms: float, *, more: bool = False) -> list[SimulatedSegment]:
        """Write bytes; `more` is MSG_MORE. A writev counts as one write of its total size."""
        whole("size_bytes", size_bytes, 1, 1 << 30, fix="write at least one byte")
        self._advance(at_ms)
        if not self.queued_bytes:
            self._push_all = False
            self._restart_after_idle()
        self._written += size_bytes
        self._writes.append((self._written, at_ms))
        if more:
            return self._push(Reason.MSG_MORE)
        self._push_end = self._written
        return self._push(Reason.SENT_AT_ONCE)

    def ack(self, upto: int, at_ms: float) -> list[SimulatedSegment]:
        """Process an ACK of all bytes before `upto`, which offers the same window as before."""
        whole("upto", upto, 0, self.next_seq, fix="only what was sent can be acknowledged")
        self._advance(at_ms)
        if upto > self._una:
            self._take_ack(upto)
        elif self._timer and self._timer[0] == self._fire_probe:
            self._timer = None  # the peer is alive, so the timer starts again
        return self._push(Reason.RELEASED_BY_ACK) if self.queued_bytes else []

    def set_nodelay(self, on: bool, at_ms: float) -> list[SimulatedSegment]:
        """Set TCP_NODELAY. Turning it on (again) sends everything, even if corked (tcp(7))."""
        self._advance(at_ms)
        self._nodelay = on
        if not on:
            return []
        self._push_all = True
        return self._push(Reason.NODELAY_SET)

    def set_cork(self, on: bool, at_ms: float) -> list[SimulatedSegment]:
        """Set TCP_CORK. Removing it sends the queued bytes unless Nagle's algorithm holds them."""
        self._advance(at_ms)
        self._cork = on
        if on:
            return []
        if self._nodelay:
            self._push_all = True
        return self._push(Reason.UNCORKED)

    def timer(self, at_ms: float) -> list[SimulatedSegment]:
        """Advance to `at_ms`, and fire the timer of :attr:`next_timer_ms` if it is due by then."""
        self._advance(at_ms)
        if self._timer is None or self._timer[1] > at_ms:
            return []
        fire, self._timer = self._timer[0], None
        return fire()

    @property
    def next_timer_ms(self) -> float | None:
        return self._timer[1] if self._timer else None

    @property
    def is_drained(self) -> bool:
        return self._una >= self._written

    @property
    def queued_bytes(self) -> int:
        return self._written - self.next_seq

    @property
    def held_because(self) -> Reason | None:
        return self._held if self.queued_bytes else None

    # ---- sending ----

    def _advance(self, at_ms: float) -> None:
        number("at_ms", at_ms, self._now, MAX_TIME_MS, fix="events must come in order of time")
        self._now = at_ms

    def _restart_after_idle(self) -> None:
        """Halve the congestion window once per idle RTO (tcp_slow_start_after_idle_check)."""
        idle_ms = self._now - self._last_sent_ms - self.rtt.rto_ms
        while idle_ms > 0 and not self._in_flight and self._cwnd > INITIAL_CWND_SEGMENTS:
            self._cwnd = max(self._cwnd // 2, INITIAL_CWND_SEGMENTS)
            idle_ms -= self.rtt.rto_ms

    def _push(self, cause: Reason) -> list[SimulatedSegment]:
        """Send the bytes that the rules allow; update timers and window usage (tcp_write_xmit)."""
        segments: list[SimulatedSegment] = []
        limit: Reason | None = None
        while self.queued_bytes and limit is None:
            limit, size = self._next_piece(cause)
            if size:
                segments += self._send(size, cause)
        if limit is Reason.CORKED and cause is Reason.MSG_MORE and not self._cork:
            limit = Reason.MSG_MORE
        self._held = limit
        full = len(self._in_flight) >= self._cwnd
        if segments or full:
            self._usage.note(len(self._in_flight), self._una, self.next_seq, full=full)
        if segments:
            self._arm_loss_probe(self._in_flight[0].sent_ms)
        elif self.queued_bytes and not self._in_flight and self._timer is None:
            self._arm(self._fire_probe, self.rtt.rto_ms)
        return segments

    def _next_piece(self, cause: Reason) -> tuple[Reason | None, int]:
        """Return the reason that holds the queue's head, or None and how many bytes may leave."""
        queued, mss = self.queued_bytes, self.mss_bytes
        # A probe does not wait, and a write with MSG_MORE acts as if corked.
        at_once = cause is Reason.TAIL_LOSS_PROBE
        more = cause is Reason.MSG_MORE
        head = Head(
            queued_bytes=queued,
            mss_bytes=mss,
            room_bytes=self._una + self._window - self.next_seq,
            cwnd_full=len(self._in_flight) >= self._cwnd,
            small_is_out=is_small_out(self._una, self._small_end, self.next_seq),
            corked=not at_once and (self._cork or more),
            nodelay=at_once or self._nodelay,
            push=self._push_all and not (at_once or more),
        )
        if wait := head.held_by():
            return wait, 0
        if queued <= mss:
            return None, queued
        # At most half of the window leaves in one burst (tcp_cwnd_test).
        quota = min(max(self._cwnd // 2, 1), self._cwnd - len(self._in_flight))
        buffer = max(self._window // 2 // mss, 1)  # tcp_xmit_size_goal
        burst = min(quota, buffer, burst_segments(self._cwnd, mss, self.rtt))
        reach = min(queued, head.room_bytes, burst * mss)
        # Linux decides once for all the bytes it sends together.
        small = reach % mss
        held = small and not head.push and head.small_held_by()
        return None, reach - small if held else reach

    def _send(self, size: int, cause: Reason) -> list[SimulatedSegment]:
        segments = []
        # The last segment of a burst has PSH, so that the receiver does not wait
        # (__tcp_transmit_skb).
        push = (
            self.next_seq < self._push_end <= self.next_seq + size
            or size > self.mss_bytes
            or cause is Reason.CORK_TIMEOUT
        )
        for start in range(0, size, self.mss_bytes):
            piece = min(self.mss_bytes, size - start)
            segments.append(self._send_one(piece, cause, push=push and start + piece == size))
        if size % self.mss_bytes and cause is not Reason.CORK_TIMEOUT:
            # A segment that the timer sends does not count as small.
            self._small_end = self.next_seq
        return segments

    def _send_one(self, size: int, cause: Reason, *, push: bool) -> SimulatedSegment:
        seq = self.next_seq
        written = cause in (Reason.SENT_AT_ONCE, Reason.MSG_MORE)
        full = written and size == self.mss_bytes
        waited_ms = self._now - self._writes[0][1]
        segment = SimulatedSegment(
            self._now,
            seq,
            size,
            Reason.FULL_SIZED if full else Reason.SENT_AT_ONCE if written else cause,
            self._held if waited_ms > 0 else None,
            waited_ms,
            push=push,
        )
        self.next_seq += size
        while self._writes and self._writes[0][0] <= self.next_seq:
            self._writes.popleft()
        self._in_flight.append(_InFlight(seq, self.next_seq, self._now))
        self._last_sent_ms = self._now
        return segment

    # ---- acknowledgements ----

    def _take_ack(self, upto: int) -> None:
        acked: list[_InFlight] = []
        while self._in_flight and self._in_flight[0].end_seq <= upto:
            acked.append(self._in_flight.popleft())
        self._una = upto
        if self._probed_at is not None and upto >= self._probed_at:
            self._probed_at = None
        if acked and not any(segment.retransmitted for segment in acked):
            self.rtt.sample(self._now - acked[0].sent_ms, self._una, self.next_seq)
        # Slow start grows the window only if the window was used (tcp_is_cwnd_limited).
        if self._usage.allows_growth(self._cwnd):
            self._cwnd += len(acked)
        self._timer = None
        if self._in_flight:
            self._arm_loss_probe(self._now)

    # ---- timers ----

    def _arm(self, fire: Callable[[], list[SimulatedSegment]], delay_ms: float) -> None:
        self._timer = (fire, self.clock.expiry_ms(self._now, self.clock.ticks(delay_ms)))

    def _arm_loss_probe(self, started_ms: float) -> None:
        """Arm the tail loss probe (tcp_schedule_loss_probe).

        The probe fires after 2 RTT, or later if a delayed ACK of a single segment may come, but not
        after the retransmission timeout, which began at `started_ms`.
        """
        timeout_ms = started_ms + self.rtt.rto_ms - self._now
        probe_ms = 2 * (self.rtt.srtt_ms or 0.0)
        probe_ms += RTO_MIN_MS if len(self._in_flight) == 1 else PROBE_SLACK_MS
        self._arm(self._fire_loss_probe, min(probe_ms, timeout_ms) if timeout_ms > 0 else probe_ms)

    def _fire_probe(self) -> list[SimulatedSegment]:
        """Send one segment, corked or not."""
        if self._in_flight or not self.queued_bytes:
            return []
        size = min(self.queued_bytes, self.mss_bytes, self._window)
        return self._send(size, Reason.CORK_TIMEOUT)

    def _fire_loss_probe(self) -> list[SimulatedSegment]:
        """Send new data, corked or not, or the last segment again (tcp_send_loss_probe)."""
        if not self._in_flight or self._probed_at is not None:
            return []
        # The probe may exceed the congestion window by one segment, but not the peer's window.
        probe = Reason.TAIL_LOSS_PROBE
        limit, size = self._next_piece(probe) if self.queued_bytes else (None, 0)
        if limit is Reason.CWND_LIMITED:
            size = min(self.queued_bytes, self.mss_bytes)
            if size > self._una + self._window - self.next_seq:
                size = 0
        segments = self._send(size, probe) if size else [self._resend(self._in_flight[-1])]
        self._probed_at = self.next_seq
        return segments

    def _resend(self, lost: _InFlight) -> SimulatedSegment:
        lost.retransmitted = True
        return SimulatedSegment(
            self._now,
            lost.seq,
            lost.end_seq - lost.seq,
            Reason.RETRANSMISSION,
            Reason.ACK_DELAYED_BY_PEER,
            self._now - lost.sent_ms,
        )
