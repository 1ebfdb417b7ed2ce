"""Repeat a run if its own record says it was disturbed; no other test code may repeat runs.

A measurement records what disturbed it, such as packets that the link emulator forwarded late. Only
such a record is a reason to measure again, never an unexpected result. The summary of the tests
says how often runs were repeated, and why.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

R = TypeVar("R")

TRIES: Final = 3
#: Number of measurements that this process has repeated, by reason.
REPEATED: Counter[str] = Counter()


def undisturbed(measure: Callable[[], R], disturbance: Callable[[R], str]) -> R:
    """Return the first of at most three results that was not disturbed, else the last one.

    `disturbance` reads what disturbed a result from its own record, or returns "".
    """
    for _ in range(TRIES - 1):
        result = measure()
        if not (why := disturbance(result)):
            return result
        REPEATED[why] += 1
    return measure()
