"""Test `tcplab collect`: archive names give logins, and a bad archive affects only its owner."""

import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.grading.collect import Collected, collect

FILES = {"tiny.ipynb": b"{}", "total.c": b"int x;"}


def packed(files: Mapping[Any, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive of these files, by their names or zipfile's ZipInfo."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def with_mode(mode: int, name: str) -> bytes:
    """Return an archive of FILES and of a member that has this mode."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return packed({**FILES, info: b"../../../solutions"})


def with_a_password() -> bytes:
    data = bytearray(packed(FILES))
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(magic)
        while start >= 0:
            data[start + at] |= 1
            start = data.find(magic, start + 4)
    return bytes(data)


def damaged() -> bytes:
    """Return an archive with a member whose bytes differ from those that were packed."""
    return packed(FILES, zipfile.ZIP_STORED).replace(b"int x;", b"int y;", 1)


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return packed({zipfile.ZipInfo("total.c"): b"int old;", **FILES})


def bomb() -> bytes:
    return packed({**FILES, **{f"{n}.bin": bytes(6 << 20) for n in range(6)}})


def lying_bomb() -> bytes:
    """Return an archive whose member claims 10 bytes but holds 20 MB."""
    data = bytearray(packed({"tiny.ipynb": bytes(20_000_000)}))
    size = struct.pack("<I", 20_000_000)
    return bytes(data.replace(size, struct.pack("<I", 10)))


def lms(tmp_path: Path, archives: Mapping[str, bytes]) -> Path:
    """Pack the learners' archives into one, as the LMS does; return its path."""
    path = tmp_path / "submissions.zip"
    path.write_bytes(packed(archives, zipfile.ZIP_STORED))
    return path


def submitted(course: Path) -> set[str]:
    folder = course / "submitted"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def of(*logins: str) -> set[str]:
    return {f"{login}/tiny/{name}" for login in logins for name in FILES}


def test_archives_of_canvas_and_moodle_become_submissions(course: Path, tmp_path: Path) -> None:
    """Use the file names of both systems; learners pack files, folders or an archive."""

    def with_folder(folder: str) -> bytes:
        own = {f"{folder}{name}": data for name, data in FILES.items()}
        return packed({**own, "__MACOSX/tiny/._tiny.ipynb": b"\0", ".DS_Store": b"\0"})

    archives = {
        "lovelaceada_1815_9001_ada.zip": with_folder(""),
        "hopperbob_LATE_77_78_bob.zip": with_folder("tiny/"),
        "Carla C_123_assignsubmission_file_/carla.zip": with_folder("carla/tiny/"),
        "Dan D_124_assignsubmission_file_dan.zip": with_folder("some\\folder\\"),
        "eve.zip": packed({"eve/tiny.zip": packed({"eve.zip": with_folder("eve/")})}),
    }
    first = collect("tiny", [lms(tmp_path, archives)], course=course)
    assert first.refused == {}
    assert set(first.done.values()) == {"new", "new; late"}
    assert submitted(course) == of("ada", "bob", "carla", "dan", "eve")
    again = collect("tiny", [lms(tmp_path, archives)], course=course)
    assert set(again.done.values()) == {"unchanged", "unchanged; late"}


def test_only_the_class_is_collected_and_the_missing_are_named(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roster = tmp_path / "canvas.csv"
    roster.write_text("Student,ID,SIS Login ID\nA,1,ada\nB,2,bob\nC,3,carla\nD,4,dan\n")
    names = ["a_LATE_1_2_ada-1.zip", "ada.zip", "bob_LATE_3_4_bob-2.zip", "eve_5_6_eve.zip"]
    download = lms(tmp_path, {name: packed(FILES) for name in [*names, "carla_7_8_carla.zip"]})
    call = ["collect", "tiny", str(download), "--course", str(course)]
    assert main([*call, "--students", str(roster)]) == 3
    said = capsys.readouterr()
    assert "eve_5_6_eve.zip: not collected: 'eve' is not in class.txt" in said.err
    assert "is one of several archives of ada" in said.err
    assert "nothing from 2: ada, dan" in said.out
    assert "new; late" in said.out
    assert submitted(course) == of("bob", "carla")
    assert main([*call, "--take", "ada.zip"]) == 3
    assert submitted(course) == of("ada", "bob", "carla")
    assert (course / "class.txt").read_text().split() == ["ada", "bob", "carla", "dan"]


def test_pages_go_back_under_the_names_of_the_download(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moodles, canvas = "Carla C_123_assignsubmission_file_/carla", "lovelaceada_1815_9001_ada"
    names = (moodles, canvas, "bob", "d_1_2_dan", "d_1_3_dan")  # dan has handed in twice
    download = lms(tmp_path, {f"{name}.zip": packed(FILES) for name in names})
    for login in ("ada", "carla", "dan"):  # bob has no page yet
        page = course / "feedback" / login / "tiny" / "tiny.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"of {login}")
    call = ["give-back", "tiny", str(download), "--course", str(course)]
    assert main(call) == 3
    error = capsys.readouterr().err
    assert "bob: no feedback page" in error
    assert "d_1_2_dan.zip: is one of several archives of dan" in error
    assert main([*call, "--take", "d_1_3_dan.zip"]) == 3
    with zipfile.ZipFile(course / "reports" / "tiny" / "feedback.zip") as archive:
        pages = {name: archive.read(name).decode() for name in archive.namelist()}
    logins = {canvas: "ada", moodles: "carla", "d_1_3_dan": "dan"}
    assert pages == {f"{name}.html": f"of {login}" for name, login in logins.items()}
    assert main(["give-back", "tiny", str(tmp_path / "none.zip"), "--course", str(course)]) == 2


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "rar": (lambda: b"Rar!\x1a\x07\x00 and so on", "not a readable zip archive"),
    "text": (lambda: b"I had no time", "not a readable zip archive"),
    "empty": (lambda: packed({}), "contains no file"),
    "nothing": (lambda: b"", "not a readable zip archive"),
    "cut": (lambda: packed(FILES)[:-30], "not a readable zip archive"),
    "password": (with_a_password, "needs a password"),
    "up": (lambda: packed({"../../../../solutions/evil.c": b"x"}), "outside its folder"),
    "absolute": (lambda: packed({"/tmp/evil-of-the-test": b"x"}), "outside its folder"),
    "drive": (lambda: packed({"C:\\evil.c": b"x"}), "outside its folder"),
    "version": (
        lambda: packed(FILES).replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xff"),
        "not a readable zip archive",
    ),
    "many": (lambda: packed({str(n): b"" for n in range(5001)}), "5001 members"),
}
#: Archives from which every usable file is taken.
ODD: dict[str, tuple[Callable[[], bytes], str]] = {
    "links": (lambda: with_mode(stat.S_IFLNK | 0o777, "stolen"), "'stolen' is a link"),
    "no-rights": (lambda: with_mode(stat.S_IFREG, "secret.txt"), ""),
    "deep": (lambda: packed({**FILES, "d/" * 1900 + "f": b"x"}), "in too many folders"),
    "twice": (twice, "twice: 'total.c'"),
    "bomb": (bomb, "left out: '4.bin', 6 MB"),
}


def test_bad_archives_cost_their_owners_only(
    course: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tcplab.grading.collect.MAX_BYTES", 26 << 20)
    archives = {
        "aaron.zip": packed(FILES),
        **{f"{name}.zip": make() for name, (make, _) in (BAD | ODD).items()},
        "zoe.zip": packed(FILES),
        "notes.txt": b"of the LMS",
    }
    collected = collect("tiny", [lms(tmp_path, archives)], course=course)
    assert set(collected.refused) == {*(f"{name}.zip" for name in BAD), "notes.txt"}
    assert capfd.readouterr().err == ""
    for name, (_, reason) in each(BAD.items()):
        assert reason in collected.refused[f"{name}.zip"], name
    for name, (_, note) in each(ODD.items()):
        assert collected.done[name].startswith("new")
        assert note in collected.done[name]
        assert of(name) <= submitted(course)
    assert of("aaron", "zoe") <= submitted(course)
    assert {name.partition("/")[0] for name in submitted(course)} == {"aaron", "zoe", *ODD}
    for path in (course / "submitted").rglob("*"):
        assert not path.is_symlink()
        assert os.access(path, os.R_OK)
    assert not list(course.rglob("evil*"))
    assert not Path("/tmp/evil-of-the-test").exists()
    assert not list((course / "reports" / "tiny").glob("tcplab-*"))


def test_damaged_member_is_left_out_and_reported(course: Path, tmp_path: Path) -> None:
    collected = collect("tiny", [lms(tmp_path, {"ada.zip": damaged()})], course=course)
    assert collected.done["ada"].startswith("new; left out: 'total.c' (Bad CRC-32")
    assert submitted(course) == {"ada/tiny/tiny.ipynb"}


def test_lying_zip_bomb_writes_no_more_than_it_declares(course: Path, tmp_path: Path) -> None:
    collected = collect("tiny", [lms(tmp_path, {"ada.zip": lying_bomb()})], course=course)
    sizes = [path.stat().st_size for path in (course / "submitted").rglob("*") if path.is_file()]
    assert sum(sizes) <= 10
    assert "Bad CRC-32" in collected.refused["ada.zip"]


def test_folder_in_an_archive_does_not_decide_its_owner(course: Path, tmp_path: Path) -> None:
    """Neither a folder nor an archive within the archive decides who the owner is."""
    archives = {
        "bob.zip": packed(FILES),
        "mallory.zip": packed({"bob/tiny.ipynb": b"{}", "carl/tiny.ipynb": b"[]"}),
        "eve.zip": packed({"carl.zip": packed(FILES), "tiny.ipynb": b"{}"}),
        "mallory_123_bob.zip": packed(FILES),
    }
    collected = collect("tiny", [lms(tmp_path, archives)], course=course)
    assert set(collected.done) == {"bob", "mallory", "eve", "mallory_123_bob"}
    assert {path.name for path in (course / "submitted").iterdir()} == set(collected.done)
    assert (course / "submitted/bob/tiny/tiny.ipynb").read_bytes() == b"{}"


def test_two_archives_of_one_login_are_both_reported(course: Path, tmp_path: Path) -> None:
    archives = {
        "lovelace_1_2_ada.zip": packed(FILES),
        "mallory_3_4_ada.zip": packed({"tiny.ipynb": b"[]"}),
        "zoe.zip": packed(FILES),
    }
    collected = collect("tiny", [lms(tmp_path, archives)], course=course)
    assert set(collected.done) == {"zoe"}
    for reason in each(collected.refused.values()):
        assert "several archives of ada: 'lovelace_1_2_ada.zip' and 'mallory_3_4_ada.zip'" in reason


def test_login_that_differs_by_case_only_is_refused(course: Path, tmp_path: Path) -> None:
    here = {name: packed(FILES) for name in ("bob.zip", "ada.zip", "ADA.zip")}
    first = collect("tiny", [lms(tmp_path, here)], course=course)
    assert (set(first.done), set(first.refused)) == ({"bob"}, {"ada.zip", "ADA.zip"})
    later = collect("tiny", [lms(tmp_path, {"BOB.zip": packed(FILES)})], course=course)
    assert later.refused == {"BOB.zip": "its login differs from 'bob' by case only"}


def test_other_submission_is_replaced_only_with_the_option(course: Path, tmp_path: Path) -> None:
    def taken(content: bytes, replace: bool = False) -> Collected:
        archive = packed({"tiny.ipynb": content})
        return collect(
            "tiny", [lms(tmp_path, {"ada.zip": archive})], course=course, replace=replace
        )

    assert taken(b"1").done == {"ada": "new"}
    assert "--replace" in taken(b"2").done["ada"]
    path = course / "submitted/ada/tiny/tiny.ipynb"
    assert path.read_bytes() == b"1"
    assert taken(b"2", replace=True).done == {"ada": "replaced"}
    assert path.read_bytes() == b"2"
    assert submitted(course) == {"ada/tiny/tiny.ipynb"}


def test_folder_of_archives_and_errors_in_one_line(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "downloaded"
    (folder / "Ada L_12_assignsubmission_file_").mkdir(parents=True)
    (folder / "Ada L_12_assignsubmission_file_" / "ada.zip").write_bytes(packed(FILES))
    (folder / "red\x1b[31m.zip").write_bytes(packed(FILES))
    arguments = ["collect", "tiny", "--course", str(course)]
    assert main([*arguments, str(folder)]) == 3
    output = capsys.readouterr()
    assert "Ada L 12" in output.out
    assert "1 collected, 0 kept as they were, 1 not" in output.out
    assert "tcplab: red\\x1b[31m.zip: not collected: its login" in output.err
    assert submitted(course) == of("ada")
    assert main([*arguments, str(tmp_path / "nowhere")]) == 2
    assert main(["collect", "no-such-set", str(folder), "--course", str(course)]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    (tmp_path / "ada.zip").write_bytes(packed(FILES))
    assert main([*arguments, str(tmp_path / "ada.zip")]) == 1
    assert "total.c: not collected: is not an archive named LOGIN.zip" in capsys.readouterr().err
