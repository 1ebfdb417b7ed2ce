"""Define the rules by which Linux sends segments, alone or in bursts, or holds them back.

The simulated sender applies these rules to its own state, and the timeline applies them to the
state that a recording shows.

Sources: net/ipv4/tcp_output.c of Linux 6.18 (tcp_snd_wnd_test, tcp_nagle_check, tcp_minshall_check,
tcp_bound_to_half_wnd, tcp_cwnd_validate, tcp_tso_autosize, tcp_tso_should_defer),
include/net/tcp.h (tcp_is_cwnd_limited).
"""

from dataclasses import dataclass
from typing import Final

from tcplab.models.kernel import RttEstimator
from tcplab.models.reasons import Reason

#: A segment may fill the whole window if the window is at most this large, and otherwise half of it
#: (tcp_bound_to_half_wnd).
_DEFAULT_MSS: Final = 536


def mss_in_window(mss_bytes: int, largest_window_bytes: int) -> int:
    """Return the MSS, bounded by half of the largest window offered (see _DEFAULT_MSS)."""
    bound = largest_window_bytes
    if bound > _DEFAULT_MSS:
        bound //= 2
    return min(mss_bytes, bound) if bound else mss_bytes


def is_small_out(una: int, small_end: int, nxt: int) -> bool:
    """Return whether a segment shorter than the MSS is unacknowledged (Minshall's test)."""
    return una < small_end <= nxt


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a send queue, with the state that decides whether it may leave."""

    queued_bytes: int
    mss_bytes: int
    room_bytes: int  #: free bytes in the peer's window
    cwnd_full: bool  #: True if no further segment may be in flight
    small_is_out: bool  #: see is_small_out
    corked: bool = False  #: TCP_CORK
    more: bool = False  #: True if the last write used MSG_MORE and no ACK has come since
    nodelay: bool = False  #: TCP_NODELAY
    push: bool = False  #: send everything queued, regardless of the rules for small segments

    def held_by(self) -> Reason | None:
        """Return the reason that holds the next segment, or None if it may leave."""
        if self.cwnd_full:
            return Reason.CWND_LIMITED
        if min(self.queued_bytes, self.mss_bytes) > self.room_bytes:
            return Reason.WINDOW_LIMITED
        if self.queued_bytes >= self.mss_bytes or self.push:
            return None
        return self.small_held_by()

    def small_held_by(self) -> Reason | None:
        """Return the reason that holds a segment shorter than the MSS, or None."""
        if self.corked:
            return Reason.CORKED
        if self.more:
            return Reason.MSG_MORE
        return None if self.nodelay or not self.small_is_out else Reason.HELD_BY_NAGLE


@dataclass(slots=True)
class WindowUsage:
    """The use of the congestion window in the last round trip, on which its growth depends."""

    was_full: bool = False
    most_out: int = 0  #: largest number of segments in flight
    _end: int = 0

    def note(self, out: int, una: int, nxt: int, *, full: bool) -> None:
        """Record the number of segments in flight. `full` means that the window allows no more."""
        if una >= self._end or full or (not self.was_full and out > self.most_out):
            self.was_full, self.most_out, self._end = full, out, nxt

    def allows_growth(self, cwnd_segments: int) -> bool:
        """Return whether more than half the window was used, which lets slow start enlarge it."""
        return self.was_full or cwnd_segments < 2 * self.most_out


#: The largest super-segment that TCP builds, headers included. Since Linux 6.3 gso_ipv4_max_size
#: can raise it (BIG TCP).
_GSO_MAX_BYTES: Final = 65536
LARGEST_BURST_BYTES: Final = _GSO_MAX_BYTES - 321  # 321 is MAX_TCP_HEADER plus one
#: A burst is deferred only if the last segment left, and the next ACK is due, within this time.
_DEFERRAL_MS: Final = 1.0
TSO_WIN_DIVISOR: Final = 3  # net.ipv4.tcp_tso_win_divisor


def burst_segments(cwnd_segments: int, mss_bytes: int, rtt: RttEstimator) -> int:
    """Return the largest burst in segments, about as many as the current rate sends in 1 ms.

    Since 5.18, Linux allows a larger burst on short paths (tcp_tso_rtt_log, 65466904b015). The
    limit is at least two segments. Before the first RTT sample, it is the size of a super-segment.
    """
    if rtt.srtt_ms is None:
        return _GSO_MAX_BYTES // mss_bytes
    rate_per_ms = 2 * cwnd_segments * mss_bytes / rtt.srtt_ms
    shift = int(rtt.min_rtt_ms * 1000) >> 9
    goal = rate_per_ms * 1000 / 1024 + (_GSO_MAX_BYTES >> min(shift, 32))
    return max(int(min(goal, LARGEST_BURST_BYTES)) // mss_bytes, 2)


@dataclass(frozen=True, slots=True)
class Burst:
    """A queue of several segments, and the state that decides whether they leave now or later."""

    queued_bytes: int
    mss_bytes: int
    cwnd_segments: int
    in_flight: int  #: Number of unacknowledged segments
    #: The peer's window, and the part of it that is not in flight.
    window_bytes: int
    room_bytes: int
    #: The largest window the peer has offered. It limits the size of one buffer of the queue.
    largest_window_bytes: int
    quiet_ms: float  #: Time since the sender last sent a segment
    oldest_ms: float  #: Time since the oldest unacknowledged segment left

    @property
    def cwnd_room_bytes(self) -> int:
        return (self.cwnd_segments - self.in_flight) * self.mss_bytes

    @property
    def _buffer_bytes(self) -> int:
        most = max(self.largest_window_bytes // 2 // self.mss_bytes, 1) * self.mss_bytes
        return min(self.queued_bytes, most)

    def is_deferred(self, rtt: RttEstimator) -> bool:
        """Return whether Linux waits, because an ACK is due soon and few segments may leave now."""
        # A pause of 1 ms in the model is longer in the kernel, whose clock counts nanoseconds.
        if rtt.srtt_ms is None or not self.in_flight or self.quiet_ms >= _DEFERRAL_MS:
            return False
        limit = min(self.room_bytes, self.cwnd_room_bytes)
        usable = min(self.window_bytes, self.cwnd_segments * self.mss_bytes)
        if (
            limit >= burst_segments(self.cwnd_segments, self.mss_bytes, rtt) * self.mss_bytes
            or (self._buffer_bytes < self.queued_bytes and limit >= self._buffer_bytes)
            or limit >= usable // TSO_WIN_DIVISOR
        ):
            return False
        ack_in_ms = rtt.srtt_ms - self.oldest_ms
        return ack_in_ms <= min(rtt.srtt_ms / 2, _DEFERRAL_MS)
