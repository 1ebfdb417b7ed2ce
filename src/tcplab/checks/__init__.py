"""Checks of arguments: one line names the value, the limit and the unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tcplab.errors import ParameterError


def number(
    name: str, value: float, low: float, high: float = math.inf, *, unit: str = "", fix: str = ""
) -> float:
    """The value itself when it is a finite number from low to high.

    Args:
        name: of the argument.
        value: that was given.
        low: least that is allowed.
        high: most that is allowed.
        unit: written behind the limits, with its space: " ms".
        fix: what to do about it, where the limits do not say.

    Raises:
        ParameterError: it is not.
    """
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not low <= value <= high:
        raise ParameterError(_refusal(name, value, f"a number {_span(low, high)}{unit}", fix))
    return value


def whole(
    name: str, value: int, low: int, high: float = math.inf, *, unit: str = "", fix: str = ""
) -> int:
    """The value itself when it is a whole number from low to high. See :func:`number`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ParameterError(_refusal(name, value, f"a whole number {_span(low, high)}{unit}", fix))
    return value


def choice(name: str, value: str, known: Iterable[str]) -> str:
    """The value itself when it is one of those that are known.

    Raises:
        ParameterError: it is not; the line lists them.
    """
    known = tuple(known)
    if value not in known:
        raise ParameterError(f"{name}={value!r} is not known; use one of {', '.join(known)}")
    return value


def choices(name: str, values: Sequence[str], known: Iterable[str]) -> None:
    """Passes one value or more, each of which is known.

    Raises:
        ParameterError: there is none, or one is not known; the line lists those that are.
    """
    known = tuple(known)
    if not values:
        raise ParameterError(f"{name} is empty; use some of {', '.join(known)}")
    for value in values:
        choice(name, value, known)


def _refusal(name: str, value: object, demand: str, fix: str) -> str:
    return f"{name}={value!r} must be {demand}" + (f"; {fix}" if fix else "")


def _span(low: float, high: float) -> str:
    limits = [f"{low:.12g}", f"{high:.12g}"]
    return f"of at least {limits[0]}" if high == math.inf else f"from {limits[0]} to {limits[1]}"
