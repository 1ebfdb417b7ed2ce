"""Turn an LMS's download into submissions, and give pages back (`tcplab collect`, `give-back`).

Each learner hands in one archive, LOGIN.zip. The LMS puts a prefix before that name or a folder
around the archive, and puts all archives into one archive or folder. The login comes from the
archive's name and never from its contents.
"""

import re
import shutil
import stat
import unicodedata
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from tcplab.errors import ParameterError, StepError
from tcplab.grading.archive import whole_file
from tcplab.grading.course import folder_of, load_assignment
from tcplab.grading.ledger import CLASS_FILE, keep_class, read_class
from tcplab.grading.neutral import one_line, same_for_people, unfit_id
from tcplab.grading.processes import StepLimits, apart, is_of_machine
from tcplab.grading.staging import (
    BY_PRODUCTS,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_NOTEBOOK_BYTES,
    content_key,
    put_in_place,
)
from tcplab.lab.scratch import temporary_folder

#: Maximum number of members of a learner's archive, and of bytes in all its members.
MAX_MEMBERS: Final = 5000
MAX_BYTES: Final = 256 << 20
#: Maximum number of bytes of a learner's archive within the LMS's archive.
MAX_ARCHIVE_BYTES: Final = 512 << 20
#: Maximum number of archives in one another, with that of the LMS.
MAX_IN_ONE_ANOTHER: Final = 4
_LIMITS: Final = StepLimits(wall_s=120, cpu_s=60, file_bytes=MAX_ARCHIVE_BYTES)

#: Canvas joins the learner's name, LATE for late work, two numbers and the name of the file.
_CANVAS: Final = re.compile(r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<number>\d+)_\d+_(?P<own>.+)")
#: Canvas adds a number to a file that is handed in again.
_HANDED_IN_AGAIN: Final = re.compile(r"(?P<login>.+)-\d+")
#: Moodle joins the learner's name, a number, the plugin's name and the file's name. If there
#: may be several files, it makes a folder of all but the last.
_MOODLE: Final = re.compile(
    r"(?:.*/)?(?P<name>[^/]+)_(?P<number>\d+)_assignsubmission_file_/?(?P<own>[^/]+)"
)
#: A number in parentheses, which browsers add to the name when a file is downloaded again.
_AGAIN: Final = re.compile(r" \(\d+\)$")
_FILE_MANAGERS: Final = ("/.DS_Store", "/Thumbs.db")


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive that a learner has handed in."""

    name: str  #: name that the LMS gave it, with its folder
    path: Path  #: file of the archive, or of the LMS's archive that contains it
    member: int | None = None  #: index of the archive in the LMS's archive, or None


@dataclass(frozen=True, slots=True)
class Submitter:
    """The learner who sent an archive, according to the archive's name."""

    login: str
    name: str = ""  #: name in the LMS, or "" if the LMS does not give it
    number: str = ""  #: number of the learner in the LMS, or ""
    is_late: bool = False  #: True if Canvas says so


@dataclass(slots=True)
class Collected:
    """The outcome of collecting submissions."""

    #: by login: "new", "unchanged", "replaced" or why the old submission was kept, and any notes
    done: dict[str, str] = field(default_factory=dict)
    senders: dict[str, Submitter] = field(default_factory=dict)  #: sender of each login in `done`
    refused: dict[str, str] = field(default_factory=dict)  #: reasons for rejections, by archive
    missing: list[str] = field(default_factory=list)  #: logins of the class without a submission


def collect(
    assignment: str,
    downloads: Sequence[Path],
    *,
    course: Path = Path(),
    replace: bool = False,
    students: Path | None = None,
    take: Sequence[str] = (),
) -> Collected:
    """Unpack the archives in the downloads (archives or folders) into submitted/LOGIN/ASSIGNMENT.

    With `replace`, submissions that were collected before are replaced if they differ. `students`
    is a file with the class (see tcplab.grading.ledger). Of several archives of one login, that
    whose name is in `take` counts.
    """
    course = course.resolve()
    _, folders, _ = load_assignment(course, assignment)
    collected = Collected()
    known = _known(folders)
    if listed := read_class(course) if students is None else keep_class(course, students):
        known = {login: known.get(login, "") for login in listed}
    wanted = _senders(_archives(downloads, collected), known, collected, take)
    for login in [login for login in wanted if listed and login not in listed]:
        archive = wanted.pop(login)[1]
        collected.refused[archive.name] = f"{login!r} is not in {CLASS_FILE}; add it if it is right"
    with temporary_folder(str(course / "reports" / assignment)) as scratch:
        for login, (sender, archive) in sorted(wanted.items()):
            target = folder_of(folders, "submitted", login, assignment)
            try:
                late = "; late" if sender.is_late else ""
                collected.done[login] = f"{_take(archive, target, Path(scratch), replace)}{late}"
                collected.senders[login] = sender
            except (StepError, OSError) as error:
                collected.refused[archive.name] = one_line(error)
    collected.missing = [
        login for login in listed if not folder_of(folders, "submitted", login, assignment).is_dir()
    ]
    return collected


def give_back(
    assignment: str, downloads: Sequence[Path], *, course: Path = Path(), take: Sequence[str] = ()
) -> tuple[Path, list[str], dict[str, str]]:
    """Pack the feedback pages under the names in the download, by which an LMS finds the learners.

    Return the path of reports/ASSIGNMENT/feedback.zip, the logins in it, and by login or archive
    why there is no page.
    """
    course = course.resolve()
    _, folders, _ = load_assignment(course, assignment)
    archives = _archives(downloads, ignored := Collected())
    if not (wanted := _senders(archives, _known(folders), ignored, take)):
        raise ParameterError("the download contains no learner's archive (LOGIN.zip)")
    target = course / "reports" / assignment / "feedback.zip"
    given: list[str] = []
    with whole_file(target) as fresh, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as packed:
        for login, (_, archive) in sorted(wanted.items()):
            page = folder_of(folders, "feedback", login, assignment) / f"{assignment}.html"
            if page.is_file():
                packed.write(page, PurePosixPath(archive.name).with_suffix(".html"))
                given.append(login)
    missing = dict.fromkeys(wanted.keys() - set(given), "no feedback page; grade it first")
    return target, given, missing | ignored.refused


# ---- finding -------------------------------------------------------------------------------------


def _archives(downloads: Sequence[Path], collected: Collected) -> Iterator[Archive]:
    for download in downloads:
        if not download.exists():
            raise ParameterError(f"{download}: no such file or folder")
        if download.is_dir():
            for path in sorted(path for path in download.rglob("*") if path.is_file()):
                yield Archive(str(path.relative_to(download)), path)
            continue
        try:
            members = apart(archive_members, str(download), limits=_LIMITS)
        except StepError as error:
            collected.refused[download.name] = str(error)
            continue
        yield from (Archive(name, download, number) for number, name in members)


def archive_members(path: str) -> list[tuple[int, str]]:
    """Return (index, name) of each file in the LMS's archive. Run this with apart()."""
    with _open(Path(path).open("rb")) as archive:
        return [
            (number, info.filename)
            for number, info in enumerate(archive.infolist())
            if not info.filename.endswith("/")
        ]


def sender_of(name: str, known: Collection[str] = ()) -> Submitter:
    """Parse the sender from an archive's name, or raise ParameterError if there is no valid login.

    The known logins distinguish "ada-1" from a second submission by "ada" on Canvas.
    """
    path = PurePosixPath(unicodedata.normalize("NFC", name))
    if path.suffix.casefold() != ".zip":
        raise ParameterError("is not an archive named LOGIN.zip")
    stem = _AGAIN.sub("", path.stem)
    match = _CANVAS.fullmatch(stem) or _MOODLE.fullmatch(str(path.parent / stem))
    login = _AGAIN.sub("", match["own"]) if match else stem
    again = _HANDED_IN_AGAIN.fullmatch(login)
    if match and again and login not in known and again["login"] in known:
        login = again["login"]
    if reason := unfit_id(login):
        raise ParameterError(f"its login {reason}")
    if match is None:
        return Submitter(login)
    is_late = bool(match.groupdict().get("late"))
    return Submitter(login, match["name"], match["number"], is_late)


def _senders(
    archives: Iterator[Archive],
    known: Mapping[str, str],
    collected: Collected,
    take: Sequence[str] = (),
) -> dict[str, tuple[Submitter, Archive]]:
    """Return each login's sender and archive. Two are both rejected; one may be someone else's."""
    by_login: dict[str, list[tuple[Submitter, Archive]]] = {}
    known_alike = {same_for_people(login): login for login in known}
    for archive in archives:
        try:
            sender = sender_of(archive.name, known)
        except ParameterError as error:
            collected.refused[archive.name] = str(error)
            continue
        alike = same_for_people(sender.login)
        if sender.login not in known and (other := known_alike.get(alike)):
            collected.refused[archive.name] = f"its login differs from {other!r} by case only"
            continue
        number = known.get(sender.login)
        if number and sender.number and number != sender.number:
            collected.refused[archive.name] = (
                f"belongs to the LMS's user {sender.number}, but {sender.login} is user {number}"
            )
            continue
        by_login.setdefault(alike, []).append((sender, archive))
    for alike, several in by_login.items():
        if len(chosen := [one for one in several if one[1].name in take]) == 1:
            by_login[alike] = chosen
        elif len(several) > 1:
            names = " and ".join(repr(one_line(archive.name)) for _, archive in several)
            for sender, archive in several:
                collected.refused[archive.name] = (
                    f"is one of several archives of {sender.login}: {names}; --take NAME takes one"
                )
    return {group[0][0].login: group[0] for group in by_login.values() if len(group) == 1}


def _known(folders: Any) -> dict[str, str]:
    """Return the LMS numbers (or "") of all who handed in or are in the gradebook, by login."""
    from nbgrader.api import Gradebook

    submitted = folder_of(folders, "submitted")
    known = {folder.name: "" for folder in submitted.iterdir()} if submitted.is_dir() else {}
    if folders.db_url.startswith("sqlite:///"):
        path = folders.db_url.removeprefix("sqlite:///")
        if not Path(path).is_file():
            return known
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        return known | {
            student.id: str(student.lms_user_id or "") for student in gradebook.students
        }


# ---- unpacking -----------------------------------------------------------------------------------


def _take(archive: Archive, target: Path, scratch: Path, replace: bool) -> str:
    """Put an archive's submission in its place, unless another one is there; return the outcome."""
    fresh = scratch / "unpacked"
    shutil.rmtree(fresh, ignore_errors=True)
    notes = apart(unpack, str(archive.path), str(fresh), archive.member, limits=_LIMITS)
    done = "replaced" if target.exists() else "new"
    if target.exists() and content_key(fresh) == content_key(target):
        done = "unchanged"
    elif target.exists() and not replace:
        done = "kept: an earlier submission differs (--replace takes this one)"
    else:
        put_in_place(fresh, target)
    return "; ".join([done, *notes])


def unpack(path: str, target: str, member: int | None = None) -> list[str]:
    """Unpack a learner's archive, without its outermost folders. Run this with apart().

    The archive may be a member of another, and may hold only one that has the files. Return notes
    on files that were left out.
    """
    at = Path(path)
    for depth in range(MAX_IN_ONE_ANOTHER):
        with _open(at.open("rb")) as archive:
            info = archive.infolist()[member] if member is not None else _only_archive(archive)
            if info is None:
                return _unpack(archive, Path(target))
            if info.file_size > MAX_ARCHIVE_BYTES:
                raise StepError(f"has {info.file_size} bytes, more than {MAX_ARCHIVE_BYTES}")
            at, member = Path(f"{target}-{depth}.zip"), None
            at.unlink(missing_ok=True)  # of the archive before, which may have been rejected
            _extract(archive, info, at)
    raise StepError("has archives in one another, and no file")


def _only_archive(archive: zipfile.ZipFile) -> zipfile.ZipInfo | None:
    """Return the archive's only file if that is an archive, too."""
    files = list(_files(archive, []).items())
    only = files[0] if len(files) == 1 else None
    return only[1] if only and only[0][-1].casefold().endswith(".zip") else None


def _unpack(archive: zipfile.ZipFile, target: Path) -> list[str]:
    notes: list[str] = []
    files = _files(archive, notes)
    if not files:
        raise StepError("contains no file")
    while len({parts[0] for parts in files}) == 1 and all(len(parts) > 1 for parts in files):
        files = {parts[1:]: info for parts, info in files.items()}
    space, taken = MAX_BYTES, 0
    for parts, info in files.items():
        shown = f"'{one_line('/'.join(parts), 80)}'"
        is_notebook = parts[-1].casefold().endswith(".ipynb")
        most = min(space, MAX_NOTEBOOK_BYTES if is_notebook else MAX_FILE_BYTES)
        if info.file_size > most:
            notes.append(f"left out: {shown}, {info.file_size / 1e6:.0f} MB")
            continue
        try:
            _extract(archive, info, target.joinpath(*parts))
            space -= info.file_size
            taken += 1
        except Exception as error:  # zipfile and its decoders raise many kinds of errors
            if is_of_machine(error) or isinstance(error, PermissionError):
                raise StepError(f"could not be unpacked here ({one_line(error)})") from None
            notes.append(f"left out: {shown} ({one_line(error, 80)})")
    if not taken:
        raise StepError("; ".join(notes))
    return notes


@contextmanager
def _open(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        with file, zipfile.ZipFile(file) as archive:
            yield archive
    except StepError:
        raise
    except Exception as error:  # zipfile and its decoders raise many kinds of errors
        if is_of_machine(error):
            raise StepError(f"could not be read here ({one_line(error)})") from None
        raise StepError(f"is not a readable zip archive ({one_line(error)})") from None


def _files(archive: zipfile.ZipFile, notes: list[str]) -> dict[tuple[str, ...], zipfile.ZipInfo]:
    """Return the archive's member for each of the learner's files, by the parts of its path."""
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise StepError(f"has {len(members)} members, more than {MAX_MEMBERS}")
    files: dict[tuple[str, ...], zipfile.ZipInfo] = {}
    for info in members:
        name = info.filename.replace("\\", "/")
        parts = PurePosixPath(name).parts
        shown = f"'{one_line(name, 80)}'"
        if name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name):
            raise StepError(f"has a member outside its folder: {shown}")
        if info.flag_bits & 1:
            raise StepError("needs a password")
        by_product = BY_PRODUCTS.intersection(parts[:-1]) or f"/{name}".endswith(_FILE_MANAGERS)
        if name.endswith("/") or by_product:
            continue
        if not 0 < len(parts) <= MAX_DEPTH:
            notes.append(f"left out: {shown} has no name, or is in too many folders")
        elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            notes.append(f"left out: {shown} is a link, or no plain file")
        else:
            if parts in files:
                notes.append(f"twice: {shown}; the second is taken")
            files[parts] = info
    return files


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    """Write a member to a file, which gets no more bytes than the archive declares."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with archive.open(info) as member, target.open("xb") as file:
            shutil.copyfileobj(member, file)
    except Exception:
        target.unlink(missing_ok=True)
        raise
