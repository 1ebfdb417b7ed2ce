"""The sender's congestion window, as far as a capture shows it."""

from __future__ import annotations

from collections import deque
from typing import Final

from tcplab.models.kernel import RTO_MIN_MS
from tcplab.models.links import INITIAL_CWND_SEGMENTS
from tcplab.models.sending import WindowUsage

#: HyStart of cubic may leave slow start from here on (hystart_low_window), without a loss.
_HYSTART_LOW_SEGMENTS: Final = 16


class CongestionWindow:
    """Counts segments in flight, and knows how many may be, or bounds: in slow start, no later.

    The rules are those of tcp_slow_start, tcp_cwnd_validate and tcp_cwnd_restart in Linux: from 10
    segments (RFC 6928), one more for each that is acknowledged as long as the window is used.

    Args:
        known: the connection was seen from its start.
        slow_start: it is known to have stayed in slow start if nothing was lost.

    Attributes:
        in_flight: how many segments are.
    """

    def __init__(self, *, known: bool, slow_start: bool) -> None:
        self.in_flight = 0
        # By the rules of slow start, while nothing contradicts them; and what bounds it in any
        # case: one more for each that was acknowledged.
        self._window = INITIAL_CWND_SEGMENTS if known else 0
        self._most: int | None = INITIAL_CWND_SEGMENTS if known else None
        self._exact = self._slow_start = slow_start
        self._ends: deque[int] = deque()  # of each segment in flight
        self._usage = WindowUsage()

    def forget(self) -> None:
        """After a loss the window is what the congestion control made of it."""
        self._most, self._window, self._exact = None, 0, False

    def contradicted(self) -> None:
        """A segment left that by the rules had to wait: they are not the whole truth here."""
        self._exact = False

    @property
    def limit(self) -> int | None:
        """The most segments that may be in flight; None if that is not known."""
        return self._window if self._exact and self._window else self._most

    @property
    def exact(self) -> int | None:
        """Its size in segments as long as nothing contradicts the rules of slow start, or None."""
        return self._window if self._exact and self._window else None

    @property
    def full(self) -> bool:
        """Surely no further segment may leave."""
        return self.limit is not None and self.in_flight >= self.limit

    @property
    def has_room(self) -> bool:
        """Surely a further segment may leave."""
        return self.in_flight < self._window

    def idle(self, idle_ns: int, rtt_ns: int) -> None:
        """Nothing was sent for so long: the window halves with each timeout that passed."""
        if idle_ns > rtt_ns + RTO_MIN_MS * 1e6 and not self.in_flight:
            self._window = min(self._window, INITIAL_CWND_SEGMENTS)

    def sent(self, start: int, end: int, segments: int, una: int) -> None:
        """A segment left; a super-segment counts as several."""
        size = -(-(end - start) // segments)
        self._ends.extend(min(start + size * (i + 1), end) for i in range(segments))
        self.in_flight += segments
        if self._most is not None and self.in_flight > self._most:
            self.forget()  # it did not begin with 10, or grew otherwise
        if self.in_flight > self._window:
            self.contradicted()
        self._usage.note(self.in_flight, una, end, full=self.in_flight >= self._window)

    def acked(self, una: int) -> None:
        """All before una has arrived."""
        count = 0
        while self._ends and self._ends[0] <= una:
            self._ends.popleft()
            count += 1
        self.in_flight -= count
        if self._most is None:
            return
        self._most += count
        if self._usage.allows_growth(self._window):
            self._window += count
        if not self._slow_start:
            self._window = min(self._window, _HYSTART_LOW_SEGMENTS)
