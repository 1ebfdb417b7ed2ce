"""Define the rules by which Linux sends a segment or holds it back.

The simulated sender applies these rules to its own state, and the timeline applies them to the
state that a recording shows.

Sources: net/ipv4/tcp_output.c of Linux 6.18 (tcp_snd_wnd_test, tcp_nagle_check, tcp_minshall_check,
tcp_bound_to_half_wnd, tcp_cwnd_validate), include/net/tcp.h (tcp_is_cwnd_limited).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
