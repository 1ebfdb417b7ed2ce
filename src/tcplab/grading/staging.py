"""Copy a submission's plain files for grading, under the names that the assignment uses.

The submission itself is never changed. Links could lead anywhere, opening a pipe could block, and
large captures could fill the grader's disk, so such files are not copied. They are reported, at no
cost to the student. The assignment's files come first, so that other files cannot use up a limit.
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
from tcplab.grading.processes import is_of_machine

MAX_FILE_BYTES: Final = 64 << 20
MAX_NOTEBOOK_BYTES: Final = 128 << 20
#: Maximum total size of all files except notebooks. It is half the limit on the sandbox's folder.
MAX_FOLDER_BYTES: Final = 128 << 20
MAX_FILES: Final = 500
#: Maximum number of files and links that are examined. A submission with more is flagged.
MAX_SEEN: Final = 20_000
#: Maximum length of a path in a submission. It leaves room for the longer paths of nbgrader's
#: copies, because Linux allows 4096 bytes.
MAX_PATH_BYTES: Final = 1000
#: Maximum depth of nested folders, because some functions that walk them are recursive.
MAX_DEPTH: Final = 100
#: The file in which nbgrader's exchange records the time of submission.
_TIMESTAMP: Final = "timestamp.txt"
#: Folders that Jupyter, Python and archivers create, which are not part of a submission.
BY_PRODUCTS: Final = frozenset({".ipynb_checkpoints", "__pycache__", "__MACOSX"})
#: A suffix that programs and people add to a name, such as " (1)", "_v2", " - Copy", "final", "~".
_ENDING: Final = re.compile(
    r"(?:\(\d+\)|[ _.-]v?\d{1,3}|copy|kopie|copie|final|new|fixed|solved|solution|~|[ _.-])$"
)
#: Files that grading makes in the copy: parts of the page, and captures from the archive.
_MADE_LATER: Final = re.compile(r"cell-\d+\.json|captures/\d+\.(?:pcapng|log)")
#: The suffixes that people give to a C program. The last one of several counts, as in "a.c.c".
_C_SUFFIXES: Final = (".c", ".cc", ".cpp", ".cxx", ".c++")


@dataclass(frozen=True, slots=True)
class Expected:
    """The files that a submission should contain, and the assignment's own folders."""

    notebook: str  #: name of the notebook, such as "small-writes.ipynb"
    files: Sequence[str] = ()  #: names of the other files that are judged
    released: Path | None = None  #: the released folder, or None
    sources: Path | None = None  #: the instructor's folder of all assignments, or None


@dataclass(slots=True)
class Staged:
    """The notes that were taken while a submission was copied."""

    repairs: list[str] = field(default_factory=list)  #: damage that was repaired, as "kind: detail"
    flags: list[str] = field(default_factory=list)  #: changes that look deliberate


def stage(source: Path, target: Path, expected: Expected) -> Staged:
    """Copy a submission into a new folder under the assignment's names."""
    staged = copy_files(source, target, expected)
    _name_notebook(target, expected.notebook, staged)
    for name in expected.files:
        _name_file(target, name, expected.released, staged)
    _take_only_other(target, expected, staged)
    _check_timestamp(target, staged)
    return staged


def copy_files(
    source: Path, target: Path, expected: Expected, *, owner: int | None = None
) -> Staged:
    """Copy a submission's plain files, or only those of `owner`; return repairs and flags."""
    staged = Staged()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    entries = [_look(path, source, expected) for path in _files(source, staged)]
    _copy_all(sorted(entries, key=lambda entry: entry.order), target, staged, expected, owner)
    return staged


def put_in_place(fresh: Path, target: Path) -> None:
    """Replace `target` with `fresh`."""
    before, after = (target.with_name(f".{target.name}.{which}") for which in ("old", "new"))
    for left in (before, after):  # left by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.move(fresh, after)
        if target.exists():
            target.rename(before)
        after.rename(target)
    except OSError:
        if before.exists():
            before.rename(target)
        raise
    finally:
        for left in (before, after):
            shutil.rmtree(left, ignore_errors=True)


# ---- finding -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    name: Path  # relative to the folder of the submission
    size: int
    refusal: str | None  # the flag of a file that is not copied, or None
    order: tuple[int, int, str]  # sort key: the assignment's files first, then by size


def _files(folder: Path, staged: Staged | None = None) -> Iterator[Path]:
    """Yield at most MAX_SEEN files and links, except by-products, without following links."""

    def unreadable(error: OSError) -> None:
        if staged is not None:
            name = os.path.relpath(os.fsdecode(error.filename or "?"), folder)
            staged.flags.append(f"unreadable: {_quoted(name)} ({error.strerror})")

    def walk() -> Iterator[Path]:
        for directory, folders, names in os.walk(folder, onerror=unreadable):
            folders[:] = sorted(folder for folder in folders if folder not in BY_PRODUCTS)
            if folders and len(Path(directory).relative_to(folder).parts) == MAX_DEPTH:
                unreadable(OSError(0, f"more than {MAX_DEPTH} folders in one another", directory))
                folders.clear()
            # Path.is_symlink() would raise an error for a path that is too long.
            links = [folder for folder in folders if os.path.islink(f"{directory}/{folder}")]  # noqa: PTH114
            for name in sorted([*names, *links]):
                yield Path(directory) / name

    entries = walk()
    yield from islice(entries, MAX_SEEN)
    if staged is not None and next(entries, None) is not None:
        staged.flags.append(f"too-many-files: more than {MAX_SEEN}")


def _look(path: Path, folder: Path, expected: Expected) -> _Candidate:
    name = path.relative_to(folder)
    known = (expected.notebook, *expected.files)
    is_own = any(_is_named(name.name, wanted) for wanted in known) or _is_notebook(name)
    rank = (name.name not in known) + 2 * (not is_own) + (len(name.parts) > 1)
    try:
        about = path.lstat()
    except OSError as error:
        flag = f"unreadable: {_quoted(name)} ({error.strerror})"
        return _Candidate(path, name, 0, flag, (rank, 0, str(name)))
    refusal: str | None = None
    if stat.S_ISLNK(about.st_mode):
        refusal = f"link: {_quoted(name)}"
    elif not stat.S_ISREG(about.st_mode):
        refusal = f"no-plain-file: {_quoted(name)}"
    elif len(os.fsencode(name)) > MAX_PATH_BYTES:
        refusal = f"path-too-long: {_quoted(name)}"
    return _Candidate(path, name, about.st_size, refusal, (rank, about.st_size, str(name)))


def _quoted(name: object) -> str:
    return f"'{one_line(name, 80)}'"


def _is_notebook(name: Path) -> bool:
    return name.suffix.casefold() == ".ipynb"


def _is_named(name: str, wanted: str) -> bool:
    """Return whether a name is a variant of `wanted`, as "ada_records (1).C" is of "records.c"."""
    name = _without_endings(name.casefold().removesuffix(".txt"))
    stem, suffix = Path(wanted).stem.casefold(), Path(wanted).suffix.casefold()
    suffixes = _C_SUFFIXES if suffix == ".c" else (suffix,)
    if not name.endswith(suffixes):
        return False
    while name.endswith(suffixes):
        name = _without_endings(name.rpartition(".")[0])
    return name == stem or name.endswith(tuple(f"{sign}{stem}" for sign in " _.-"))


def _without_endings(name: str) -> str:
    while ending := _ENDING.search(name):
        name = name[: ending.start()]
    return name


# ---- copying -------------------------------------------------------------------------------------


_Inodes = set[tuple[int, int]]  # device and inode number of each file


def _copy_all(
    files: Sequence[_Candidate], target: Path, staged: Staged, expected: Expected, owner: int | None
) -> None:
    taken, space, left_out = 0, MAX_FOLDER_BYTES, []
    secret = _inodes(expected.sources)
    for file in files:
        if file.refusal is not None:
            staged.flags.append(file.refusal)
            continue
        if taken == MAX_FILES:
            staged.flags.append(f"too-many-files: {_quoted(file.name)} and all after it")
            break
        most = MAX_NOTEBOOK_BYTES if _is_notebook(file.name) else min(MAX_FILE_BYTES, space)
        if file.size > most:
            left_out.append(file)
            continue
        try:
            _copy(file.path, _place(target, file.name, expected, staged), most, owner, secret)
        except OSError as error:
            if is_of_machine(error):
                raise
            staged.flags.append(f"unreadable: {_quoted(file.name)} ({error.strerror})")
            continue
        taken += 1
        space -= 0 if _is_notebook(file.name) else file.size
    if left_out:
        names = ", ".join(_quoted(file.name) for file in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        staged.repairs.append(
            f"left-out: {names}{more}, {sum(file.size for file in left_out) / 1e6:.0f} MB"
            f" (limits: {MAX_FILE_BYTES >> 20} MiB for a file, {MAX_FOLDER_BYTES >> 20} MiB in all)"
        )


def _copy(path: Path, target: Path, most: int, owner: int | None, secret: _Inodes) -> None:
    """Copy a file safely, even if it has been replaced since it was examined.

    The owner is checked on the open file, so no hard link and no link to a folder leads to another
    user's files. Hard links to the instructor's files are rejected too. Other hard links are
    copied, because backups contain them.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as source:  # noqa: PTH123
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "no plain file")
        if owner is not None and about.st_uid != owner:
            raise OSError(0, "another user's file")
        if (about.st_dev, about.st_ino) in secret:
            raise OSError(0, "a hard link to the instructor's file")
        with target.open("xb") as copy:
            while most > 0 and (data := source.read(min(1 << 20, most))):
                copy.write(data)
                most -= len(data)
    target.chmod(0o644)
    with suppress(OSError):  # the file system may not be able to store the time
        os.utime(target, ns=(about.st_mtime_ns, about.st_mtime_ns))


def _inodes(folder: Path | None) -> _Inodes:
    """Return device and inode number of each file in a folder, which its hard links share."""
    numbers = set()
    for path in folder.rglob("*") if folder else ():
        with suppress(OSError):  # a temporary file of an editor may already be gone
            about = path.lstat()
            numbers.add((about.st_dev, about.st_ino))
    return numbers


def _place(target: Path, name: Path, expected: Expected, staged: Staged) -> Path:
    """Return the path for the copy of a file.

    nbgrader fails if a folder has the name of a released file, or a file that of a released folder.
    The page and its parts need their names, and the notebook unpacks captures into a folder. A
    folder or file with such a name is renamed.
    """
    parts, released = list(name.parts), expected.released
    page = Path(expected.notebook).with_suffix(".html").name
    files = {Path(name) for name in (_TIMESTAMP, expected.notebook, page, *expected.files)}
    for depth in range(1, len(parts)):
        above = Path(*parts[:depth])
        is_file = above in files or _MADE_LATER.fullmatch(str(above)) is not None
        if is_file or (released is not None and (released / above).is_file()):
            parts[depth - 1] += "-folder"
            break
    else:
        is_made = str(name) in ("captures", page) or _MADE_LATER.fullmatch(str(name)) is not None
        if is_made or (released is not None and (released / name).is_dir()):
            parts[-1] += "-file"
    if tuple(parts) != name.parts:
        note = f"name-clash: {_quoted(name)}"
        if note not in staged.repairs:
            staged.repairs.append(note)
    return target.joinpath(*parts)


# ---- names ---------------------------------------------------------------------------------------


def _name_notebook(folder: Path, wanted: str, staged: Staged) -> None:
    """Rename the notebook, such as "cork (1).ipynb", or create an empty file if it is missing."""
    if (folder / wanted).is_file():
        return
    notebooks = [path for path in folder.rglob("*") if _is_notebook(path) and path.is_file()]
    by_size = sorted(notebooks, key=lambda path: (-path.stat().st_size, str(path)))
    stem = Path(wanted).stem.casefold()
    candidates = [path for path in by_size if stem in path.stem.casefold()] or by_size
    if not candidates:
        staged.repairs.append("no-notebook")
        (folder / wanted).write_bytes(b"")
        return
    _rename(candidates[0], folder, wanted, staged)


def _name_file(folder: Path, wanted: str, released: Path | None, staged: Staged) -> None:
    """Rename a variant such as "records (1).c" to `wanted`, unless `wanted` itself was changed."""
    path, handed_out = folder / wanted, released / wanted if released else None
    untouched = handed_out.read_bytes() if handed_out and handed_out.is_file() else None
    if path.is_file() and path.read_bytes() != untouched:
        return
    variants = sorted(
        (
            other
            for other in folder.rglob("*")
            if other != path and other.is_file() and _is_named(other.name, wanted)
        ),
        key=lambda other: (len(other.parts), -other.stat().st_mtime_ns, str(other)),
    )
    written = [variant for variant in variants if variant.read_bytes() not in (untouched, b"")]
    if candidates := written or ([] if path.is_file() else variants):
        path.unlink(missing_ok=True)
        _rename(candidates[0], folder, wanted, staged)


def _take_only_other(folder: Path, expected: Expected, staged: Staged) -> None:
    """Take the only C file with another name for the only one not changed, or mention it."""
    if expected.released is None:
        return
    others = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name.casefold().endswith(_C_SUFFIXES)
        and not any(_is_named(path.name, name) for name in expected.files)
        and not (expected.released / path.relative_to(folder)).is_file()
        and path.read_bytes().strip()
    ]
    lacking = [
        name
        for name in expected.files
        if not (path := folder / name).is_file()
        or not path.read_bytes()
        or same_file(path, expected.released / name)
    ]
    if len(others) == len(lacking) == 1:
        (folder / lacking[0]).unlink(missing_ok=True)
        _rename(others[0], folder, lacking[0], staged)
    elif others and lacking:
        names = ", ".join(_quoted(path.relative_to(folder)) for path in others[:3])
        staged.repairs.append(f"not-looked-at: {names}; {', '.join(lacking)} as handed out")


def same_file(path: Path, other: Path) -> bool:
    """Return whether two files exist and have the same content."""
    return path.is_file() and other.is_file() and path.read_bytes() == other.read_bytes()


def _rename(path: Path, folder: Path, wanted: str, staged: Staged) -> None:
    staged.repairs.append(f"wrong-file-name: {_quoted(path.relative_to(folder))}")
    path.rename(folder / wanted)


def _check_timestamp(folder: Path, staged: Staged) -> None:
    """Remove timestamp.txt if nbgrader could not parse the time in it."""
    from nbgrader.utils import parse_utc

    path = folder / _TIMESTAMP
    if not path.is_file():
        return
    text = path.read_bytes()[:1000].decode(errors="replace").strip()
    try:
        is_time = 0 < len(text) < 100 and parse_utc(text) is not None
    except Exception:  # the parser raises many kinds of errors
        is_time = False
    if not is_time:
        staged.repairs.append(f"broken-timestamp: {_quoted(text)}")
        path.unlink()


# ---- noticing a change ---------------------------------------------------------------------------


def content_key(folder: Path, *more: str) -> str:
    """Return a digest of the files and links in a folder, except by-products, and of `more`.

    A file that is too large is represented by its size and time, and a file that cannot be read by
    the error.
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
