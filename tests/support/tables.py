"""Tables of cases that are text, from the TOML files in tests/data."""

import tomllib
from typing import Any

from tests.support.paths import DATA


def table(name: str) -> dict[str, Any]:
    """Return the contents of tests/data/NAME.toml."""
    return tomllib.loads((DATA / f"{name}.toml").read_text())
