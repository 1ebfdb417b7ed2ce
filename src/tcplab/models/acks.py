"""Decide when a receiver acknowledges, by the rules of Linux.

Sources: net/ipv4/tcp_input.c, tcp_output.c and tcp_timer.c of Linux 6.18.
"""

from typing import Final

from tcplab.checks import number, whole
from tcplab.models.kernel import DELACK_MAX_MS, DELACK_MIN_MS, RTO_MIN_MS, Clock
from tcplab.models.links import TCP_HEADER_BYTES, TIMESTAMPS_OPTION_BYTES
from tcplab.models.nagle import MAX_TIME_MS

MAX_QUICKACKS: Final = 16  # TCP_MAX_QUICKACKS
FIRST_RCV_MSS_BYTES: Final = 536  # the receiver's first guess at the size of a full segment
SMALLEST_MSS_BYTES: Final = 88  # TCP_MIN_MSS
_HEADER_BYTES: Final = TCP_HEADER_BYTES + TIMESTAMPS_OPTION_BYTES


class DelayedAckReceiver:
    """The acknowledging half of a Linux TCP connection, one event at a time.

    An ACK leaves immediately if

    1. the application has read more than one full segment, even by one byte (tcp_cleanup_rbuf; RFC
       9293, SHLD-19, only asks for an ACK of every second full segment). While its window grows,
       Linux does not wait for the application (__tcp_ack_snd_check);
    2. the connection is not interactive but in quick-ACK mode, which lasts for up to 16 ACKs at the
       start and again after a silence longer than the retransmission timeout;
    3. the application has read everything, and the last segment was small or pushed. If the
       connection is interactive, this takes two such segments;
    4. a segment arrives for the second time.

    Otherwise the ACK waits for data in the other direction, or for the timer. The timer starts at
    40 ms and then follows the estimated time between segments, between 40 and 200 ms, but not above
    the RTT if the RTT exceeds 40 ms. A connection is interactive ("pingpong" in the source) if it
    has answered within that time, or if TCP_QUICKACK was set to 0. Linux 5.1 to
    5.18 required three answers (4a41f453bedf, 4d8f24eeedc5), and since 6.7 tcp_pingpong_thresh sets
    their number. A delayed ACK sent by the timer ends the interactive mode. Since 6.7 a route's
    rto_min also limits the 200 ms (bbf80d713fe7).

    The model leaves out the receive buffer and the window, which change when ACKs leave if they
    grow, or if the application does not read. It leaves out ECN, out-of-order data, SACK
    compression, SO_RCVLOWAT, memory pressure and the end of the connection. It also leaves out two
    reasons for fewer ACKs. GRO joins segments, and the result gets one ACK. Since Linux 6.7 a
    receiver that is still busy with earlier segments defers the ACK (tcp_backlog_ack_defer).

    Args:
        mss_bytes: the largest segment this end has announced, minus options
        rtt_ms: RTT measured during the handshake
        clock: clock tick of the receiver's kernel
    """

    def __init__(
        self, *, mss_bytes: int = 1448, rtt_ms: float = 0.05, clock: Clock | None = None
    ) -> None:
        self._mss = mss_bytes
        self._rtt_ms = rtt_ms
        self.clock = clock or Clock()
        #: The shortest ACK timeout, and the retransmission timeout, in ticks.
        self._least = self.clock.ticks(DELACK_MIN_MS)
        self._rto = self.clock.ticks(rtt_ms + RTO_MIN_MS)
        self.next_seq = 0
        self._acked = self._unread = 0
        self._full = FIRST_RCV_MSS_BYTES
        self._last_size = 0
        self._quick = 0
        self._interactive = False
        self._ato: int | None = None  # ACK timeout in ticks, or None before the first data
        self._last_arrival = self.clock.jiffies(0.0)
        self._scheduled = self._pushed = self._pushed_twice = self._duplicate = False
        self.next_timer_ms: float | None = None
        self._timer_ticks = 0
        self._now = 0.0

    # ---- events ----

    def accept(self, seq: int, payload_bytes: int, at_ms: float, *, push: bool = True) -> None:
        """Accept a segment without acknowledging it, because outgoing data may carry the ACK."""
        self._advance(at_ms)
        whole("seq", seq, 0, self.next_seq, fix="the model has no reordering: send in order")
        self._scheduled = True
        if seq < self.next_seq:
            self._accept_duplicate()
            return
        self.next_seq += payload_bytes
        self._unread += payload_bytes
        self._measure(payload_bytes, push)
        self._update_ato()

    def check(self, at_ms: float) -> bool:
        """Send the ACK that the accepted segments require now; return whether there is one."""
        self._advance(at_ms)
        if not self._scheduled:
            return False
        # The sender must know that a segment had come before (RFC 2883).
        if self._duplicate or (self._quick and not self._interactive):
            return self._acknowledge()
        return self._delay()

    def read(self, at_ms: float) -> bool:
        """Record that everything was read; return whether this has sent an ACK."""
        self._advance(at_ms)
        copied, self._unread = self._unread, 0
        due = (
            self.next_seq - self._acked > self._full
            or self._pushed_twice
            or (self._pushed and not self._interactive)
        )
        return self._scheduled and copied > 0 and due and self._acknowledge()

    def data_sent(self, at_ms: float) -> None:
        """Record that outgoing data has carried any pending acknowledgement."""
        self._advance(at_ms)
        self._acknowledge()
        # An answer within the expected time between segments makes the connection interactive.
        if self._ato and self.clock.jiffies(at_ms) - self._last_arrival < self._ato:
            self._interactive = True

    def set_quickack(self, on: bool, at_ms: float) -> bool:
        """Set TCP_QUICKACK to `on`; return whether this has sent an ACK.

        The setting lasts until the kernel's own rules change the mode again (tcp(7)).
        """
        self._advance(at_ms)
        self._interactive = not on
        if not on or not self._scheduled:
            return False
        self._pushed = True
        waits = self._unread > 0 and self.next_seq - self._acked <= self._full
        return not waits and self._acknowledge()

    def timer(self, at_ms: float) -> bool:
        """Advance to `at_ms`; return whether the delayed-ACK timer has sent an ACK by then."""
        self._advance(at_ms)
        if self.next_timer_ms is None or self.next_timer_ms > at_ms:
            return False
        self.next_timer_ms = None
        if not self._scheduled:
            return False
        if self._interactive:
            self._interactive = False
            self._ato = self._least
        else:
            self._ato = min((self._ato or 0) << 1, self._rto)
        return self._acknowledge()

    # ---- the rules ----

    def _advance(self, at_ms: float) -> None:
        number("at_ms", at_ms, self._now, MAX_TIME_MS, fix="events must come in order of time")
        self._now = at_ms

    def _accept_duplicate(self) -> None:
        """Record a duplicate, which check() acknowledges at once because the peer lacks an ACK."""
        self._duplicate = True
        self._quick = MAX_QUICKACKS
        self._interactive = False
        self._ato = self._least

    def _measure(self, payload: int, push: bool) -> None:
        """Estimate the size of the sender's full segments (tcp_measure_rcv_mss)."""
        before, self._last_size = self._last_size, 0
        if payload >= self._full:
            self._full = min(payload, self._mss)
            self._pushed |= push
            return
        with_header = payload + _HEADER_BYTES
        plausible = with_header >= FIRST_RCV_MSS_BYTES + 20 or (
            with_header >= SMALLEST_MSS_BYTES + 20 and not push
        )
        if plausible:
            self._last_size = payload
            if payload == before:
                self._full = payload
                return
        self._pushed_twice |= self._pushed
        self._pushed = True

    def _update_ato(self) -> None:
        """Update the estimated time between segments, in ticks (tcp_event_data_recv)."""
        now = self.clock.jiffies(self._now)
        if self._ato is None:
            self._quick = MAX_QUICKACKS
            self._ato = self._least
        else:
            gap = now - self._last_arrival
            if gap <= self._least // 2:
                self._ato = self._ato // 2 + self._least // 2
            elif gap < self._ato:
                self._ato = min(self._ato // 2 + gap, self._rto)
            elif gap > self._rto:
                self._quick = MAX_QUICKACKS
        self._last_arrival = now

    def _delay(self) -> bool:
        """Start the timer, or send an ACK if it is about to fire (tcp_send_delayed_ack)."""
        ticks = self._ato or 0
        if ticks > self._least:
            longest = self.clock.ticks(
                DELACK_MAX_MS if self._interactive or self._pushed else 500.0
            )
            ticks = min(ticks, longest, max(self.clock.ticks(self._rtt_ms), self._least))
        ticks = min(ticks, self.clock.ticks(DELACK_MAX_MS) - 1)
        due = self.clock.jiffies(self._now) + ticks
        if self.next_timer_ms is not None:
            if self._timer_ticks <= self.clock.jiffies(self._now) + ticks // 4:
                return self._acknowledge()
            due = min(due, self._timer_ticks)
        self._timer_ticks = due
        self.next_timer_ms = self.clock.expiry_ms(self._now, due - self.clock.jiffies(self._now))
        return False

    def _acknowledge(self) -> bool:
        if self._scheduled and self._quick:
            self._quick -= 1
            if not self._quick:
                self._ato = self._least
        self._acked = self.next_seq
        self._scheduled = self._pushed = self._pushed_twice = self._duplicate = False
        self.next_timer_ms = None
        return True
