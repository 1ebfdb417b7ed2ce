"""The front end of a notebook: whether a user can answer in it, and how a typed guess is read."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Final

from tcplab.errors import ParameterError

#: What to type instead of a guess.
SKIP: Final = "skip"


def frontend_is_interactive() -> bool:
    """Return whether a user of the front end can press a button.

    A front end that cannot answer input() has no user, such as nbclient, nbconvert and papermill.
    Voilà is the exception: it shows a demo as a separate page, but runs the cells beforehand.
    """
    if os.environ.get("SERVER_SOFTWARE", "").startswith("voila"):
        return True
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


def read_guess(text: str) -> float | None:
    """Return the number that a user typed, or None for "skip"."""
    if text.strip() == SKIP:
        return None
    with suppress(ValueError):
        if 0 <= (value := float(text)) < math.inf:
            return value
    raise ParameterError(f"“{text}” must be a number of at least 0, such as 12 or 0.5, or “{SKIP}”")
