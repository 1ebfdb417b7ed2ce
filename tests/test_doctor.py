"""What the doctor says of lessons and versions is what is there."""

from __future__ import annotations

from pathlib import Path

import nbformat

from tcplab.doctor import LESSONS, rung, version_table

ROOT = Path(__file__).resolve().parent.parent


def test_the_doctor_knows_every_lesson_by_its_title() -> None:
    titles = []
    for path in sorted((ROOT / "lessons").glob("[0-9]*.ipynb")):
        first = nbformat.read(path, as_version=4).cells[0].source
        titles.append(first.partition("\n")[0])
    assert titles == [f"# Lesson {lesson.number} · {lesson.title}" for lesson in LESSONS]


def test_the_rungs() -> None:
    whole, partly = LESSONS[0], LESSONS[1]
    assert rung(whole, None)[0] == rung(partly, None)[0] == "live"
    assert rung(whole, "blocked")[0] == "recorded"
    assert rung(partly, "blocked")[0] == "loopback"


def test_the_versions_here_are_those_that_were_asked_for() -> None:
    rows = {row["name"]: row for row in version_table().rows}
    assert {"tcplab", "python", "linux", "numpy", "scapy", "nbgrader"} <= rows.keys()
    assert {row["fits"] for row in rows.values()} == {"yes"}
    assert "pytest" not in rows  # an extra is not the course
