"""Test the archive that holds an assignment's captures."""

import shutil
import zipfile
from pathlib import Path

import pytest
from tests.support.grading.sets import EXAMPLE, captures_in
from tests.support.paths import ROOT

from tcplab.errors import ParameterError
from tcplab.grading import open_assignment
from tcplab.grading.archive import (
    ARCHIVE_FILE,
    Stored,
    named_in,
    read_archive,
    take_out,
    write_archive,
)

MEMBERS = {
    "captures/10.pcapng": b"ten",
    "captures/2.pcapng": b"two",
    "captures/2.log": b"1 write 3",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_archive(tmp_path, MEMBERS)
    return tmp_path


def test_equal_captures_do_not_rewrite_the_archive(folder: Path) -> None:
    before = (folder / ARCHIVE_FILE).stat().st_ino
    write_archive(folder, dict(reversed(MEMBERS.items())))
    assert (folder / ARCHIVE_FILE).stat().st_ino == before
    assert read_archive(folder) == MEMBERS
    assert [capture.name for capture in captures_in(folder)] == [
        "captures/2.pcapng",
        "captures/10.pcapng",
    ]
    with zipfile.ZipFile(folder / ARCHIVE_FILE) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_DEFLATED}
    assert [path.name for path in folder.iterdir()] == [ARCHIVE_FILE]
    write_archive(folder, {**MEMBERS, "captures/2.pcapng": b"too"})
    assert read_archive(folder)["captures/2.pcapng"] == b"too"


def test_a_capture_comes_with_its_log(folder: Path) -> None:
    take_out(folder, ["captures/2.pcapng"], folder)
    assert {path.name for path in (folder / "captures").iterdir()} == {"2.pcapng", "2.log"}
    assert Stored(folder, "captures/2.pcapng").log() == "1 write 3"


def test_opening_a_set_extracts_the_students_captures(tmp_path: Path) -> None:
    folder = shutil.copytree(
        ROOT / "exercises" / EXAMPLE, tmp_path / "set", ignore=shutil.ignore_patterns("captures")
    )
    own = named_in(open_assignment(EXAMPLE, "ada", folder).numbers)
    captures = {str(path.relative_to(folder)) for path in folder.glob("captures/*.pcapng")}
    assert captures == set(own)
    path = folder / own[0]
    expected = path.read_bytes()
    assert expected == read_archive(folder)[own[0]]
    # If the course has drawn new captures, only they count, not those extracted earlier.
    path.write_bytes(b"of last year")
    open_assignment(EXAMPLE, "ada", folder)
    assert path.read_bytes() == expected
    # An unchanged file is left alone, because an editor or Wireshark may have it open.
    before = path.stat().st_mtime_ns
    open_assignment(EXAMPLE, "ada", folder)
    assert path.stat().st_mtime_ns == before


def test_an_archive_that_cannot_be_used_is_named(folder: Path) -> None:
    with pytest.raises(ParameterError, match=r"captures\.zip lacks captures/3.*another id"):
        read_archive(folder, ["captures/3.pcapng"])
    with pytest.raises(ParameterError, match=r"no item named 'captures/10\.log'"):
        Stored(folder, "captures/10.pcapng").log()
    (folder / "captures").write_text("a file in the way")
    with pytest.raises(
        ParameterError, match=r"captures/2\.\w+ cannot be written .*copy the folder"
    ):
        take_out(folder, ["captures/2.pcapng"], folder)
    data = bytearray((folder / ARCHIVE_FILE).read_bytes())
    data[data.index(b"captures/2.pcapng") + len("captures/2.pcapng") + 2] ^= 0xFF
    (folder / ARCHIVE_FILE).write_bytes(data)
    with pytest.raises(ParameterError, match=r"captures\.zip cannot be read \((Bad CRC|Error -3)"):
        read_archive(folder)
    (folder / ARCHIVE_FILE).write_bytes(b"<html>Please log in</html>")
    with pytest.raises(ParameterError, match=r"cannot be read \(File is not a zip file\)"):
        captures_in(folder)
    (folder / ARCHIVE_FILE).unlink()
    with pytest.raises(ParameterError, match=r"\(No such file or directory\); take it again"):
        captures_in(folder)
