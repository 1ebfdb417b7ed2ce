"""Copy the course's files (lessons, exercises and guides) for a learner."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError
from tcplab.programs.sources import course_folder

#: The files that a learner needs. src/CMakeLists.txt puts them into the wheel.
NAMES: Final = (
    "start.ipynb",
    "lessons",
    "exercises",
    "docs/any-program.md",
    "docs/claims.md",
    "docs/glossary.md",
    "docs/handout.md",
    "docs/kernels.md",
    "docs/learners-guide.md",
    "docs/platforms.md",
    "LICENSE",
    "LICENSE-CC-BY-4.0",
)
#: Names of files that a learner's work creates. They are not copied.
_OF_A_LEARNER: Final = shutil.ignore_patterns(".*", "predictions.json", "captures", "__pycache__")


def quickstart(directory: Path) -> None:
    """Copy the lessons, exercises, start page and guides into a new or empty directory."""
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise ParameterError(f"{directory} is not an empty directory; name a new one")
    for name in NAMES:
        source, target = course_folder() / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_OF_A_LEARNER)
        else:
            shutil.copy(source, target)
