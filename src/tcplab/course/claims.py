"""The claims of texts about TCP, and the verdicts that a run's results support.

Each [[claim]] of claims.toml has a source, a verdict and the reason for it. A measured number
appears in the reason as {name}. Its entry in `numbers` names the result, the expression over it,
and the bounds within which the reason and the verdict are true:

    name = ["result", "expression", least, most, "format"]

The evidence names each result that the numbers come from as {result}, and the page has its command.
In the expression, `r` is the result and `by` maps each variant to its row. The value is one number,
or one per run. `fails` names a change that must make the verdict fail. It is "NUMBER = VALUE", or
"CASE → OTHER" to make the expressions read another case. By default, the first number is halved. A
lesson passes its results to `test_claims`. tools/make-claims generates docs/claims.md from the
shipped recordings.
"""

import math
import re
import statistics
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tcplab import models
from tcplab.errors import ParameterError, TcplabError
from tcplab.experiments.provenance import warning_note
from tcplab.tables import Column, Table, cell, count

VERDICTS: Final = ("holds", "holds with limits", "refuted", "not testable here")
#: Outcomes without a verdict: the runs disagree, a number is outside its bounds, or a number is
#: missing because a program is not installed or plain loopback shows no segments.
UNDECIDED: Final = "your run does not decide"
OTHERWISE: Final = "your run disagrees with the course"
NOT_MEASURED: Final = "not measured here"

#: The number of claims that a notebook shows. It folds the others.
_UNFOLDED: Final = 3
#: The accepted probability that the true median is outside the interval that decides the outcome.
#: With fewer than six runs, the probability is larger.
_DOUBT: Final = 0.05


class ClaimsError(TcplabError):
    """The claims and the results do not match."""


@dataclass(frozen=True, slots=True)
class ClaimNumber:
    """A measured number that is part of a claim's reason."""

    values: Sequence[float]  #: one value, or one per run
    least: float  #: lower and upper bound within which the verdict is true
    most: float
    form: str  #: format specification

    def __str__(self) -> str:
        """Format the number, or the median of several runs with their minimum and maximum."""
        ordered = sorted(self.values)
        median = cell(statistics.median(ordered) if ordered[1:] else ordered[0], self.form)
        if len(ordered) == 1:
            return median
        least, most = cell(ordered[0], self.form), cell(ordered[-1], self.form)
        return f"{median} ({least}–{most} in {len(ordered)} runs)"

    @property
    def within(self) -> bool | None:
        """True if the number is within the bounds, False if it is not, None if the runs disagree.

        The runs agree if both ends of the median's 95 % confidence interval are on the same side of
        each bound. The interval comes from order statistics. With up to eight runs, it covers all
        of them.
        """
        ordered = sorted(self.values)
        rank = _rank(len(ordered))
        ends = ordered[rank], ordered[-1 - rank]
        if self.least <= ends[0] and ends[1] <= self.most:
            return True
        return False if ends[1] < self.least or self.most < ends[0] else None


def _rank(count: int) -> int:
    """Return how many values on each side are outside the median's confidence interval."""
    below = 0.0
    for rank in range(count):
        below += math.comb(count, rank) / 2**count
        if below > _DOUBT / 2:
            return max(rank - 1, 0)
    return 0


@cache
def data() -> Mapping[str, Any]:
    """Return the parsed claims.toml, whose key `claim` holds the list of claims."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def evaluate(expression: str, result: Any = None) -> Any:
    """Evaluate an expression of claims.toml, over a result if one is given."""
    names: dict[str, Any] = {
        **vars(models),
        **{
            function.__name__: function
            for function in (min, max, sum, len, round, list, set, sorted, zip)
        },
        "median": statistics.median,
    }
    try:
        if result is not None:
            names["r"] = result
            if "by" in expression:
                names["by"] = {row["variant"]: row for row in result.rows()}
        return eval(expression, {"__builtins__": names})  # safe, because the file is ours
    except Exception as error:
        raise ClaimsError(f"{expression}: {type(error).__name__}: {error}") from None


def measured(entry: Sequence[Any], result: Any) -> ClaimNumber:
    """Return the number that an entry of `numbers` defines, measured in a result."""
    _name, expression, least, most, form = entry
    value = evaluate(expression, result)
    values = [value] if isinstance(value, int | float) else list(value or ())
    if not values:
        raise ClaimsError(f"{expression}: nothing was measured")
    return ClaimNumber(values, least, most, form)


class ClaimsTable(Table):
    """A table of claims, of which a notebook shows the first three and folds the others."""

    def _repr_html_(self) -> str:
        first, folded = self.rows[:_UNFOLDED], self.rows[_UNFOLDED:]
        html = Table(self.columns, first)._repr_html_()
        if folded:
            html += f"<details><summary>{count(len(folded), 'more claim')}</summary>"
            html += f"{Table(self.columns, folded)._repr_html_()}</details>"
        return html


def claims_of(lesson: str) -> list[Mapping[str, Any]]:
    """Return the claims that a lesson tests in *Test the claims*, the refuted ones first."""
    section = re.compile(rf'lesson {lesson}(?:, "[^"]+")*, "Test the claims"')
    claims = [claim for claim in data()["claim"] if section.search(claim["evidence"])]
    return sorted(claims, key=lambda claim: bool(claim["verdict"] != "refuted"))


def test_claims(lesson: str, **results: Any) -> Table:
    """Return a table of a lesson's claims, with verdicts from results named as in claims.toml."""
    claims = claims_of(lesson)
    needed = {entry[0] for claim in claims for entry in claim.get("numbers", {}).values()}
    if needed != set(results):
        raise ParameterError(
            f"test_claims({lesson!r}) has the results {', '.join(sorted(results)) or 'none'};"
            f" its claims need {', '.join(sorted(needed)) or 'none: it tests no claim'}"
        )
    rows = []
    for claim in claims:
        verdict, reason = _judged(claim, results)
        text = claim["claim"].replace("`", "")
        rows.append(
            {"source": claim["source"], "claim": text, "verdict": verdict, "reason": reason}
        )
    columns = [
        Column("source", "source"),
        Column("claim", "claim"),
        Column("verdict", "verdict of this run"),
        Column("reason", "reason"),
    ]
    return ClaimsTable(columns, rows)


def _judged(claim: Mapping[str, Any], results: Mapping[str, Any]) -> tuple[str, str]:
    """Return the outcome of a claim, and its reason with the numbers of these results."""
    numbers: dict[str, ClaimNumber | None] = {}
    for name, entry in claim.get("numbers", {}).items():
        try:
            numbers[name] = measured(entry, results[entry[0]])
        except ClaimsError:
            numbers[name] = None
    shown = {name: "–" if number is None else str(number) for name, number in numbers.items()}
    reason = claim["reason"].replace("`", "").format(**shown)
    verdict = judge(claim["verdict"], numbers.values())
    if verdict in (OTHERWISE, UNDECIDED):
        missed = [number for number in numbers.values() if number and not number.within]
        wanted = " and ".join(
            f"{number.least:g} to {number.most:g}, not {number}" for number in missed
        )
        reason += f". “{claim['verdict'].capitalize()}” would take {wanted}."
        used = {entry[0] for entry in claim["numbers"].values()}
        if notes := sorted({warning_note(results[name].provenance) for name in used} - {""}):
            verdict, reason = UNDECIDED, " ".join([reason, *notes])
    return verdict, reason


def judge(verdict: str, numbers: Collection[ClaimNumber | None]) -> str:
    """Return a claim's verdict if the numbers support it, or the outcome without a verdict."""
    if verdict == "not testable here":
        return verdict
    if None in numbers:
        return NOT_MEASURED
    outcomes = {number.within for number in numbers if number}
    if False in outcomes:
        return OTHERWISE
    return UNDECIDED if None in outcomes else verdict
