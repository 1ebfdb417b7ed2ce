"""Iteration that must not be empty, for tests that assert inside a loop.

An assertion that is only inside `for row in result.rows` never runs if there are no rows, and
the test passes without having tested anything. `for row in each(result.rows)` fails instead.
"""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def each(items: Iterable[T]) -> list[T]:
    """Return the items; fail if there are none."""
    elements = list(items)
    assert elements, f"nothing to test: {items!r} is empty"
    return elements
