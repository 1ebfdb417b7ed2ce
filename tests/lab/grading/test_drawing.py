"""Test a course's secret, the scenes drawn from it, and each student's hand-out."""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from tests.support.grading.fixtures import Tiny
from tests.support.grading.sets import captures_in
from tests.support.lifetime import until
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.cli import main
from tcplab.errors import LabError, ParameterError
from tcplab.grading import drawing
from tcplab.grading.archive import ARCHIVE_FILE, named_in, read_archive
from tcplab.grading.assignment import Course, Numbers, Task, load_module
from tcplab.grading.drawing import (
    assignments,
    course_key,
    draw,
    new_secret,
    read_secret,
    write_constants,
)
from tcplab.grading.ledger import students_in
from tcplab.grading.release import hand_out

#: A scenes.py whose captures have no packets, but end with a text of 20 characters.
SCENES = """
EMPTY = bytes.fromhex("0a0d0d0a 1c000000 4d3c2b1a 01000000 ffffffff ffffffff 1c000000")
ANSWER = "q2_word"
CAUSES = ("cork", "nodelay")
TRIES = []

def draw(rng, cause):
    return f"{cause} {rng.randrange(1000)}"

def record(path, scene):
    TRIES.append(scene)
    path.write_bytes(EMPTY + scene.ljust(20).encode())
    path.with_suffix(".log").write_text("a log")
"""


@pytest.fixture
def course(tiny: Tiny, tmp_path: Path) -> Path:
    """Return a course whose assignment "tiny" has captures that its solution reads."""
    folder = tmp_path / "course"
    shutil.copytree(tiny.course, folder)
    source = folder / "solutions" / "tiny"
    (source / "hidden" / "scenes.py").write_text(SCENES)
    task = source / "task.py"
    task.write_text(task.read_text().replace('{"a":', '{"capture": own.captures()[0], "a":'))
    notebook = source / "tiny.ipynb"
    wanted = "__import__('pathlib').Path(n['capture']).read_bytes()[-20:].decode().split()[0]"
    text = notebook.read_text().replace(r"q2_word = \"cork\"", f"q2_word = {wanted}")
    assert wanted in text
    notebook.write_text(text)
    new_secret(folder / "solutions")
    return folder


def texts_in(source: Path) -> dict[str, str]:
    """Return the text at the end of each capture of an archive, by the capture's number."""
    return {
        Path(name).stem: data[-20:].decode()
        for name, data in read_archive(source).items()
        if name.endswith(".pcapng")
    }


def test_captures_are_drawn_from_the_secret(course: Path) -> None:
    source = course / "solutions" / "tiny"
    assert list(draw(source, captures=5)) == [(number, 5) for number in range(1, 6)]
    secret = read_secret(source.parent)
    assert json.loads((source / "course.json").read_text()) == {
        "key": course_key(secret, "tiny"),
        "captures": 5,
    }
    causes = json.loads((source / "hidden" / "captures.json").read_text())
    assert sorted(Counter(causes.values()).values()) == [2, 3]
    first, archive = texts_in(source), (source / ARCHIVE_FILE).read_bytes()
    assert {f"{number}.pcapng": text.split()[0] for number, text in first.items()} == causes
    assert list(draw(source)) == [(number, 5) for number in range(1, 6)]
    assert (source / ARCHIVE_FILE).read_bytes() == archive
    new_secret(source.parent)
    list(draw(source, captures=3))
    assert sorted(read_archive(source)) == [
        f"captures/{number}.{end}" for number in (1, 2, 3) for end in ("log", "pcapng")
    ]
    assert texts_in(source)["1"] != first["1"]


@pytest.mark.parametrize("source", sorted(ROOT.glob("solutions/*/hidden/scenes.py")))
def test_every_secret_draws_a_scene_for_each_cause(source: Path) -> None:
    """Try many seeds, since some random numbers leave little room for those drawn after them."""
    scenes = load_module(source, f"tcplab_scenes_of_a_test_{source.parts[-3]}")
    for seed, cause in itertools.product(range(500), each(scenes.CAUSES)):
        assert scenes.draw(random.Random(seed), cause)


def test_capture_that_shows_another_cause_is_refused(course: Path) -> None:
    scenes = course / "solutions" / "tiny" / "hidden" / "scenes.py"
    scenes.write_text(SCENES.replace("scene.ljust", "'nagle'.ljust"))
    with pytest.raises(LabError, match=r"tiny: capture . should show .*found nagle in 6 rec"):
        list(draw(scenes.parent.parent, captures=2))


def test_scene_that_shows_another_cause_gives_way_to_another_scene(course: Path) -> None:
    scenes = course / "solutions" / "tiny" / "hidden" / "scenes.py"
    bad = "('nagle' if scene in TRIES[:1] else scene)"
    scenes.write_text(SCENES.replace("scene.ljust", f"{bad}.ljust"))
    list(draw(scenes.parent.parent, captures=1))
    (cause,) = json.loads((scenes.parent / "captures.json").read_text()).values()
    assert texts_in(course / "solutions" / "tiny")["1"].split()[0] == cause


def test_captures_whose_counts_reveal_the_cause_are_drawn_again(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, shares = course / "solutions" / "tiny", [0.66, 0.65]
    monkeypatch.setattr(drawing, "seen_in", lambda captures: (captures, None))
    monkeypatch.setattr(drawing, "share_named", lambda *_: shares.pop(0))
    assert len(list(draw(source, captures=24))) == 48
    assert (source / ARCHIVE_FILE).is_file()
    monkeypatch.setattr(drawing, "DRAWS", 3)
    shares += [0.66] * 3
    with pytest.raises(LabError, match="in 3 draws, counts and sizes"):
        list(draw(source))
    assert not (source / ARCHIVE_FILE).exists()
    assert len(list(draw(source, captures=23))) == 23


def test_programs_have_the_numbers_of_this_course(tmp_path: Path) -> None:
    for source in each(assignments(ROOT / "solutions")):
        copy = tmp_path / source.name
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("captures.zip"))
        write_constants(copy)
        for path in (source / "hidden").glob("*.c"):
            assert path.read_text() == (copy / "hidden" / path.name).read_text()


def test_killed_drawing_leaves_no_folder(course: Path, tmp_path: Path) -> None:
    scenes = course / "solutions" / "tiny" / "hidden" / "scenes.py"
    killed = "import os\n    print(path, flush=True)\n    os.kill(os.getpid(), 9)"
    scenes.write_text(SCENES.replace("TRIES.append(scene)", killed))
    done = subprocess.run(
        [sys.executable, "-m", "tcplab", "draw", "--captures", "1", "--course", str(course)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = Path(done.stdout.split()[0]).parent.parent
    assert folder.parent == tmp_path
    until(lambda: not folder.exists())


def test_mistakes_are_named(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = course / "solutions" / "tiny"
    with pytest.raises(ParameterError, match="captures=1001 must be from 1 to 1000"):
        list(draw(source, captures=1001))
    assert main(["draw", "slow-start", "--course", str(course)]) == 2
    assert "assignment 'slow-start' is not known; use one of tiny" in capsys.readouterr().err
    assert main(["draw", "tiny", "--new-secret", "--course", str(course)]) == 2
    task = source / "task.py"
    task.write_text(task.read_text() + 'IN_PROGRAMS = ["a"]\n')
    with pytest.raises(ParameterError, match=r"names a in IN_PROGRAMS, but no C file has A = …"):
        list(draw(source))
    (course / "submitted" / "ada" / "tiny").mkdir(parents=True)
    with pytest.raises(ParameterError, match="only before the first submission"):
        new_secret(course / "solutions")
    (course / "solutions" / "secret").unlink()
    with pytest.raises(ParameterError, match="tcplab draw --new-secret"):
        list(draw(source))


def test_numbers_differ_from_course_to_course() -> None:
    one, other = (Course(course_key(secret, "small-writes"), 48) for secret in (b"one", b"other"))

    def made(course: Course) -> list[int]:
        return [Numbers("small-writes", "ada", course).integer(str(i), 0, 999) for i in range(9)]

    assert made(one) != made(other)
    captures = Numbers("small-writes", "ada", one).captures(48)
    assert sorted(captures) == sorted(f"captures/{number}.pcapng" for number in range(1, 49))
    with pytest.raises(ParameterError, match="has 0 captures and needs 1: its course"):
        Numbers("small-writes", "ada").captures()


def test_damaged_course_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "course.json").write_text('{"key": 1, "more": 2}')
    with pytest.raises(ParameterError, match="cannot be read"):
        Course.read(tmp_path)


@pytest.mark.parametrize("name", ["small-writes", "diagnosis"])
def test_a_student_is_handed_out_their_own_captures_only(name: str, tmp_path: Path) -> None:
    released = ROOT / "exercises" / name
    (made,) = hand_out(released, ["ada"], f"{tmp_path}/{{student}}/{{assignment}}")
    assert made == tmp_path / "ada" / name
    own = named_in(Task(released / "task.py", name).numbers("ada"))
    assert len(own) == (3 if name == "diagnosis" else 1)
    assert {capture.name for capture in captures_in(made)} == set(own)
    assert read_archive(made) == read_archive(released, own)
    handed_out = {path.name for path in released.iterdir()} - {"__pycache__", "captures"}
    assert {path.name for path in made.iterdir()} == handed_out
    with pytest.raises(ParameterError, match="exists already"):
        hand_out(released, ["ada"], f"{tmp_path}/{{student}}/{{assignment}}")


def test_archives_for_a_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roster = tmp_path / "students"
    roster.write_text("ada\n\nbob # who is late\n")
    command = ["handout", "small-writes", "--students", str(roster), "--course", str(ROOT)]
    assert main([*command, "--into", f"{tmp_path}/{{student}}.zip"]) == 0
    assert "2 copies in " in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "bob.zip") as archive:
        names = archive.namelist()
    assert "small-writes/small-writes.ipynb" in names
    assert "small-writes/captures.zip" in names
    assert main([*command, "--into", str(tmp_path / "all.zip")]) == 2
    roster.write_text("ada\nada\n")
    with pytest.raises(ParameterError, match="'ada' appears twice"):
        students_in(roster)
    roster.write_text("../ada\n")
    with pytest.raises(ParameterError, match="is not an id"):
        students_in(roster)


def test_secret_is_not_handed_out() -> None:
    secret = (ROOT / "solutions" / "secret").read_text().strip()
    for source in assignments(ROOT / "solutions"):
        for path in (ROOT / "exercises" / source.name).rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes()
