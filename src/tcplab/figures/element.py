"""Provide the script of the element <tcplab-figure>, which contains the element's style."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"


@functools.cache
def script() -> str:
    """Return the JavaScript that defines the element. A page may contain the script repeatedly."""
    style, script = (STATIC / f"figure.{kind}" for kind in ("css", "js"))
    return f"{{\nconst STYLE = {json.dumps(style.read_text())};\n{script.read_text()}}}\n"
