"""Say in a sentence what a result shows, by the template that its experiment declares.

A template names the quantities by their keys: {took_ms.most} and {took_ms.least} are the variants
with the largest and the smallest value, {took_ms.high} and {took_ms.low} these values, and
{took_ms.ratio} their ratio. {took_ms.same} is a value that all variants share. {took_ms[last]} is
the value of the variant "last", and {took_ms[last/none]} the ratio of two variants. All of these
have the format of their column. {mbit.error} is the largest distance from the row's model_mbit.

A template holds only for a run that measured all of this. A ratio must be clearly above 1, a shared
value nearly the same in all variants, and the model near the measurements. Otherwise, the run
contradicts the template.
"""

import string
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from tcplab.errors import TcplabError
from tcplab.experiments.declaration import find
from tcplab.experiments.provenance import warning_note
from tcplab.experiments.result import Tabular
from tcplab.tables import Column, cell, digits

#: Numbers whose ratio is smaller are nearly the same.
_CLEARLY: Final = 1.1
#: A model that differs by a larger share from a measurement does not explain it.
_NEAR: Final = 0.4


class _ContradictedError(TcplabError):
    """The run does not show what the template says."""


class _Quantity:
    """A quantity in words, by the names of the variants."""

    def __init__(self, column: Column, rows: Sequence[Mapping[str, Any]]) -> None:
        known = [row for row in rows if row.get(column.key) is not None]
        self._values = {str(row["variant"]): row[column.key] for row in known}
        if not 1 < len(self._values) == len(known):
            raise LookupError("there is nothing to compare, or two variants have the same name")
        self._column, self._rows = column, known
        self.least, *_others, self.most = sorted(self._values, key=self._values.__getitem__)
        self.low, self.high = self[self.least], self[self.most]

    def __getitem__(self, names: str) -> str:
        if names in self._values:
            return cell(self._values[names], self._column.format)
        more, _slash, less = names.partition("/")
        ratio = self._values[more] / self._values[less]
        if ratio < _CLEARLY:
            self._contradict(f"{more} is not clearly above {less}")
        return digits(ratio)

    @property
    def ratio(self) -> str:
        if self._values[self.most] < _CLEARLY * self._values[self.least]:
            raise LookupError("all variants are nearly the same")
        return digits(self._values[self.most] / self._values[self.least])

    @property
    def same(self) -> str:
        if self._values[self.most] > _CLEARLY * self._values[self.least]:
            self._contradict(f"{self.least} and {self.most} differ")
        return self.low

    @property
    def error(self) -> str:
        key = self._column.key
        error = max(abs(row[key] / row[f"model_{key}"] - 1) for row in self._rows)
        if error > _NEAR:
            self._contradict(f"one is {error:.0%} from the model")
        return f"{error:.0%}"

    def _contradict(self, why: str) -> NoReturn:
        raise _ContradictedError(f"not as usual: in this run's {self._column.heading}, {why}")


def finding(result: Tabular, keys: Sequence[str], claim: str = "") -> tuple[str, str]:
    """Return the title of a figure that shows these quantities, and why it is not the usual one.

    The title is the claim, or the finding that the experiment declares if the figure shows its
    quantities.
    Without one, or if the run was disturbed or contradicts it, the title says what was measured.
    """
    name = result.provenance.get("experiment")
    template = claim or (find(name).finding if name else "")
    fields = [field or "" for _text, field, *_ in string.Formatter().parse(template)]
    keys_named = (field.partition("[")[0] for field in fields if field)
    named = {key.rpartition(".")[0] or key for key in keys_named}
    why = ""
    if template and named <= {*keys} and not warning_note(result.provenance):
        try:
            rows = result.rows()
            known = {key: _Quantity(column_of(result, key), rows) for key in named}
            return template.format(**known), ""
        except _ContradictedError as error:
            why = str(error)
        except (LookupError, ZeroDivisionError):
            pass  # this run has other variants
    return _measured(result, keys[0]), why


def _measured(result: Tabular, key: str) -> str:
    rows = [row for row in result.rows() if row.get(key) is not None]
    rows.sort(key=lambda row: float(row[key]))
    low, high = rows[0], rows[-1]
    column = column_of(result, key)
    heading = column.heading
    first = heading.partition(" ")[0]
    if first.isalpha() and first not in ("ms", "s"):
        heading = heading[:1].upper() + heading[1:]
    least, most = (cell(row[key], column.format) for row in (low, high))
    if len(rows) == 1:
        return f"{heading}: {most} ({high['variant']})"
    if high[key] < _CLEARLY * low[key] or least == most:
        return f"{heading}: about {most} in all {len(rows)} variants"
    if low[key] <= 0:
        return f"{heading}: {most} ({high['variant']}), but {least} ({low['variant']})"
    times = digits(float(high[key]) / float(low[key]))
    return f"{heading}: {most} ({high['variant']}) is {times} times {least} ({low['variant']})"


def column_of(result: Tabular, key: str) -> Column:
    """Return the column of a quantity, which may be in the rows but not in the table."""
    return next((column for column in result.columns if column.key == key), Column(key, key, ".3g"))
