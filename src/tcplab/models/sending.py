"""Linux's rules for sending a segment or holding it back, each of them once.

The model of a sender asks them about the state that it simulates, the timeline about the state that
a record shows.

Sources: net/ipv4/tcp_output.c of Linux 6.18 (tcp_snd_wnd_test, tcp_nagle_check, tcp_minshall_check,
tcp_bound_to_half_wnd, tcp_cwnd_validate), include/net/tcp.h (tcp_is_cwnd_limited).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcplab.models.reasons import Reason

#: tcp_bound_to_half_wnd: below this, a window bounds the segments whole; above it, by its half.
_DEFAULT_MSS: Final = 536


def mss_in_window(mss_bytes: int, largest_window_bytes: int) -> int:
    """Return the largest segment: it is bound to half the peer's largest window so far."""
    bound = largest_window_bytes
    if bound > _DEFAULT_MSS:
        bound //= 2
    return min(mss_bytes, bound) if bound else mss_bytes


def is_small_out(una: int, small_end: int, nxt: int) -> bool:
    """Answer Minshall's question: is a segment shorter than the MSS unacknowledged?

    Args:
        una: all before it is acknowledged.
        small_end: end of the last segment shorter than the MSS (snd_sml).
        nxt: all before it was sent.
    """
    return una < small_end <= nxt


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a send queue, and all that decides whether it may leave."""

    queued_bytes: int
    mss_bytes: int
    room_bytes: int  #: that the peer's window still takes
    cwnd_full: bool  #: no further segment may be in flight
    small_is_out: bool  #: see is_small_out; with RFC 896's rule, anything is unacknowledged
    corked: bool = False  #: TCP_CORK
    more: bool = False  #: the last write said MSG_MORE, and no ACK has come since
    nodelay: bool = False  #: TCP_NODELAY
    push: bool = False  #: all that is queued is to go, whatever holds a small segment

    def held_by(self) -> Reason | None:
        """Return what holds the next segment; None if it may leave."""
        if self.cwnd_full:
            return Reason.CWND_LIMITED
        if min(self.queued_bytes, self.mss_bytes) > self.room_bytes:
            return Reason.WINDOW_LIMITED
        if self.queued_bytes >= self.mss_bytes or self.push:
            return None
        return self.small_held_by()

    def small_held_by(self) -> Reason | None:
        """Return what holds a segment shorter than the MSS."""
        if self.corked:
            return Reason.CORKED
        if self.more:
            return Reason.MSG_MORE
        return None if self.nodelay or not self.small_is_out else Reason.HELD_BY_NAGLE


@dataclass(slots=True)
class WindowUsage:
    """Record of how far the last round trip used the congestion window, which limits its growth."""

    was_full: bool = False
    most_out: int = 0  #: segments
    _end: int = 0

    def note(self, out: int, una: int, nxt: int, *, full: bool) -> None:
        """Take note of the segments in flight, when some have left or cannot leave."""
        if una >= self._end or full or (not self.was_full and out > self.most_out):
            self.was_full, self.most_out, self._end = full, out, nxt

    def allows_growth(self, cwnd_segments: int) -> bool:
        """In slow start, a window that nobody uses does not grow."""
        return self.was_full or cwnd_segments < 2 * self.most_out
