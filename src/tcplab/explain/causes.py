"""Load the texts of all causes from causes.toml."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Texts such as "title" and "fix" by cause, and of the ledger by kind.
CAUSES: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
