"""Create an assignment's source folder with a question of each kind (`tcplab new-assignment`)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from tcplab.errors import ParameterError

#: A complete small assignment, in which NAME is replaced by the assignment's name.
TEMPLATE: Final = Path(__file__).with_name("template")


def new_assignment(course: Path, name: str) -> Path:
    """Create solutions/NAME with a complete small assignment to edit, and return the folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", name):
        raise ParameterError(f"name {name!r} must be letters, digits, - and _, at most 61 of them")
    folder = course.resolve() / "solutions" / name
    if folder.exists():
        raise ParameterError(f"{folder} exists already; choose another name")
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "NAME.ipynb").rename(folder / f"{name}.ipynb")
    for path in sorted(folder.rglob("*.*")):
        path.write_text(path.read_text().replace("NAME", name))
    return folder
