"""Find out whether a user can answer in this notebook, and read a typed guess."""

import math
import os
from contextlib import suppress
from typing import Final

from tcplab.errors import ParameterError

#: The word to type instead of a guess.
SKIP: Final = "skip"


def frontend_is_interactive() -> bool:
    """Return whether a user can press buttons in the notebook's front end.

    Programs that cannot answer input(), such as nbclient, nbconvert and papermill, have no user.
    Voilà cannot answer input() either, because it runs the cells before it shows the page, but it
    has a user.
    """
    if os.environ.get("SERVER_SOFTWARE", "").startswith("voila"):
        return True
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


def read_guess(text: str) -> float | None:
    """Return the number >= 0 that a user typed, or None for "skip", or raise ParameterError."""
    if text.strip() == SKIP:
        return None
    with suppress(ValueError):
        if 0 <= (value := float(text)) < math.inf:
            return value
    raise ParameterError(f"“{text}” must be a number of at least 0, such as 12 or 0.5, or “{SKIP}”")
