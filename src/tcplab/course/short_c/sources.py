"""Locate the C file of a lesson's program, either the learner's copy or the original."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tcplab.checks import choice
from tcplab.course.short_c.cases import CASES
from tcplab.programs.sources import course_folder

if TYPE_CHECKING:
    from IPython.display import Code


def path_of(slug: str) -> Path:
    """Return the path of the learner's copy in the working directory, or of the original."""
    choice("slug", slug, list(CASES))
    mine = Path(f"{slug}.c")
    return mine if mine.is_file() else original(slug)


def original(slug: str) -> Path:
    """Return the path of the course's own copy of a lesson's program."""
    return course_folder() / f"lessons/c/{slug}.c"


def show(slug: str) -> Code:
    """Return the source of a program, which a notebook shows with highlighting."""
    from IPython.display import Code

    return Code(path_of(slug).read_text(), language="c")  # type: ignore[no-untyped-call]


def copy(slug: str, folder: str | os.PathLike[str] = ".") -> Path:
    """Copy a lesson's program into a folder, unless it is already there; return its path."""
    choice("slug", slug, list(CASES))
    path = Path(folder) / f"{slug}.c"
    if not path.exists():
        shutil.copyfile(original(slug), path)
    return path
