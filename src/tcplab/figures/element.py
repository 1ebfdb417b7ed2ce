"""The element <tcplab-figure> for pages: its script and style, without the import of any figure."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"


@functools.cache
def script() -> str:
    """The JavaScript that defines the element; a page may have it any number of times."""
    style, script = (STATIC / f"figure.{kind}" for kind in ("css", "js"))
    return f"{{\nconst STYLE = {json.dumps(style.read_text())};\n{script.read_text()}}}\n"
