"""Test that the doctor reports the lessons and modes of this copy of the course."""

import re
from pathlib import Path

import pytest
from tests.support.lessons import ALL, slug
from tests.support.paths import ROOT

from tcplab import cli, machine
from tcplab.course import doctor
from tcplab.course.doctor import Lesson, lessons, mode_of


def test_lessons_are_found_with_title_and_loopback_part() -> None:
    by_slug = {lesson.slug: lesson for lesson in lessons()}
    assert list(by_slug) == [slug(path) for path in ALL]
    assert by_slug["small-writes"] == Lesson(
        "small-writes", "Small writes", "times and system calls; no segments, no RTT"
    )
    assert by_slug["the-lab"].on_loopback == ""


def test_doctor_says_how_to_get_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tcplab lab" not in doctor.summary()[-1]
    monkeypatch.chdir(tmp_path)
    assert "tcplab lab" in doctor.summary()[-1]


@pytest.mark.parametrize("way", ["make lab CC=zig", "pip install ziglang"])
def test_doctor_says_how_to_get_a_compiler_without_root(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(doctor, "course_folder", lambda: ROOT if "make" in way else tmp_path)
    cli.main(["doctor"])
    assert f"or without root: {way}" in " ".join(capsys.readouterr().out.split())


def test_quickstart_takes_no_directory_that_has_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("mine")
    assert cli.main(["quickstart", str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip().endswith("is not an empty directory; name a new one")
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_modes_of_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, partly = Lesson("the-lab", "a", ""), Lesson("pipes", "b", "times")
    assert mode_of(whole, None) == mode_of(partly, None) == "live"
    assert mode_of(whole, "blocked") == "recorded"
    assert mode_of(partly, "blocked") == "loopback"
    monkeypatch.setattr(doctor, "why_no_programs", lambda: "there is no compiler")
    assert mode_of(partly, "blocked") == "recorded"


def test_the_report_fits_a_screen_and_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for lesson in lessons():
        assert set(lesson.programs) <= machine.PACKAGES.keys()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("COLUMNS", "80")
    cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    report = " ".join(" ".join(lines).split())
    for name in ("kernel", "cores", "C programs", "user namespaces", "congestion control"):
        assert f" {name}: " in report
    assert re.search(r"optional: .*curl.* \(in real-programs\) → apt install .*curl", report)
    assert "C compiler: → cc is not installed: apt install gcc libc6-dev; or without" in report


def test_the_doctor_makes_a_real_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self) -> None:
            raise AttributeError("no attribute 'set_offload_flag'")

    monkeypatch.setattr(doctor, "why_no_lab", lambda: None)
    monkeypatch.setattr(doctor, "Lab", Broken)
    doctor.why_not_live.cache_clear()
    assert str(doctor.why_not_live()).endswith("flag'; to allow it: python -m pip check")
    doctor.why_not_live.cache_clear()


def test_home_that_cannot_be_written_to_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", "/proc/nowhere")
    assert cli.main(["lab", str(ROOT)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"tcplab: Jupyter cannot write to /proc/nowhere; .*HOME=.*", line)
