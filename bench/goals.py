"""Goals: a limit, or a ratio to something else; and whether they were reached."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of an entrant, and the value that it reached.

    Attributes:
        what: the contest.
        entrant: one of ours, with the unit where the goal is a limit.
        wanted: in words.
        was: the value or the ratio; None where there was nothing to compare with.
        reached: None where there was nothing to compare with.
        interval: where the ratio lies with 95 % confidence; empty for a single value.
        within: whether a goal that was missed lies in that interval.
    """

    what: str
    entrant: str
    wanted: str
    was: float | None = None
    reached: bool | None = None
    interval: tuple[float, ...] = ()
    within: bool = False

    def measured(self) -> str:
        """The number in words."""
        if self.was is None:
            return "–"
        ratio = " ×" if "×" in self.wanted else ""
        error = f" ({self.interval[0]:.2f}–{self.interval[1]:.2f})" if self.interval else ""
        return f"{self.was:.3g}{ratio}{error}"

    def verdict(self) -> str:
        """The outcome in words."""
        if self.reached is None:
            return "nothing to compare with"
        if self.reached:
            return "reached"
        return "missed, within the error" if self.within else "**missed**"


def at_most(what: str, entrant: str, limit: float, was: float) -> Goal:
    """A value that has an upper limit."""
    return Goal(what, entrant, f"at most {limit:g}", was, was <= limit)


def at_least(what: str, entrant: str, limit: float, was: float) -> Goal:
    """A value that has a lower limit."""
    return Goal(what, entrant, f"at least {limit:g}", was, was >= limit)


def times(what: str, entrant: str, factor: float, of: str, was: float) -> Goal:
    """A ratio, from one value each."""
    return Goal(what, entrant, f"{factor:.3g} × {of}", was, was >= factor)


def times_best(
    what: str,
    entrant: str,
    factor: float,
    ours: Sequence[float],
    others: Mapping[str, Sequence[float]],
) -> Goal:
    """A ratio to the one that did best beside ours, as the median of the rounds' ratios.

    A goal inside the interval of that median is neither surely reached nor surely missed.
    """
    if not others:
        return Goal(what, entrant, f"{factor:.3g} × the best peer")
    of, ratios = against_best(ours, others)
    was = statistics.median(ratios)
    low, high = median_interval(ratios)
    wanted = f"{factor:.3g} × {of}"
    return Goal(what, entrant, wanted, was, was >= factor, (low, high), low <= factor <= high)


def paired_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The ratio of two entrants' values in each round.

    Two samples of a round are seconds apart, those of a contest minutes: a machine that others use
    too may be a third faster by then. So an entrant is judged by the median of these ratios, not by
    the ratio of two medians.
    """
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def against_best(
    ours: Sequence[float], peers: Mapping[str, Sequence[float]]
) -> tuple[str, list[float]]:
    """The peer that did best beside an entrant, and the ratio to it in each round."""
    ratios = {name: paired_ratios(ours, values) for name, values in peers.items()}
    best = min(ratios, key=lambda name: statistics.median(ratios[name]))
    return best, ratios[best]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Lower and upper end of where the median lies with 95 % confidence, by order statistics.

    Of fewer than six values, the lowest and the highest (of five: 94 %, of three: 75 %).

    Source: Conover, Practical Nonparametric Statistics, confidence intervals for a quantile.
    """
    ordered, count = sorted(values), len(values)
    outside, chance = 0, 0.5**count  # that the median is below the lowest value
    while chance + math.comb(count, outside + 1) * 0.5**count <= 0.025:
        outside += 1
        chance += math.comb(count, outside) * 0.5**count
    return ordered[outside], ordered[-1 - outside]
