"""Locate the C sources and other files of the course."""

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_KINDS: Final = ("programs", "laboratory", "common")


def course_folder() -> Path:
    """Return the folder with lessons/ and exercises/, a copy in the wheel or else the checkout."""
    copied = _PACKAGE / "files"
    return copied if copied.is_dir() else _PACKAGE.parents[1]


def source_folder() -> Path:
    """Return the folder of the C sources, a copy in the wheel or else src/ of the checkout."""
    copied = _PACKAGE / "sources"
    return copied if copied.is_dir() else _PACKAGE.parent


def source_path(file: str) -> Path:
    """Return the path of a C source. If there is none, FileNotFoundError lists those that exist."""
    paths = [path for kind in _KINDS for path in (source_folder() / kind).rglob("*.[ch]")]
    for path in paths:
        if path.name == file:
            return path
    known = sorted(path.name for path in paths if path.suffix == ".c")
    raise FileNotFoundError(f"no C source {file!r}; there are {', '.join(known) or 'none'}")


def shared_sources() -> list[Path]:
    """Return the .c files that every program is linked with. Their headers are next to them."""
    return sorted(source_path("net.c").parent.glob("*.c"))
