"""The problem sets of the course."""

from __future__ import annotations

from tests.support.nonempty import each
from tests.support.paths import ROOT

SOURCES = each(
    path for path in sorted(ROOT.glob("solutions/*")) if (path / f"{path.name}.ipynb").is_file()
)
NAMES = [path.name for path in SOURCES]
#: The set that uses every part of the machinery.
EXAMPLE = "small-writes"
