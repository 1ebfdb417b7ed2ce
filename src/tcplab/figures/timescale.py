"""Map times to an axis that stretches busy periods and shortens the quiet times between them.

If fifteen writes take 20 µs and the wait after them takes 40 ms, a linear scale hides the writes.
In such a case, the axis is piecewise linear and has a scale for each part.
"""

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

#: Break the axis only if cutting out the longest gaps leaves at most this share of the total time.
#: Use the fewest breaks that achieve this. Add another break only if it halves the remaining time.
BUSY_SHARE: Final = 0.1
#: If a segment travels for at least this share of the total time, no break is needed.
TRAVEL_SHARE: Final = 0.03
#: The share of the width that all quiet times take together.
QUIET_SHARE: Final = 0.42
MAX_CUTS: Final = 2


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the axis with one scale."""

    start_ns: int
    end_ns: int
    left: float  #: position on the axis, 0 to 1
    right: float
    busy: bool  #: True if the part contains events


class TimeScale:
    """Map times to positions from 0 to 1. `travel_ns` is a segment's transit time, if known."""

    def __init__(self, times_ns: Iterable[int], travel_ns: float = 0) -> None:
        times = sorted(set(times_ns))
        if not times:
            raise ValueError("there is nothing to draw: no event was recorded")
        self.start_ns, self.end_ns = times[0], times[-1]
        slanted = travel_ns >= TRAVEL_SHARE * (self.end_ns - self.start_ns)
        is_even = slanted and travel_ns > 0
        self.parts = _layout([(times[0], times[-1])] if is_even else _bursts(times))
        self._starts = [part.start_ns for part in self.parts]

    @property
    def broken(self) -> bool:
        return len(self.parts) > 1

    def x(self, time_ns: float) -> float:
        """Return the position of a time. A time outside the axis is put at its nearest end."""
        i = max(bisect.bisect_right(self._starts, time_ns) - 1, 0)
        part = self.parts[i]
        share = (time_ns - part.start_ns) / (part.end_ns - part.start_ns)
        return part.left + min(max(share, 0.0), 1.0) * (part.right - part.left)

    def ticks(self, part: Part, room: float) -> list[tuple[float, str]]:
        """Return positions and labels of a part's ticks, at steps of at least `room` (0 to 1)."""
        many = max(int((part.right - part.left) / room), 1)
        span = part.end_ns - part.start_ns
        step = nice(span / many)
        start = part.start_ns - self.start_ns
        decimals = max(0, 6 - int(math.log10(step) + 1e-9))
        ticks = []
        value = max(math.ceil(start / step), 0) * step
        while value <= start + span:
            ticks.append((self.x(self.start_ns + value), f"{value / 1e6:.{decimals}f}"))
            value += step
        return ticks


def _bursts(times: Sequence[int]) -> list[tuple[int, int]]:
    """Return the start and end of each busy period, found by cutting out the longest gaps.

    If more than BUSY_SHARE of the total time would remain, all of it is one busy period.
    """
    gaps = sorted(
        ((after - before, i) for i, (before, after) in enumerate(pairwise(times))), reverse=True
    )
    span = times[-1] - times[0]
    remaining = list(accumulate((-gap for gap, _i in gaps[:MAX_CUTS]), initial=span))
    many = next((k for k, busy in enumerate(remaining) if busy <= BUSY_SHARE * span), 0)
    while 0 < many < len(remaining) - 1 and remaining[many + 1] <= remaining[many] / 2:
        many += 1
    cuts = sorted(i for _gap, i in gaps[:many])
    edges = [-1, *cuts, len(times) - 1]
    return [(times[a + 1], times[b]) for a, b in pairwise(edges)]


def _layout(bursts: Sequence[tuple[int, int]]) -> list[Part]:
    """Return the axis's parts: slightly widened busy periods, and the quiet times between them."""
    longest = max(end - start for start, end in bursts) or 1000
    spans: list[tuple[int, int, bool]] = []
    for start, end in bursts:
        margin = max(int(0.08 * (end - start)), int(0.03 * longest), 500)
        if spans:
            spans.append((spans[-1][1], start - margin, False))
        spans.append((start - margin, end + margin, True))
    if any(end <= start for start, end, _busy in spans):  # there is no room for a break
        return _layout([(bursts[0][0], bursts[-1][1])])
    # All busy periods have one scale, so that the slopes of their arrows can be compared.
    total = {
        flag: sum(end - start for start, end, busy in spans if busy is flag)
        for flag in (True, False)
    }
    share = {True: 1 - QUIET_SHARE if total[False] else 1.0, False: QUIET_SHARE}
    parts, left = [], 0.0
    for start, end, busy in spans:
        width = share[busy] * (end - start) / total[busy]
        parts.append(Part(start, end, left, left + width, busy))
        left += width
    return parts


def nice(value: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, … that is not below the value."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= value))
