"""Item statistics: how hard each question was for a class, and how well it tells learners apart.

Of everybody who earned a point at all: who handed in an untouched exercise says nothing about its
questions, and would make all of them look as if they belonged together.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: Learners from whom on a mean share of points, and from whom on a correlation is worth a look. The
#: standard error of a correlation near 0 is 1 / sqrt(n - 1): 0.23 with 20.
ENOUGH_FOR_A_MEAN: Final = 5
ENOUGH_FOR_A_CORRELATION: Final = 20


@dataclass(frozen=True, slots=True)
class Marked:
    """The marks of one learner."""

    points: Mapping[str, float]  #: by question; what a person has still to mark is not in it
    messages: Mapping[str, str] = field(default_factory=dict)  #: the judge's, by question


@dataclass(frozen=True, slots=True)
class Item:
    """One question in a class."""

    question: str
    count: int  #: learners with a mark for it
    difficulty: float | None  #: mean share of the points, 1 when all earn all; None for too few
    #: correlation of its points with those of the other questions; None for too few, or where
    #: everybody has the same points
    discrimination: float | None
    mistake: str = ""  #: the judge's commonest message to those who did not earn all points
    mistaken: int = 0  #: who got that message

    @property
    def why_no_difficulty(self) -> str:
        """The reason, empty where there is one."""
        return "" if self.difficulty is not None else f"too few ({self.count})"

    @property
    def why_no_discrimination(self) -> str:
        """The reason, empty where there is one."""
        if self.discrimination is not None:
            return ""
        few = self.count < ENOUGH_FOR_A_CORRELATION
        return f"too few ({self.count})" if few else "all alike"


def items(full: Mapping[str, float], class_: Iterable[Marked]) -> list[Item]:
    """The statistics of each question.

    Args:
        full: the points that each question can give; those that give none are left out.
        class_: the marks of each learner.
    """
    known = {question: points for question, points in full.items() if points > 0}
    marked = [each for each in class_ if any(each.points.get(name, 0) > 0 for name in known)]
    # The rest has to be the same questions for everybody.
    common = [name for name in known if all(name in each.points for each in marked)]
    return [_item(name, known[name], marked, common) for name in known]


def _item(name: str, full: float, class_: Sequence[Marked], common: Sequence[str]) -> Item:
    marked = [each for each in class_ if name in each.points]
    own = [each.points[name] for each in marked]
    rest = [sum(each.points[other] for other in common if other != name) for each in marked]
    enough = len(own) >= ENOUGH_FOR_A_MEAN
    said = Counter(
        _neutral(each.messages[name])
        for each in marked
        if each.points[name] < full and each.messages.get(name)
    )
    mistake, mistaken = max(said.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    return Item(
        name,
        len(own),
        statistics.fmean(own) / full if enough else None,
        _correlation(own, rest),
        mistake,
        mistaken,
    )


def _correlation(own: Sequence[float], rest: Sequence[float]) -> float | None:
    if len(own) < ENOUGH_FOR_A_CORRELATION or len(set(own)) < 2 or len(set(rest)) < 2:
        return None
    return statistics.correlation(own, rest)


def _neutral(message: str) -> str:
    """A message without the learner's own numbers, so that one mistake is one message.

    The names of variables (q1_ms) keep theirs.
    """
    return re.sub(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)", "…", message)
