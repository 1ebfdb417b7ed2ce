"""Read and write `captures.zip`, the archive of an assignment's captures.

A student's numbers name members such as `captures/17.pcapng`. `captures/17.log` lists the calls of
the recorded program. An archive is rewritten only if a member has changed, since another
version of zlib may compress it to other bytes. A damaged archive raises ParameterError.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcplab.errors import ParameterError
from tcplab.segments.pcap import PacketTable, packets_in

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

ARCHIVE_FILE: Final = "captures.zip"
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE: Final = 0o100644 << 16
_MADE_ON_UNIX: Final = 3
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which becomes `path` at the end, or nothing after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")  # one that a killed process left is overwritten
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all, even if the process is killed."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Stored:
    """A capture in an assignment's archive."""

    folder: Path  #: the assignment's folder
    name: str  #: name of the member, such as "captures/17.pcapng"

    def __str__(self) -> str:
        return f"{self.folder / ARCHIVE_FILE}: {self.name}"

    def packets(self) -> PacketTable:
        """Return the packets of the capture, or raise CaptureError if it is damaged."""
        return packets_in(self._read(self.name), str(self))

    def segments(self) -> SegmentArray:
        """Return the segments of the capture, or raise CaptureError if it is damaged."""
        from tcplab.segments import from_packets

        return from_packets(self.packets())

    def log(self) -> str:
        """Return the text of the log that belongs to the capture."""
        return self._read(str(Path(self.name).with_suffix(".log"))).decode()

    def _read(self, name: str) -> bytes:
        with _opened(self.folder) as archive:
            try:
                return archive.read(name)
            except (KeyError, *_DAMAGED) as error:
                raise _unusable(self.folder, error) from None


def named_in(numbers: Mapping[str, Any]) -> list[str]:
    """Return the names of the captures in a student's numbers, such as "captures/17.pcapng"."""
    return [*numbers.get("captures", ()), *([numbers["capture"]] if "capture" in numbers else ())]


def read_archive(folder: Path, captures: Collection[str] | None = None) -> dict[str, bytes]:
    """Map the names of these captures and their logs, or of all members, to their contents."""
    with _opened(folder) as archive:
        names = archive.namelist()
        if captures is not None:
            if missing := sorted(set(captures) - set(names)):
                raise ParameterError(
                    f"{folder / ARCHIVE_FILE} lacks {missing[0]}; if it was made for another id"
                    " than your login, write that id into the first cell, as student"
                )
            names = [name for name in names if f"{name.rpartition('.')[0]}.pcapng" in captures]
        try:
            return {name: archive.read(name) for name in names}
        except _DAMAGED as error:
            raise _unusable(folder, error) from None


def write_archive(folder: Path, members: Mapping[str, bytes]) -> None:
    """Write an assignment's archive, unless it exists with the same members."""
    path = folder / ARCHIVE_FILE
    with contextlib.suppress(ParameterError):  # there is none, or it is damaged
        if read_archive(folder) == members:
            return
    with whole_file(path) as fresh, zipfile.ZipFile(fresh, "w") as archive:
        for name in sorted(members, key=lambda name: (len(name), name)):
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.external_attr, entry.create_system = _PLAIN_FILE, _MADE_ON_UNIX
            archive.writestr(entry, members[name], zipfile.ZIP_DEFLATED)


def take_out(folder: Path, captures: Collection[str], into: Path) -> None:
    """Copy captures with their logs into a folder, replacing files that differ from them."""
    for name, data in read_archive(folder, captures).items():
        path = into / name
        try:
            if not path.is_file() or path.read_bytes() != data:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
        except OSError as error:
            raise ParameterError(
                f"{path} cannot be written ({error.strerror}); copy the folder {into.resolve()} to"
                " a place where you can write, and work there"
            ) from None


def _opened(folder: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(folder / ARCHIVE_FILE)
    except (OSError, zipfile.BadZipFile) as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, why: object) -> ParameterError:
    why = getattr(why, "strerror", None) or why
    return ParameterError(
        f"{folder / ARCHIVE_FILE} cannot be read ({why}); take it again from what was handed out"
    )
