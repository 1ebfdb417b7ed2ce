"""Follow the sender's congestion window as far as a capture shows it."""

from collections import deque
from typing import Final

from tcplab.models.kernel import RTO_MIN_MS
from tcplab.models.links import INITIAL_CWND_SEGMENTS
from tcplab.models.sending import WindowUsage

#: In cubic, HyStart may leave slow start without a loss if the window is at least this large
#: (hystart_low_window).
_HYSTART_LOW_SEGMENTS: Final = 16


class CongestionWindow:
    """Count the segments in flight, and predict or bound the congestion window.

    The prediction follows Linux (tcp_slow_start, tcp_cwnd_validate, tcp_cwnd_restart) from the
    start of the connection, if it is `known`. After slow start, only an upper bound is known.
    """

    def __init__(self, *, known: bool, slow_start: bool) -> None:
        self.in_flight = 0
        # `_window` follows the rules of slow start until the capture contradicts them. `_most` is
        # an upper bound in any case, because the window grows by at most one per acknowledged
        # segment.
        self._window = INITIAL_CWND_SEGMENTS if known else 0
        self._most: int | None = INITIAL_CWND_SEGMENTS if known else None
        self._exact = self._slow_start = slow_start
        self._ends: deque[int] = deque()  # end offset of each segment in flight
        self._usage = WindowUsage()

    def forget(self) -> None:
        """Discard the prediction and the bound, which do not hold after a loss."""
        self._most, self._window, self._exact = None, 0, False

    def contradicted(self) -> None:
        """Stop trusting the rules, because a segment left that they would have held."""
        self._exact = False

    @property
    def limit(self) -> int | None:
        return self._window if self._exact and self._window else self._most

    @property
    def exact(self) -> int | None:
        """The window in segments while the rules of slow start hold, or None otherwise."""
        return self._window if self._exact and self._window else None

    @property
    def full(self) -> bool:
        return self.limit is not None and self.in_flight >= self.limit

    @property
    def has_room(self) -> bool:
        return self.in_flight < self._window

    def idle(self, idle_ns: int, rtt_ns: int) -> None:
        """Shrink the window to its initial size if nothing was in flight for more than one RTO."""
        if idle_ns > rtt_ns + RTO_MIN_MS * 1e6 and not self.in_flight:
            self._window = min(self._window, INITIAL_CWND_SEGMENTS)

    def sent(self, start: int, end: int, segments: int, una: int) -> None:
        """Record that a segment has left. A super-segment counts as several."""
        size = -(-(end - start) // segments)
        self._ends.extend(min(start + size * (i + 1), end) for i in range(segments))
        self.in_flight += segments
        if self._most is not None and self.in_flight > self._most:
            self.forget()  # the window began above 10 segments, or grew in another way
        if self.in_flight > self._window:
            self.contradicted()
        self._usage.note(self.in_flight, una, end, full=self.in_flight >= self._window)

    def acked(self, una: int) -> None:
        """Record that all bytes before `una` are acknowledged."""
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
