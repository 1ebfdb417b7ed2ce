"""Where the course's C sources and its other files are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_KINDS: Final = ("programs", "laboratory", "common")


def course_folder() -> Path:
    """The folder with lessons/ and exercises/: in a wheel the package's copy, else the checkout."""
    copied = _PACKAGE / "files"
    return copied if copied.is_dir() else _PACKAGE.parents[1]


def source_folder() -> Path:
    """The folder of the C sources, with one folder for each kind in it.

    A wheel carries a copy in the package; in a checkout they stand beside it.
    """
    copied = _PACKAGE / "sources"
    return copied if copied.is_dir() else _PACKAGE.parent


def source_path(file: str) -> Path:
    """The path of one of the course's C sources.

    Raises:
        FileNotFoundError: no such source; the message names those that exist.
    """
    paths = [path for kind in _KINDS for path in (source_folder() / kind).rglob("*.[ch]")]
    for path in paths:
        if path.name == file:
            return path
    known = sorted(path.name for path in paths if path.suffix == ".c")
    raise FileNotFoundError(f"no C source {file!r}; there are {', '.join(known) or 'none'}")


def shared_sources() -> list[Path]:
    """The .c files that every program is linked with; beside each of them is its header.

    Raises:
        FileNotFoundError: the course's sources are not installed.
    """
    return sorted(source_path("net.c").parent.glob("*.c"))
