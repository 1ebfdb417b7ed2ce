"""Argument checks of models and experiments: one line names the value, the limit and the fix."""

from __future__ import annotations

import math


def number(name: str, value: float, low: float, high: float = math.inf, *, fix: str) -> float:
    """The value itself when it is a finite number from low to high.

    Raises:
        ValueError: otherwise; the line names the value, the limit and the fix.
    """
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name}={value!r} must be a number {_span(low, high)}; {fix}")
    return value


def whole(name: str, value: int, low: int, high: float = math.inf, *, fix: str) -> int:
    """The value itself when it is a whole number from low to high.

    Raises:
        ValueError: otherwise; the line names the value, the limit and the fix.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}={value!r} must be a whole number {_span(low, high)}; {fix}")
    return value


def choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """The value itself when it is one of the choices.

    Raises:
        ValueError: otherwise; the line lists the choices.
    """
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; use one of {', '.join(choices)}")
    return value


def within(name: str, value: float, low: float, high: float, unit: str = "") -> None:
    """Passes a value from low to high.

    Raises:
        ValueError: otherwise; the line names the value and the limits, with their unit.
    """
    if not low <= value <= high:
        raise ValueError(f"{name}={value:,.12g} must be from {low:,.12g} to {high:,.12g}{unit}")


def _span(low: float, high: float) -> str:
    return f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
