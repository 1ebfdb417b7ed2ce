"""Check arguments. Each error is one line with the value and what is allowed."""

import difflib
import math
from collections.abc import Iterable

from tcplab.errors import ParameterError

__all__ = ["choice", "number", "unknown", "whole"]
__dir__ = __all__.copy


def number(
    name: str, value: float, low: float, high: float = math.inf, *, unit: str = "", fix: str = ""
) -> float:
    """Return the value if it is a finite number from low to high; otherwise raise ParameterError.

    The error names the unit (such as " ms") after the limits, and ends with the fix.
    """
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not low <= value <= high:
        raise ParameterError(_refusal(name, value, f"a number {_span(low, high)}{unit}", fix))
    return value


def whole(
    name: str, value: int, low: int, high: float = math.inf, *, unit: str = "", fix: str = ""
) -> int:
    """Return the value if it is a whole number from low to high; see :func:`number`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ParameterError(_refusal(name, value, f"a whole number {_span(low, high)}{unit}", fix))
    return value


def choice(name: str, value: str, known: Iterable[str]) -> str:
    """Return the value if it is one of `known`; otherwise raise ParameterError."""
    known = tuple(known)
    if value not in known:
        raise ParameterError(f"{name} {unknown(value, known)}")
    return value


def unknown(value: object, known: Iterable[str]) -> str:
    """Return the message that a name is not known, with the known names and any similar one."""
    names = tuple(known)
    near = difflib.get_close_matches(str(value), names, 1)
    advice = f"did you mean {near[0]}? Use one of" if near else "use one of"
    return f"{value!r} is not known; {advice} {', '.join(names)}"


def _refusal(name: str, value: object, demand: str, fix: str) -> str:
    return f"{name}={value!r} must be {demand}" + (f"; {fix}" if fix else "")


def _span(low: float, high: float) -> str:
    limits = [f"{low:.12g}", f"{high:.12g}"]
    return f"of at least {limits[0]}" if high == math.inf else f"from {limits[0]} to {limits[1]}"
