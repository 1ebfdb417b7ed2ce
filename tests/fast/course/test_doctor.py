"""Test that the doctor reports the lessons, modes and versions of this copy of the course."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.lessons import ALL, slug

from tcplab import cli, machine
from tcplab.course import doctor
from tcplab.course.doctor import Lesson, lessons, mode_of, version_table


def test_lessons_are_found_with_title_and_loopback_part() -> None:
    by_slug = {lesson.slug: lesson for lesson in lessons()}
    assert list(by_slug) == [slug(path) for path in ALL]
    assert by_slug["small-writes"] == Lesson(
        "small-writes", "Small writes", "times and system calls; no segments, no RTT"
    )
    assert by_slug["the-lab"].on_loopback == ""


def test_doctor_says_how_to_get_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "quickstart" not in str(doctor.lesson_table())
    monkeypatch.chdir(tmp_path)
    assert "tcplab quickstart DIRECTORY" in str(doctor.lesson_table())


def test_quickstart_takes_no_directory_that_has_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("mine")
    assert cli.main(["quickstart", str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip().endswith("is not an empty directory; name a new one")
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_modes_of_lessons() -> None:
    whole, partly = Lesson("the-lab", "a", ""), Lesson("pipes", "b", "times")
    assert mode_of(whole, None)[0] == mode_of(partly, None)[0] == "live"
    assert mode_of(whole, "blocked")[0] == "recorded"
    assert mode_of(partly, "blocked")[0] == "loopback"


def test_programs_that_a_lesson_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    by_slug = {lesson.slug: lesson for lesson in lessons()}
    monkeypatch.setenv("PATH", "")
    everything = "everything in it runs here"
    assert mode_of(by_slug["small-writes"], None) == ("live", everything)
    needs = Lesson("real-programs", "a", "", ("no-such-server",))
    assert (
        mode_of(needs, None)[1] == f"{everything} except what needs no-such-server (not installed)"
    )
    for lesson in by_slug.values():
        assert set(lesson.programs) <= machine.NEEDS.keys()


def test_installed_versions_fit_the_requirements() -> None:
    rows = {row["package"]: row for row in version_table().rows}
    assert {"tcplab", "python", "linux", "numpy", "scapy", "nbgrader"} <= rows.keys()
    assert {row["compatible"] for row in rows.values()} == {"yes"}
    assert "pytest" not in rows  # learners do not need it
