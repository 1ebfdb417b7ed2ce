"""The benchmarks' goals, each a limit or a ratio, and whether they were reached."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for one of our programs, and the value that the program reached.

    Attributes:
        what: title of the contest.
        entrant: name of our program, with the unit if the goal is a limit.
        wanted: the goal in words.
        was: the measured value or ratio; None if a ratio has no peer.
        reached: whether the goal was reached; None if a ratio has no peer.
        interval: the 95 % confidence interval of the ratio; empty for a single value.
        within: whether the wanted ratio lies within the interval.
    """

    what: str
    entrant: str
    wanted: str
    was: float | None = None
    reached: bool | None = None
    interval: tuple[float, ...] = ()
    within: bool = False

    def measured(self) -> str:
        """Return the measured value or ratio as text, with its confidence interval if any."""
        if self.was is None:
            return "–"
        ratio = " ×" if "×" in self.wanted else ""
        error = f" ({self.interval[0]:.2f}–{self.interval[1]:.2f})" if self.interval else ""
        return f"{self.was:.3g}{ratio}{error}"

    def verdict(self) -> str:
        """Return whether the goal was reached, as text."""
        if self.reached is None:
            return "nothing to compare with"
        if self.reached:
            return "reached"
        return "missed, within the error" if self.within else "**missed**"


def at_most(what: str, entrant: str, limit: float, was: float) -> Goal:
    """Return a goal whose value must not exceed the limit."""
    return Goal(what, entrant, f"at most {limit:g}", was, was <= limit)


def at_least(what: str, entrant: str, limit: float, was: float) -> Goal:
    """Return a goal whose value must reach the limit."""
    return Goal(what, entrant, f"at least {limit:g}", was, was >= limit)


def times(what: str, entrant: str, factor: float, of: str, was: float) -> Goal:
    """Return a goal for the ratio of two single values, which must be at least `factor`."""
    return Goal(what, entrant, f"{factor:.3g} × {of}", was, was >= factor)


def times_best(
    what: str,
    entrant: str,
    factor: float,
    ours: Sequence[float],
    others: Mapping[str, Sequence[float]],
) -> Goal:
    """Return a goal for the median, over the rounds, of our ratio to the best peer.

    If `factor` is inside that median's confidence interval, the goal is neither clearly reached nor
    clearly missed.
    """
    if not others:
        return Goal(what, entrant, f"{factor:.3g} × the best peer")
    of, ratios = against_best(ours, others)
    was = statistics.median(ratios)
    low, high = median_interval(ratios)
    wanted = f"{factor:.3g} × {of}"
    return Goal(what, entrant, wanted, was, was >= factor, (low, high), low <= factor <= high)


def paired_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the ratio of two entrants' values in each round.

    Samples within a round are taken seconds apart, but the rounds of a contest take minutes, in
    which a shared machine may become a third faster. So an entrant is judged by the median of
    these ratios, not by the ratio of the two medians.
    """
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def against_best(
    ours: Sequence[float], peers: Mapping[str, Sequence[float]]
) -> tuple[str, list[float]]:
    """Return the name of the best peer, and our ratio to it in each round."""
    ratios = {name: paired_ratios(ours, values) for name, values in peers.items()}
    best = min(ratios, key=lambda name: statistics.median(ratios[name]))
    return best, ratios[best]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the limits of the median's 95 % confidence interval, from order statistics.

    For fewer than six values, they are the lowest and the highest value (94 % for five, 75 % for
    three).

    Source: Conover, Practical Nonparametric Statistics, confidence intervals for a quantile.
    """
    ordered, count = sorted(values), len(values)
    outside, chance = 0, 0.5**count  # the chance that the median is below the lowest value
    while chance + math.comb(count, outside + 1) * 0.5**count <= 0.025:
        outside += 1
        chance += math.comb(count, outside) * 0.5**count
    return ordered[outside], ordered[-1 - outside]
