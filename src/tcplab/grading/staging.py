"""Copies a submission for grading: plain files, under the names that the assignment gives them.

The submission itself is never changed. Links could lead anywhere, pipes block whoever opens them,
and captures of one's own fill the grader's disk: what is not copied is reported, and costs nothing
else. The assignment's own files come first, so that no limit is used up by others.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from tcplab.grading.neutral import one_line

MAX_FILE_BYTES: Final = 64 << 20
MAX_NOTEBOOK_BYTES: Final = 128 << 20
#: Of all files but the notebook: half of what the sandbox's folder holds.
MAX_FOLDER_BYTES: Final = 128 << 20
MAX_FILES: Final = 500
#: Entries of folders that are looked at; whoever hands in more than this is told.
MAX_SEEN: Final = 20_000
#: A path inside the submission: nbgrader's copies have a longer one, and Linux takes 4096 bytes.
MAX_PATH_BYTES: Final = 1000
#: Folders in one another: what walks through them calls itself for each.
MAX_DEPTH: Final = 100
#: When it was handed in, written by nbgrader's exchange.
_TIMESTAMP: Final = "timestamp.txt"
#: Made by Jupyter, Python and archivers beside the files: not part of a submission.
BY_PRODUCTS: Final = frozenset({".ipynb_checkpoints", "__pycache__", "__MACOSX"})
#: An ending that browsers, LMSs and desktops put behind a name: " (1)", "-1", "_2", " - Copy", "~".
_ENDING: Final = re.compile(r"(?:\(\d+\)|[ _.-]\d{1,3}|copy|kopie|copie|final|new|~|[ _.-])$")


@dataclass(frozen=True, slots=True)
class Expected:
    """The files of an assignment, as they are to be found in a submission."""

    notebook: str  #: its name, such as "small-writes.ipynb"
    files: Sequence[str] = ()  #: names of the other files that are judged
    released: Path | None = None  #: the folder that was handed out
    sources: Path | None = None  #: the instructor's folder of all assignments, with the solutions


@dataclass(slots=True)
class Staged:
    """The result of copying a submission."""

    repairs: list[str] = field(default_factory=list)  #: what was mended, "kind: detail"
    flags: list[str] = field(default_factory=list)  #: what looks like more than an accident


def stage(source: Path, target: Path, expected: Expected) -> Staged:
    """Copies a submission.

    Args:
        source: the folder that was handed in.
        target: where the copy goes; made anew.
        expected: the assignment's files.

    Returns:
        The repairs and flags.
    """
    staged = copy_files(source, target, expected)
    _name_notebook(target, expected.notebook, staged)
    for name in expected.files:
        _name_file(target, name, expected.released, staged)
    _check_timestamp(target, staged)
    return staged


def copy_files(
    source: Path, target: Path, expected: Expected, *, owner: int | None = None
) -> Staged:
    """Copies the plain files of a submission and changes no name, unless two would clash.

    Args:
        source: the folder that was handed in.
        target: where the copy goes; made anew.
        expected: the assignment's files.
        owner: the user whose files are taken, and no other's; None for everybody's.

    Returns:
        The repairs and flags.
    """
    staged = Staged()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    found = [_look(path, source, expected) for path in _files(source, staged)]
    _copy_all(sorted(found, key=lambda each: each.order), target, staged, expected, owner)
    return staged


def put_in_place(fresh: Path, target: Path) -> None:
    """Puts a folder in the place of another, of which nothing is left."""
    before, after = (target.with_name(f".{target.name}.{which}") for which in ("old", "new"))
    for left in (before, after):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(fresh, after)
    if target.exists():
        target.rename(before)
    after.rename(target)
    shutil.rmtree(before, ignore_errors=True)


# ---- finding -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    name: Path  # below the submission's folder
    size: int
    refusal: str | None  # a flag: why it is not taken over
    order: tuple[int, int, str]  # the assignment's own first, then the small ones


def _files(folder: Path, staged: Staged | None = None) -> Iterator[Path]:
    """Everything but folders and by-products, in order; links to folders are not followed."""

    def unreadable(error: OSError) -> None:
        if staged is not None:
            name = os.path.relpath(os.fsdecode(error.filename or "?"), folder)
            staged.flags.append(f"unreadable: {_quoted(name)} ({error.strerror})")

    def walk() -> Iterator[Path]:
        for directory, folders, names in os.walk(folder, onerror=unreadable):
            folders[:] = sorted(each for each in folders if each not in BY_PRODUCTS)
            if folders and len(Path(directory).relative_to(folder).parts) == MAX_DEPTH:
                unreadable(OSError(0, f"more than {MAX_DEPTH} folders in one another", directory))
                folders.clear()
            # Not Path.is_symlink(), which raises an error where a path is too long.
            links = [each for each in folders if os.path.islink(f"{directory}/{each}")]  # noqa: PTH114
            for name in sorted([*names, *links]):
                yield Path(directory) / name

    entries = walk()
    yield from islice(entries, MAX_SEEN)
    if staged is not None and next(entries, None) is not None:
        staged.flags.append(f"too-many-files: more than {MAX_SEEN}")


def _look(path: Path, folder: Path, expected: Expected) -> _Found:
    name = path.relative_to(folder)
    known = (expected.notebook, *expected.files)
    is_own = any(_is_named(name.name, each) for each in known) or _is_notebook(name)
    rank = (name.name not in known) + 2 * (not is_own) + (len(name.parts) > 1)
    try:
        about = path.lstat()
    except OSError as error:
        told = f"unreadable: {_quoted(name)} ({error.strerror})"
        return _Found(path, name, 0, told, (rank, 0, str(name)))
    refusal: str | None = None
    if stat.S_ISLNK(about.st_mode):
        refusal = f"link: {_quoted(name)}"
    elif not stat.S_ISREG(about.st_mode):
        refusal = f"no-plain-file: {_quoted(name)}"
    elif len(os.fsencode(name)) > MAX_PATH_BYTES:
        refusal = f"path-too-long: {_quoted(name)}"
    return _Found(path, name, about.st_size, refusal, (rank, about.st_size, str(name)))


def _quoted(name: object) -> str:
    return f"'{one_line(name, 80)}'"


def _is_notebook(name: Path) -> bool:
    return name.suffix.casefold() == ".ipynb"


def _is_named(found: str, wanted: str) -> bool:
    """Whether a file is what became of one of that name: "ada_records (1).C" of "records.c"."""
    found = _without_endings(found.casefold().removesuffix(".txt"))
    stem, suffix = Path(wanted).stem.casefold(), Path(wanted).suffix.casefold()
    found = _without_endings(found.removesuffix(suffix)) if found.endswith(suffix) else ""
    return found == stem or found.endswith(tuple(f"{sign}{stem}" for sign in " _.-"))


def _without_endings(name: str) -> str:
    while found := _ENDING.search(name):
        name = name[: found.start()]
    return name


# ---- copying -------------------------------------------------------------------------------------


_Inodes = set[tuple[int, int]]  # device and number


def _copy_all(
    found: Sequence[_Found], target: Path, staged: Staged, expected: Expected, owner: int | None
) -> None:
    taken, space, left_out = 0, MAX_FOLDER_BYTES, []
    secret = _inodes(expected.sources)
    for each in found:
        if each.refusal is not None:
            staged.flags.append(each.refusal)
            continue
        if taken == MAX_FILES:
            staged.flags.append(f"too-many-files: from {_quoted(each.name)} on")
            break
        most = MAX_NOTEBOOK_BYTES if _is_notebook(each.name) else min(MAX_FILE_BYTES, space)
        if each.size > most:
            left_out.append(each)
            continue
        try:
            _copy(each.path, _place(target, each.name, expected, staged), most, owner, secret)
        except OSError as error:
            staged.flags.append(f"unreadable: {_quoted(each.name)} ({error.strerror})")
            continue
        taken += 1
        space -= 0 if _is_notebook(each.name) else each.size
    if left_out:
        names = ", ".join(_quoted(each.name) for each in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        staged.repairs.append(
            f"left-out: {names}{more}, {sum(each.size for each in left_out) / 1e6:.0f} MB"
            f" (limits: {MAX_FILE_BYTES >> 20} MiB for a file, {MAX_FOLDER_BYTES >> 20} MiB in all)"
        )


def _copy(path: Path, target: Path, most: int, owner: int | None, secret: _Inodes) -> None:
    """Copies what is there now: the file may have become another since it was looked at.

    The owner is that of what was opened: neither a hard link nor a folder that has meanwhile become
    a link leads to the files of anybody else. Nor does a hard link lead to the instructor's where
    the submission is the instructor's, too; others are left by backups and archivers.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as source:  # noqa: PTH123
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "no plain file")
        if owner is not None and about.st_uid != owner:
            raise OSError(0, "somebody else's file")
        if (about.st_dev, about.st_ino) in secret:
            raise OSError(0, "a hard link to the instructor's file")
        with target.open("xb") as copy:
            while most > 0 and (data := source.read(min(1 << 20, most))):
                copy.write(data)
                most -= len(data)
    target.chmod(0o644)
    with suppress(OSError):  # of a time that the file system here cannot hold
        os.utime(target, ns=(about.st_mtime_ns, about.st_mtime_ns))


def _inodes(folder: Path | None) -> _Inodes:
    """By which a file of a folder is known under any name."""
    found = set()
    for path in folder.rglob("*") if folder else ():
        with suppress(OSError):  # an editor's, which is gone
            about = path.lstat()
            found.add((about.st_dev, about.st_ino))
    return found


def _place(target: Path, name: Path, expected: Expected, staged: Staged) -> Path:
    """Where a file goes: aside when a folder bears the name of a file that was handed out, or a
    file that of a folder. nbgrader would stumble over either."""
    parts, released = list(name.parts), expected.released
    files = {Path(each) for each in (_TIMESTAMP, expected.notebook, *expected.files)}
    for depth in range(1, len(parts)):
        above = Path(*parts[:depth])
        if above in files or (released is not None and (released / above).is_file()):
            parts[depth - 1] += "-folder"
            break
    else:
        if released is not None and (released / name).is_dir():
            parts[-1] += "-file"
    if tuple(parts) != name.parts:
        note = f"name-clash: {_quoted(name)}"
        if note not in staged.repairs:
            staged.repairs.append(note)
    return target.joinpath(*parts)


# ---- names ---------------------------------------------------------------------------------------


def _name_notebook(folder: Path, wanted: str, staged: Staged) -> None:
    """The assignment's notebook; "cork (1).ipynb" and "ada_cork.ipynb" are it too."""
    if (folder / wanted).is_file():
        return
    notebooks = [path for path in folder.rglob("*") if _is_notebook(path) and path.is_file()]
    found = sorted(notebooks, key=lambda path: (-path.stat().st_size, str(path)))
    stem = Path(wanted).stem.casefold()
    candidates = [path for path in found if stem in path.stem.casefold()] or found
    if not candidates:
        staged.repairs.append("no-notebook")
        (folder / wanted).write_bytes(b"")
        return
    _rename(candidates[0], folder, wanted, staged)


def _name_file(folder: Path, wanted: str, released: Path | None, staged: Staged) -> None:
    """A file that is judged under its name: "records (1).c" is what a browser makes of a second
    download, and the first is what was handed out."""
    path, handed_out = folder / wanted, released / wanted if released else None
    untouched = handed_out.read_bytes() if handed_out and handed_out.is_file() else None
    if path.is_file() and path.read_bytes() != untouched:
        return
    found = sorted(
        (
            each
            for each in folder.rglob("*")
            if each != path and each.is_file() and _is_named(each.name, wanted)
        ),
        key=lambda each: (len(each.parts), -each.stat().st_mtime_ns, str(each)),
    )
    written = [each for each in found if each.read_bytes() not in (untouched, b"")]
    if candidates := written or ([] if path.is_file() else found):
        path.unlink(missing_ok=True)
        _rename(candidates[0], folder, wanted, staged)


def _rename(found: Path, folder: Path, wanted: str, staged: Staged) -> None:
    staged.repairs.append(f"wrong-file-name: {_quoted(found.relative_to(folder))}")
    found.rename(folder / wanted)


def _check_timestamp(folder: Path, staged: Staged) -> None:
    """nbgrader reads when it was handed in from timestamp.txt, and stumbles over nonsense."""
    from nbgrader.utils import parse_utc

    path = folder / _TIMESTAMP
    if not path.is_file():
        return
    text = path.read_bytes()[:1000].decode(errors="replace").strip()
    try:
        is_time = 0 < len(text) < 100 and parse_utc(text) is not None
    except Exception:  # of the parser's, of many kinds
        is_time = False
    if not is_time:
        staged.repairs.append(f"broken-timestamp: {_quoted(text)}")
        path.unlink()


# ---- noticing a change ---------------------------------------------------------------------------


def content_key(folder: Path, *more: str) -> str:
    """A digest of everything in a folder, by which a change is noticed.

    Of what is too large to be taken over the size and the time of the last change count, of what
    cannot be read the reason.
    """
    digest = hashlib.sha256("\0".join(more).encode())
    space = MAX_FOLDER_BYTES + MAX_NOTEBOOK_BYTES
    for path in _files(folder):
        digest.update(f"\0{path.relative_to(folder)}\0".encode("utf-8", "surrogateescape"))
        try:
            about = path.lstat()
            if stat.S_ISLNK(about.st_mode):
                digest.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(about.st_mode):
                most = MAX_NOTEBOOK_BYTES if _is_notebook(path) else MAX_FILE_BYTES
                if about.st_size > min(most, space):
                    digest.update(f"{about.st_size} {about.st_mtime_ns}".encode())
                else:
                    space -= about.st_size
                    with path.open("rb") as file:
                        digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            digest.update(str(error.errno).encode())
    return digest.hexdigest()
