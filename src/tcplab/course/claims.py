"""The texts' claims, and the verdict that the results of a run bear out.

Each [[claim]] of claims.toml has its source, its verdict and the reason for it. A number that was
measured stands in the reason as {name}; its entry in `numbers` says of which result it is, by which
expression, and within which bounds the words and the verdict are true:

    name = ["result", "expression", least, most, "format"]

The expression sees the result as r, its rows by their variant as by, and ends in one number or in
those of all runs. A lesson hands its own results to `trial`; tools/make-claims makes docs/claims.md
from the shipped recordings.
"""

from __future__ import annotations

import math
import re
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tcplab import models
from tcplab.errors import ParameterError, TcplabError
from tcplab.tables import Column, Table

VERDICTS: Final = ("holds", "holds with limits", "refuted", "not testable here")
#: In place of a verdict: some of the runs are within the bounds and others not; none is; or there
#: is no number, since a program is missing or plain loopback shows no segments.
UNDECIDED: Final = "your run does not decide"
OTHERWISE: Final = "not borne out by your run"
NOT_MEASURED: Final = "not measured here"

#: That the median of more and more runs is outside of the interval that decides.
_DOUBT: Final = 0.05


class ClaimsError(TcplabError):
    """The claims and the results do not fit together."""


@dataclass(frozen=True, slots=True)
class Number:
    """A measured number of a reason."""

    values: Sequence[float]  #: one, or one per run
    least: float  #: the bounds, within which the verdict is true
    most: float
    form: str  #: a format specification

    def __str__(self) -> str:
        """The number; of several runs the median with the least and the most."""
        ordered = sorted(self.values)
        median = format(statistics.median(ordered) if ordered[1:] else ordered[0], self.form)
        if len(ordered) == 1:
            return median
        least, most = format(ordered[0], self.form), format(ordered[-1], self.form)
        return f"{median} ({least}–{most} in {len(ordered)} runs)"

    @property
    def within(self) -> bool | None:
        """True or False where the runs agree on it, None where they do not.

        They agree where both ends of the interval of the median are on the same side: its 95 %
        confidence interval by order statistics, which of up to eight runs is all of them.
        """
        ordered = sorted(self.values)
        rank = _rank(len(ordered))
        ends = ordered[rank], ordered[-1 - rank]
        if self.least <= ends[0] and ends[1] <= self.most:
            return True
        return False if ends[1] < self.least or self.most < ends[0] else None


def _rank(count: int) -> int:
    """Values below the interval of the median: all of them with a probability of _DOUBT / 2."""
    below = 0.0
    for rank in range(count):
        below += math.comb(count, rank) / 2**count
        if below > _DOUBT / 2:
            return max(rank - 1, 0)
    return 0


@cache
def data() -> Mapping[str, Any]:
    """All of claims.toml: `claim` is the list of the claims."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def evaluate(expression: str, result: Any = None) -> Any:
    """The value of an expression of claims.toml, over a result if one is given.

    Raises:
        ClaimsError: it has no value there.
    """
    names: dict[str, Any] = {
        **{name: getattr(models, name) for name in models.__all__},
        **{each.__name__: each for each in (min, max, sum, len, round, list, set, sorted, zip)},
        "median": statistics.median,
    }
    try:
        if result is not None:
            names["r"] = result
            if "by" in expression:
                names["by"] = {row["variant"]: row for row in result.rows()}
        return eval(expression, {"__builtins__": names})  # the file is ours
    except Exception as error:
        raise ClaimsError(f"{expression}: {type(error).__name__}: {error}") from None


def measured(entry: Sequence[Any], result: Any) -> Number:
    """A number of a claim, by its entry in `numbers`, from one result.

    Raises:
        ClaimsError: the result does not have it.
    """
    _name, expression, least, most, form = entry
    value = evaluate(expression, result)
    values = [value] if isinstance(value, int | float) else list(value or ())
    if not values:
        raise ClaimsError(f"{expression}: nothing was measured")
    return Number(values, least, most, form)


def on_trial(lesson: str) -> list[Mapping[str, Any]]:
    """The claims whose evidence names the section *Test the claims* of a lesson, by its slug."""
    section = re.compile(rf'lesson {lesson}(?:, "[^"]+")*, "Test the claims"')
    return [claim for claim in data()["claim"] if section.search(claim["evidence"])]


def trial(lesson: str, **results: Any) -> Table:
    """The claims that a lesson tests, each with the verdict that these results bear out.

    Args:
        lesson: its slug, "small-writes".
        results: results of this run, by the names that the claims' numbers have for them.

    Raises:
        ParameterError: the lesson has no claims on trial, they need a result that was not given, or
            they do not need one that was.
    """
    claims = on_trial(lesson)
    needed = {entry[0] for claim in claims for entry in claim.get("numbers", {}).values()}
    if needed != set(results):
        raise ParameterError(
            f"trial({lesson!r}) has the results {', '.join(sorted(results)) or 'none'};"
            f" its claims need {', '.join(sorted(needed)) or 'none: no claim is on trial there'}"
        )
    rows = []
    for claim in claims:
        verdict, reason = _judged(claim, results)
        said = claim["claim"].replace("`", "")
        rows.append(
            {"source": claim["source"], "claim": said, "verdict": verdict, "reason": reason}
        )
    columns = [
        Column("source", "the text"),
        Column("claim", "says"),
        Column("verdict", "verdict of this run"),
        Column("reason", "because"),
    ]
    return Table(columns, rows)


def _judged(claim: Mapping[str, Any], results: Mapping[str, Any]) -> tuple[str, str]:
    """Verdict and reason, with the numbers of these results."""
    numbers: dict[str, Number | None] = {}
    for name, entry in claim.get("numbers", {}).items():
        try:
            numbers[name] = measured(entry, results[entry[0]])
        except ClaimsError:
            numbers[name] = None
    words = {name: "–" if each is None else str(each) for name, each in numbers.items()}
    reason = claim["reason"].replace("`", "").format(**words)
    found = [each for each in numbers.values() if each is not None]
    if claim["verdict"] == "not testable here":
        return claim["verdict"], reason
    if len(found) < len(numbers):
        return NOT_MEASURED, reason
    missed = [each for each in found if not each.within]
    if not missed:
        return claim["verdict"], reason
    wanted = " and ".join(f"{each.least:g} to {each.most:g}, not {each}" for each in missed)
    verdict = OTHERWISE if any(each.within is False for each in missed) else UNDECIDED
    return verdict, f"{reason}. “{claim['verdict'].capitalize()}” would take {wanted}."
