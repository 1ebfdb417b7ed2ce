"""Calculate with sets of intervals of time, each a sorted list without overlaps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Interval = tuple[int, int]
Name = TypeVar("Name")


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the intervals sorted, with those that meet or overlap merged."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        elif end > start:
            result.append((start, end))
    return result


def without(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the parts of `intervals` that are not in `others`. Both must be merged."""
    if not others:
        return list(intervals)
    rest: list[Interval] = []
    i = 0
    for start, end in intervals:
        while i < len(others) and others[i][1] <= start:
            i += 1
        at, j = start, i
        while j < len(others) and others[j][0] < end:
            if others[j][0] > at:
                rest.append((at, others[j][0]))
            at = max(at, others[j][1])
            j += 1
        if at < end:
            rest.append((at, end))
    return rest


def within(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the parts of `intervals` that are in `others`. Both must be merged."""
    return without(intervals, without(intervals, others))


def total_ms(intervals: Iterable[Interval]) -> float:
    """Return the total length in ms."""
    return sum(end - start for start, end in intervals) / 1e6


def shared_out(
    claims: Mapping[Name, Iterable[Interval]], space: Sequence[Interval]
) -> tuple[dict[Name, list[Interval]], list[Interval]]:
    """Give each moment of `space` to the first name that claims it; return the unclaimed, too."""
    parts, rest = {}, list(space)
    for name, intervals in claims.items():
        parts[name] = within(merged(intervals), rest)
        rest = without(rest, parts[name])
    return parts, rest
