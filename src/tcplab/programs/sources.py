"""Locate the course's C sources and its other files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_KINDS: Final = ("programs", "laboratory", "common")


def course_folder() -> Path:
    """Return the folder with lessons/ and exercises/: the wheel's copy, or else the checkout."""
    copied = _PACKAGE / "files"
    return copied if copied.is_dir() else _PACKAGE.parents[1]


def source_folder() -> Path:
    """Return the folder of the C sources, which has one subfolder per kind.

    A wheel carries a copy in the package. In a checkout, the sources are next to the package.
    """
    copied = _PACKAGE / "sources"
    return copied if copied.is_dir() else _PACKAGE.parent


def source_path(file: str) -> Path:
    """Return the path of one of the course's C sources.

    Raises:
        FileNotFoundError: there is no such source, and the message names the existing ones
    """
    paths = [path for kind in _KINDS for path in (source_folder() / kind).rglob("*.[ch]")]
    for path in paths:
        if path.name == file:
            return path
    known = sorted(path.name for path in paths if path.suffix == ".c")
    raise FileNotFoundError(f"no C source {file!r}; there are {', '.join(known) or 'none'}")


def shared_sources() -> list[Path]:
    """Return the .c files that every program is linked with. Their headers are next to them.

    Raises:
        FileNotFoundError: the course's sources are not installed
    """
    return sorted(source_path("net.c").parent.glob("*.c"))
