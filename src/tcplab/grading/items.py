"""Compute how hard each question was for a class, and how well it separates learners.

Learners without any points are left out. An untouched exercise says nothing about the questions,
and would make all of them look correlated.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: Minimum number of learners for a mean share of points, and for a correlation. The standard error
#: of a correlation near 0 is 1 / sqrt(n - 1), which is 0.23 with 20 learners.
ENOUGH_FOR_A_MEAN: Final = 5
ENOUGH_FOR_A_CORRELATION: Final = 20


@dataclass(frozen=True, slots=True)
class Marked:
    """The marks of one learner."""

    points: Mapping[str, float]  #: points of each question that has been marked
    messages: Mapping[str, str] = field(default_factory=dict)  #: judge's message on each question


@dataclass(frozen=True, slots=True)
class Item:
    """The statistics of one question."""

    question: str
    count: int  #: number of learners with a mark for the question
    difficulty: float | None  #: mean share of the points, 0 to 1; None for too few learners
    #: correlation of the points with the learners' totals in the other questions, or None if there
    #: are too few learners or if the points or the totals do not vary
    discrimination: float | None
    mistake: str = ""  #: the most frequent message of the judge to learners who lack points
    mistaken: int = 0  #: number of learners who got this message

    @property
    def why_no_difficulty(self) -> str:
        return "" if self.difficulty is not None else f"too few ({self.count})"

    @property
    def why_no_discrimination(self) -> str:
        if self.discrimination is not None:
            return ""
        few = self.count < ENOUGH_FOR_A_CORRELATION
        return f"too few ({self.count})" if few else "all alike"


def items(full: Mapping[str, float], class_: Iterable[Marked]) -> list[Item]:
    """Return the statistics of each question that has points."""
    known = {question: points for question, points in full.items() if points > 0}
    marked = [marks for marks in class_ if any(marks.points.get(name, 0) > 0 for name in known)]
    # To be comparable, sums of points only count questions for which all learners have marks.
    common = [name for name in known if all(name in marks.points for marks in marked)]
    return [_item(name, known[name], marked, common) for name in known]


def _item(name: str, full: float, class_: Sequence[Marked], common: Sequence[str]) -> Item:
    marked = [marks for marks in class_ if name in marks.points]
    points = [marks.points[name] for marks in marked]
    rest = [sum(marks.points[other] for other in common if other != name) for marks in marked]
    enough = len(points) >= ENOUGH_FOR_A_MEAN
    mistakes = Counter(
        _neutral(marks.messages[name])
        for marks in marked
        if marks.points[name] < full and marks.messages.get(name)
    )
    mistake, mistaken = max(
        mistakes.items(), key=lambda entry: (entry[1], entry[0]), default=("", 0)
    )
    return Item(
        name,
        len(points),
        statistics.fmean(points) / full if enough else None,
        _correlation(points, rest),
        mistake,
        mistaken,
    )


def _correlation(own: Sequence[float], rest: Sequence[float]) -> float | None:
    if len(own) < ENOUGH_FOR_A_CORRELATION or len(set(own)) < 2 or len(set(rest)) < 2:
        return None
    return statistics.correlation(own, rest)


def _neutral(message: str) -> str:
    """Return a message without the learner's numbers. Numbers in names (q1_ms) remain."""
    return re.sub(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)", "…", message)
