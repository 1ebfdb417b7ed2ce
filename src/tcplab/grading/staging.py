"""Copies a submission for grading: plain files only, the notebook under its proper name.

The submission itself is never changed. Links could lead anywhere, pipes block whoever opens them,
and a file of many gigabytes fills the grader's disk; none of them is copied, and each is reported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 64 << 20
MAX_NOTEBOOK_BYTES: Final = 256 << 20
MAX_FILES: Final = 500
#: Made by Jupyter and Python beside the files that they open: not part of a submission.
_BY_PRODUCTS: Final = frozenset({".ipynb_checkpoints", "__pycache__"})


@dataclass(slots=True)
class Staged:
    """The result of copying a submission."""

    repairs: list[str] = field(default_factory=list)  #: what was mended, "kind: detail"
    flags: list[str] = field(default_factory=list)  #: what looks like more than an accident


def stage(source: Path, target: Path, notebook: str) -> Staged:
    """Copies a submission.

    Args:
        source: the folder that was handed in.
        target: where the copy goes; made anew.
        notebook: the name that the notebook must have, such as "ps5.ipynb".

    Returns:
        The repairs and flags.
    """
    staged = Staged()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    taken = 0
    for path in _files(source):
        name = path.relative_to(source)
        reason = _refusal(path)
        if reason is None and (taken := taken + 1) > MAX_FILES:
            reason = f"too-many-files: from {name} on"
            staged.flags.append(reason)
            break
        if reason is not None:
            staged.flags.append(f"{reason}: {str(name)[:80]!r}")
            continue
        there = target / name
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, there)
        there.chmod(0o644)
    _name_notebook(target, notebook, staged)
    return staged


def _files(folder: Path) -> Iterator[Path]:
    """Everything but folders and by-products, in order; links to folders are not followed."""
    for directory, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(each for each in folders if each not in _BY_PRODUCTS)
        links = [each for each in folders if (Path(directory) / each).is_symlink()]
        for name in sorted([*names, *links]):
            yield Path(directory) / name


def _refusal(path: Path) -> str | None:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return "link"
    if not stat.S_ISREG(about.st_mode):
        return "no-plain-file"
    most = MAX_NOTEBOOK_BYTES if path.suffix == ".ipynb" else MAX_FILE_BYTES
    return "too-large" if about.st_size > most else None


def _name_notebook(folder: Path, wanted: str, staged: Staged) -> None:
    """The notebook under the assignment's name: "ps5 (1).ipynb" and "ada_ps5.ipynb" are it too."""
    if (folder / wanted).is_file():
        return
    found = sorted(folder.rglob("*.ipynb"), key=lambda path: (-path.stat().st_size, str(path)))
    stem = Path(wanted).stem
    named = [path for path in found if stem in path.stem.casefold()]
    candidates = named or found
    if not candidates:
        staged.repairs.append("no-notebook")
        (folder / wanted).write_bytes(b"")
        return
    best = candidates[0]
    staged.repairs.append(f"wrong-file-name: {str(best.relative_to(folder))[:80]!r}")
    best.rename(folder / wanted)


def content_key(folder: Path, *more: str) -> str:
    """A digest of everything in a folder, by which a change is noticed."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in _files(folder):
        digest.update(f"\0{path.relative_to(folder)}\0".encode("utf-8", "surrogateescape"))
        if path.is_symlink():
            digest.update(str(path.readlink()).encode("utf-8", "surrogateescape"))
        elif path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
