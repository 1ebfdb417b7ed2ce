"""Define verdicts, and the checks that assignments share, as pure functions on plain data.

A check gets JSON from the sandbox, and the number, sizes and order of segments from the laboratory.
It returns a share of the points, with one or two sentences that teach and never contain the answer.
In a check of one answer, `value` is the answer, of any type, and `name` is the learner's variable.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Shares are rounded to this many digits, so that a score does not depend on the order of a sum.
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check."""

    #: share of the question's points, from 0 to 1, or None if a person has to judge
    share: float | None
    message: str  #: one or two sentences for the learner, as plain text

    def __post_init__(self) -> None:
        if self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"share={self.share!r} must be from 0 to 1, or None")

    @property
    def passed(self) -> bool:
        return self.share == 1


@dataclass(frozen=True, slots=True)
class Hint:
    """A common wrong answer, with the mistake behind it and its share of the points."""

    value: Any  #: the wrong answer
    message: str  #: the mistake that leads to it, without the right answer
    share: float = 0.0  #: share of the points


def score(verdict: Verdict, points: float) -> float | None:
    """Return the points earned, rounded to two decimals, or None if a person has to judge."""
    return None if verdict.share is None else round(verdict.share * points, 2)


def combine(parts: Iterable[tuple[float, Verdict]]) -> Verdict:
    """Combine verdicts with weights that add up to 1; the share is None if that of a part is."""
    listed = list(parts)
    total = sum(weight for weight, _ in listed)
    if not listed or not math.isclose(total, 1, abs_tol=1e-9):
        raise ValueError(f"the weights add up to {total:g}; they must add up to 1")
    failed = [verdict.message for _, verdict in listed if not verdict.passed]
    passed = [verdict.message for _, verdict in listed if verdict.passed]
    message = " ".join(text for text in [*failed, *passed] if text)
    shares = [weight * verdict.share for weight, verdict in listed if verdict.share is not None]
    is_judged = len(shares) == len(listed)
    return Verdict(min(1.0, round(sum(shares), _DIGITS)) if is_judged else None, message)


def equal_parts(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine verdicts with equal weights; see :func:`combine`."""
    return combine([(1 / len(verdicts), verdict) for verdict in verdicts])


# ---- answers -------------------------------------------------------------------------------------


def describe(value: Any) -> str:
    """Return a short form of a value for messages, on one line."""
    if isinstance(value, Mapping) and set(value) == {"unsupported"}:
        return f"an object of type {value['unsupported']}"
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def as_number(value: Any) -> float | None:
    """Return the value as a float if it is a finite number and not a bool, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def _not_answered(value: Any, name: str) -> Verdict | None:
    return Verdict(0, f"{name} has no answer yet.") if value is None or value is ... else None


def _known(
    is_like: Callable[[Any], bool], expected: Any, hints: Sequence[Hint], name: str
) -> Verdict | None:
    """Return the verdict on the right answer, or on one with a hint; None for any other."""
    for hint in (Hint(expected, "right.", 1), *hints):
        if is_like(hint.value):
            return Verdict(hint.share, f"{name}: {hint.message}")
    return None


def number(
    value: Any,
    expected: float,
    *,
    name: str,
    unit: str = "",
    within: float = 0.02,
    hints: Sequence[Hint] = (),
    wrong: str = "",
) -> Verdict:
    """Give full marks for a number near the expected one.

    `within` is the relative tolerance, also for the numbers in `hints`. `wrong` is added to the
    message if no hint fits.
    """
    if blank := _not_answered(value, name):
        return blank
    given = as_number(value)
    if given is None:
        of = f" of {unit}" if unit else ""
        return Verdict(0, f"{name} is {describe(value)}; give a plain number{of}.")

    def is_near(value: float) -> bool:
        return abs(given - value) <= within * abs(value) + 1e-12

    if known := _known(is_near, expected, hints, name):
        return known
    direction = "too large" if given > expected else "too small"
    return Verdict(0, f"{name} is {direction}. {wrong}".strip())


def count(
    value: Any, expected: int, *, name: str, hints: Sequence[Hint] = (), wrong: str = ""
) -> Verdict:
    """Give full marks for exactly the expected whole number."""
    if blank := _not_answered(value, name):
        return blank
    given = as_number(value)
    if given is None or given != int(given):
        return Verdict(0, f"{name} is {describe(value)}; give a whole number.")
    return number(given, expected, name=name, within=0, hints=hints, wrong=wrong)


def counts(
    value: Any,
    expected: Sequence[int],
    *,
    name: str,
    hints: Sequence[Hint] = (),
    wrong: str = "",
    partial: bool = True,
) -> Verdict:
    """Give full marks for a list of whole numbers that are all right and in order.

    With `partial`, a list of the right length earns half the share of its right elements. Use False
    if most elements are the same for all students, such as full segments.
    """
    if blank := _not_answered(value, name):
        return blank
    if not isinstance(value, list) or any(as_number(item) is None for item in value):
        return Verdict(0, f"{name} is {describe(value)}; give a list of whole numbers.")
    if known := _known(lambda sizes: value == list(sizes), expected, hints, name):
        return known
    if len(value) != len(expected):
        more = "too many" if len(value) > len(expected) else "too few"
        return Verdict(0, f"{name} has {len(value)} elements, {more}. {wrong}".strip())
    equal = [a == b for a, b in zip(value, expected, strict=True)]
    share = round(sum(equal) / len(equal) / 2, _DIGITS) if partial else 0.0
    return Verdict(
        share, f"{name}: the first difference is at index {equal.index(False)}. {wrong}".strip()
    )


def _not_one_of(value: Any, options: Sequence[str], name: str) -> Verdict | None:
    if blank := _not_answered(value, name):
        return blank
    given = value.strip().casefold() if isinstance(value, str) else None
    if given in [option.casefold() for option in options]:
        return None
    known = ", ".join(repr(option) for option in options)
    return Verdict(0, f"{name} is {describe(value)}; give one of {known}.")


def choice(
    value: Any,
    expected: str,
    options: Sequence[str],
    *,
    name: str,
    hints: Sequence[Hint] = (),
    wrong: str = "",
) -> Verdict:
    """Give full marks for the right word, ignoring case and spaces at the ends."""
    if expected not in options:
        raise ValueError(f"expected={expected!r} is not one of {', '.join(options)}")
    if wrong_word := _not_one_of(value, options, name):
        return wrong_word
    given = value.strip().casefold()
    if known := _known(lambda word: given == word.casefold(), expected, hints, name):
        return known
    return Verdict(0, f"{name}: not {given!r}. {wrong}".strip())


# ---- public checks: is there an answer, and is it of the right kind? -----------------------------
#
# Public checks do not contain the right answer, so they cannot reveal it. A check that returns
# `… | Verdict` returns the answer if it is of the right kind, else the verdict to show.


def numbers_in(
    answers: Mapping[str, Any],
    names: Sequence[str],
    *,
    unit: str = "",
    least: int | None = None,
    above: float | None = None,
    most: float | None = None,
) -> list[float] | Verdict:
    """Return the answers with these names if all of them are numbers, or a verdict.

    With `least`, they must be whole numbers from `least`. The limit `above` itself is excluded.
    """
    for name in names:
        if missing := _not_answered(answers[name], name):
            return missing
    values = [value for name in names if (value := as_number(answers[name])) is not None]
    if len(values) < len(names):
        shown = ", ".join(f"{name} = {describe(answers[name])}" for name in names)
        wanted = "a plain number" if len(names) == 1 else "plain numbers"
        kind = "" if unit == "" else f", in {unit}"
        return Verdict(0, f"{shown}: give {wanted}{kind}; float() and int() make them.")
    for name, value in zip(names, values, strict=True):
        impossible = ""
        if least is not None and (value != int(value) or value < least):
            impossible = f"it is counted in whole numbers from {least}"
        elif above is not None and value <= above:
            impossible = f"it must be more than {above:g}"
        elif most is not None and value > most:
            impossible = f"there are no more than {most:g} here"
        if impossible:
            return Verdict(0, f"{name} is {value:g}; {impossible}.")
    return values


def list_in(
    value: Any, length: int | None = None, *, name: str, of: str = "whole numbers"
) -> list[Any] | Verdict:
    """Return an answer that is a list of this length (by default, any but 0), or a verdict."""
    if blank := _not_answered(value, name):
        return blank
    if not isinstance(value, list) or not value or (length is not None and len(value) != length):
        many = "" if length is None else f"{length} "
        return Verdict(0, f"{name} is {describe(value)}; it must be a list of {many}{of}.")
    return value


def counts_in(
    value: Any,
    length: int | None = None,
    *,
    name: str,
    of: str = "whole numbers",
    least: int = 0,
    most: int | None = None,
) -> list[int] | Verdict:
    """Return a list of whole numbers from `least` to `most`, or a verdict; see :func:`list_in`."""
    given = list_in(value, length, name=name, of=of)
    if isinstance(given, Verdict):
        return given
    for index, item in enumerate(given):
        number = as_number(item)
        if number is None or number != int(number) or number < least:
            return Verdict(
                0, f"{name}[{index}] is {describe(item)}; it must be a whole number from {least}."
            )
        if most is not None and number > most:
            return Verdict(0, f"{name}[{index}] is {number:g}; there are no more than {most} here.")
    return [int(answer) for answer in given]


def sizes_in(value: Any, total_bytes: int, *, name: str, most_bytes: int) -> list[int] | Verdict:
    """Return the payload sizes if they add up to the total, or a verdict on the mistake."""
    given = counts_in(value, name=name, of=f"sizes in bytes, such as [{most_bytes}, 20]", least=1)
    if isinstance(given, Verdict):
        return given
    if max(given) > most_bytes:
        return Verdict(0, f"{name}: a segment holds at most {most_bytes} bytes.")
    if sum(given) != total_bytes:
        return Verdict(0, f"{name}: these are {sum(given)} bytes, and {total_bytes} are sent.")
    return given


def one_of(value: Any, options: Sequence[str], *, name: str, then: str) -> Verdict:
    """Check that the answer is one of the options; `then` is the message if it is."""
    return _not_one_of(value, options, name) or Verdict(1, then)
