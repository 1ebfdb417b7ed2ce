"""`tcplab grade`: a small class through nbgrader's own folders and gradebook, twice."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.grading.conftest import Tiny, quiet
from tests.grading.damaged import DAMAGES, Notebook, changed
from tests.grading.hostile import ATTACKS

from tcplab.cli import main
from tcplab.grading.batch import Batch, grade
from tcplab.grading.course import load_course
from tcplab.lab import ParameterError

#: student -> what was done to the submission, its score and whether a person has to look.
CLASS = {
    "ada": (None, 5.0),
    "bob": ("untouched", 0.0),
    "carla": ("answer-cell-duplicated", 5.0),
    "dan": ("half-written-json", 5.0),
    "eve": ("link-to-the-judge", 3.0),
    "=frank": ("forged-points-and-scores-in-the-metadata", 3.0),
}


@pytest.fixture(scope="module")
def course(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course, with the class's submissions."""
    course = tmp_path_factory.mktemp("class") / "course"
    shutil.copytree(tiny.course, course)
    for student, (what, _) in CLASS.items():
        submission = tiny.hand_in(course / "submitted" / student, solved=what != "untouched")
        changed(add_a_script)(submission)
        if what in DAMAGES:
            DAMAGES[what].do(submission)
        if what in ATTACKS:
            ATTACKS[what].do(submission)
    return course


def add_a_script(notebook: Notebook) -> None:
    """Who opens the feedback must not run what a learner wrote into it."""
    source = "<script>alert('run by the teacher')</script> a harmless word"
    notebook["cells"].insert(
        2, {"cell_type": "markdown", "id": "script", "metadata": {}, "source": source}
    )


@pytest.fixture(scope="module")
def batch(course: Path) -> Batch:
    with quiet():
        return grade("tiny", course=course, jobs=2)


def gradebook(course: Path) -> Any:
    from nbgrader.api import Gradebook

    _, folders = load_course(course)
    return Gradebook(folders.db_url, folders.course_id)


def test_everybody_has_the_right_score_in_nbgraders_gradebook(course: Path, batch: Batch) -> None:
    assert batch.failed == {}
    assert sorted(batch.graded) == sorted(CLASS)
    with quiet(), gradebook(course) as book:
        for student, (what, score) in CLASS.items():
            submission = book.find_submission("tiny", student)
            assert submission.score == score, student
            assert submission.max_score == 7
            # The written answer is for a person, unless there is none.
            unanswered = what in ("untouched", "half-written-json")
            assert submission.needs_manual_grade != unanswered, student


def test_the_report_names_repairs_and_flags(course: Path, batch: Batch) -> None:
    assert batch.report == course / "reports" / "tiny" / "index.html"
    page = batch.report.read_text()
    for words in ("6 submissions", "half-written", "points-changed", "link: &#x27;stolen&#x27;"):
        assert words in page, words
    with (course / "reports" / "tiny" / "grades.csv").open(newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows["ada"]["score"] == "5"
    assert rows["ada"]["flags"] == "active-html: cell 3 of the notebook"
    assert rows["ada"]["repairs"] == rows["ada"]["error"] == ""
    assert rows["carla"]["repairs"] == "duplicated-cell: q1-answer"
    assert rows["eve"]["flags"].startswith("link: 'stolen'")
    # What begins like a formula must not be run by a spreadsheet.
    assert "'=frank" in rows
    moodle = (course / "reports" / "tiny" / "moodle.csv").read_text().splitlines()
    assert moodle[0] == "username,tiny"
    assert "ada,5" in moodle
    canvas = (course / "reports" / "tiny" / "canvas.csv").read_text().splitlines()
    assert canvas[0] == "Student,ID,SIS Login ID,Section,tiny"
    assert canvas[1].strip() == "Points Possible,,,,7"


def test_the_feedback_tells_the_message_and_not_the_test(course: Path, batch: Batch) -> None:
    assert batch.graded
    page = (course / "feedback" / "bob" / "tiny" / "tiny.html").read_text()
    assert "q1_sum has no answer yet." in page
    assert "No response." in page
    assert "a harmless word" in page
    assert "<script>alert('run by" not in page
    for folder in (course / "feedback", course / "autograded"):
        for path in folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert b"the-hidden-judge-was-read" not in data, path
                assert b"MARK SCHEME" not in data or path.suffix != ".c"


def test_what_is_graded_and_unchanged_is_not_graded_again(course: Path, batch: Batch) -> None:
    assert batch.graded
    with quiet():
        again = grade("tiny", course=course, jobs=2)
    assert (again.graded, sorted(again.kept)) == ([], sorted(CLASS))
    DAMAGES["answer-cell-deleted"].do(course / "submitted" / "ada" / "tiny")
    with quiet():
        again = grade("tiny", course=course, jobs=2)
    assert again.graded == ["ada"]
    record = json.loads((course / "reports" / "tiny" / "records" / "ada.json").read_text())
    assert record["scores"] == {"q1": 0.0, "q2": 1.0, "q3": 2.0}
    with quiet(), gradebook(course) as book:
        assert book.find_submission("tiny", "ada").score == 3


def test_what_was_handed_in_is_not_changed(tiny: Tiny, course: Path, batch: Batch) -> None:
    assert batch.graded
    handed_in = course / "submitted" / "bob" / "tiny"
    for path in tiny.exercise.rglob("*"):
        if path.is_file() and path.suffix != ".ipynb":
            assert (handed_in / path.relative_to(tiny.exercise)).read_bytes() == path.read_bytes()


def test_mistakes_of_the_instructor_take_one_line(
    course: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words, complaint in (
        (["grade", "ps99", "--course", str(course)], "no assignment 'ps99'"),
        (["grade", "tiny", "--jobs", "-1", "--course", str(course)], "jobs=-1 must be from 1"),
        (["grade", "tiny", "zoe", "--course", str(course)], "no submission of zoe"),
        (["grade", "tiny", "--course", str(tmp_path)], "has no nbgrader_config.py"),
        (["new-assignment", "a/b", "--course", str(tmp_path)], "name 'a/b' must be letters"),
        (["try-assignment", "ps99", "--course", str(course)], "no such file"),
    ):
        assert main(words) == 2, words
        told = capsys.readouterr().err
        assert complaint in told
        assert told.count("\n") == 1, told


def test_grading_refuses_where_there_is_no_sandbox_and_says_why(
    course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "no laboratory on this machine: AppArmor restricts …; to allow it: sudo sysctl …"
    monkeypatch.setattr("tcplab.grading.sandbox.why_no_sandbox", lambda: reason)
    assert main(["grade", "tiny", "--course", str(course)]) == 1
    told = capsys.readouterr().err
    assert "not graded without a sandbox. no laboratory on this machine: AppArmor" in told
    assert "--unsafe-no-sandbox" in told


def test_without_a_sandbox_every_feedback_says_so(course: Path, batch: Batch) -> None:
    assert batch.graded
    with quiet():
        run = grade("tiny", course=course, students=["carla"], unsafe_no_sandbox=True)
    assert run.graded == ["carla"]
    page = (course / "feedback" / "carla" / "tiny" / "tiny.html").read_text()
    assert "WARNING: graded with --unsafe-no-sandbox" in page
    record = json.loads((course / "reports" / "tiny" / "records" / "carla.json").read_text())
    assert record["sandboxed"] is False
    assert record["scores"] == {"q1": 2.0, "q2": 1.0, "q3": 2.0}


def test_a_new_assignment_works_as_it_is(tmp_path: Path) -> None:
    from tcplab.grading.new import new_assignment
    from tcplab.grading.trial import Trial

    trial = Trial(new_assignment(tmp_path, "mine"))
    for name in ("reference", "untouched"):
        assert trial.run(name).as_expected, name
    with pytest.raises(ParameterError, match="exists already"):
        new_assignment(tmp_path, "mine")
