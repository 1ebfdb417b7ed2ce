"""Copy a submission's plain files for grading, under the names that the assignment uses.

Links could lead anywhere, opening a pipe could block, and large captures could fill the disk, so
such files are reported instead, at no cost to the student. The assignment's files come first, so
that other files cannot use up a limit.
"""

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
    r"(?:\(\d+\)|[ _.-]v?\d{1,3}|(?:copy|kopie|copie)\d*|final|new|fixed|solved|solution|~|[ _.-])$"
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
    for name in (expected.notebook, *expected.files):
        _name_file(target, name, expected.released, staged)
    if not (notebook := target / expected.notebook).is_file():
        staged.repairs.append("no-notebook")
        notebook.touch()
    _take_only_other(target, expected, staged)
    _check_timestamp(target, staged)
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


_Found = tuple[int, int, str, str]  # rank, size, path in the submission, and flag or ""


def _look(path: Path, folder: Path, expected: Expected) -> _Found:
    """Examine a file. The assignment's files have the first ranks, and a flag refuses a file."""
    name = path.relative_to(folder)
    known = (expected.notebook, *expected.files)
    is_own = any(_is_named(name.name, wanted) for wanted in known) or _is_notebook(name)
    rank = (name.name not in known) + 2 * (not is_own) + (len(name.parts) > 1)
    try:
        about = path.lstat()
    except OSError as error:
        return rank, 0, str(name), f"unreadable: {_quoted(name)} ({error.strerror})"
    kind = ""
    if stat.S_ISLNK(about.st_mode):
        kind = "link"
    elif not stat.S_ISREG(about.st_mode):
        kind = "no-plain-file"
    elif len(os.fsencode(name)) > MAX_PATH_BYTES:
        kind = "path-too-long"
    return rank, about.st_size, str(name), kind and f"{kind}: {_quoted(name)}"


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


def copy_files(
    source: Path, target: Path, expected: Expected, *, owner: int | None = None
) -> Staged:
    """Copy a submission's plain files, or only those of `owner`; return repairs and flags."""
    staged = Staged()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    taken, space = 0, MAX_FOLDER_BYTES
    left_out: list[tuple[int, str]] = []
    secret = _inodes(expected.sources)
    for _, size, path, flag in sorted(
        _look(path, source, expected) for path in _files(source, staged)
    ):
        name = Path(path)
        if flag:
            staged.flags.append(flag)
            continue
        if taken == MAX_FILES:
            staged.flags.append(f"too-many-files: {_quoted(name)} and all after it")
            break
        most = MAX_NOTEBOOK_BYTES if _is_notebook(name) else min(MAX_FILE_BYTES, space)
        if size > most:
            left_out.append((size, _quoted(name)))
            continue
        try:
            _copy(source / name, _place(target, name, expected, staged), most, owner, secret)
        except OSError as error:
            if is_of_machine(error):
                raise
            staged.flags.append(f"unreadable: {_quoted(name)} ({error.strerror})")
            continue
        taken += 1
        space -= 0 if _is_notebook(name) else size
    if left_out:
        names = ", ".join(name for _, name in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        staged.repairs.append(
            f"left-out: {names}{more}, {sum(size for size, _ in left_out) / 1e6:.0f} MB"
            f" (limits: {MAX_FILE_BYTES >> 20} MiB for a file, {MAX_FOLDER_BYTES >> 20} MiB in all)"
        )
    return staged


def _copy(path: Path, target: Path, most: int, owner: int | None, secret: _Inodes) -> None:
    """Copy a file safely, even if it has been replaced since it was examined.

    The owner is checked on the open file, so no link leads to another user's files. Hard links to
    the instructor's files are rejected too. Others are copied, because backups contain them.
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
    parts, released = list(name.parts), expected.released or Path(os.devnull)
    page = Path(expected.notebook).with_suffix(".html").name
    files = (_TIMESTAMP, expected.notebook, page, *expected.files)
    for depth in range(1, len(parts) + 1):
        above = str(Path(*parts[:depth]))
        if depth < len(parts):
            clashes, ending = above in files or (released / above).is_file(), "-folder"
        else:
            clashes, ending = above in ("captures", page) or (released / above).is_dir(), "-file"
        if clashes or _MADE_LATER.fullmatch(above):
            parts[depth - 1] += ending
            if (note := f"name-clash: {_quoted(name)}") not in staged.repairs:
                staged.repairs.append(note)
            break
    return target.joinpath(*parts)


# ---- names ---------------------------------------------------------------------------------------


def _name_file(folder: Path, wanted: str, released: Path | None, staged: Staged) -> None:
    """Rename a variant such as "records (1).c" to `wanted`, unless `wanted` itself was changed.

    Any notebook is taken if there is none of this name, the largest first.
    """
    path, handed_out = folder / wanted, released / wanted if released else None
    if _is_written(path, handed_out):
        return
    takes_any = _is_notebook(path) and not path.is_file()

    def rank(other: Path) -> tuple[bool, bool, float, float, str]:
        about = other.stat()
        place = -about.st_size if takes_any else len(other.parts)
        is_backup = other.name.endswith("~")  # an editor's, of an earlier text
        return is_backup, not _is_named(other.name, wanted), place, -about.st_mtime_ns, str(other)

    variants = [
        other
        for other in folder.rglob("*")
        if other != path
        and other.is_file()
        and (_is_named(other.name, wanted) or (takes_any and _is_notebook(other)))
    ]
    written = [variant for variant in variants if _is_written(variant, handed_out)]
    if candidates := written or ([] if path.is_file() else variants):
        path.unlink(missing_ok=True)
        _rename(min(candidates, key=rank), folder, wanted, staged)


def _is_written(path: Path, handed_out: Path | None) -> bool:
    """Return whether a file exists, is not blank, and differs from what was handed out."""
    text = path.read_bytes() if path.is_file() else b""
    is_same = handed_out and handed_out.is_file() and handed_out.read_bytes() == text
    return bool(text.strip()) and not is_same


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
        and _is_written(path, None)
    ]
    lacking = [
        name for name in expected.files if not _is_written(folder / name, expected.released / name)
    ]
    if len(others) == len(lacking) == 1:
        (folder / lacking[0]).unlink(missing_ok=True)
        _rename(others[0], folder, lacking[0], staged)
    elif others and lacking:
        names = ", ".join(_quoted(path.relative_to(folder)) for path in others[:3])
        staged.repairs.append(f"not-looked-at: {names}; {', '.join(lacking)} as handed out")


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
    with suppress(Exception):  # the parser raises many kinds of errors
        if 0 < len(text) < 100 and parse_utc(text) is not None:
            return
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
