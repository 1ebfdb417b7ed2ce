"""`tcplab grade`: a small class through nbgrader's own folders and gradebook, twice."""

from __future__ import annotations

import csv
import json
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.support.grading.damaged import DAMAGES, Notebook, changed
from tests.support.grading.fixtures import Tiny, quiet
from tests.support.grading.hostile import ATTACKS
from tests.support.needs import needs_ordinary_user
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.errors import ParameterError
from tcplab.grading.batch import Batch, grade, scratch_folder
from tcplab.grading.course import load_course
from tcplab.grading.report import write_report
from tcplab.grading.staging import content_key

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
    """A teacher who opens the feedback must not run what a learner wrote into it."""
    source = (
        "<script>alert('run by the teacher')</script> a harmless word"
        "\n\n[and a link](java&#115;cript:alert(2))"
    )
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


def test_gradebook_has_the_right_scores(course: Path, batch: Batch) -> None:
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


def test_report_names_repairs_and_flags(course: Path, batch: Batch) -> None:
    assert batch.report == course / "reports" / "tiny" / "index.html"
    page = batch.report.read_text()
    for words in ("6 submissions", "half-written", "points-changed", "link: &#39;stolen&#39;"):
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


def test_report_says_how_hard_the_questions_were(batch: Batch) -> None:
    assert batch.report is not None
    (_, questions) = batch.report.read_text().split("<h2>The questions</h2>")
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in questions.split("<tr>")[2:]]
    found = {question: cells for question, *cells in rows}
    # Five have points, of whom the two that attack have none for q1. Nobody has marked w1,
    # and dan's half a notebook has none: 0 points, without a person.
    few = "too few (5)"
    assert found["q1"][:5] == ["5", "0.60", few, "q1_sum is too small.", "1"]
    assert found["q2"] == ["5", "1.00", few, "", ""]
    assert found["w1"] == ["1", "too few (1)", "too few (1)", "", ""]


def test_canvas_file_has_the_columns_of_canvas(course: Path, batch: Batch) -> None:
    """The file is as canvas-lms/lib/gradebook_importer.rb demands, and so is the separator."""
    assert batch.graded
    with quiet(), gradebook(course) as book:
        book.update_or_create_student(
            "ada", first_name="Ada", last_name="Lovelace", lms_user_id="1815"
        )
    with quiet():
        write_report(load_course(course)[0], "tiny", course, {})
    text = (course / "reports" / "tiny" / "canvas.csv").read_bytes().decode("utf-8")
    assert not text.startswith("\ufeff")
    header, points, *people = csv.reader(text.splitlines())
    assert header == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "tiny"]
    assert "Points Possible" in points[0]
    assert float(points[5]) == 7
    assert {len(row) for row in people} == {len(header)} == {len(points)}
    assert {row[3]: float(row[5]) for row in people} == {
        "'=frank" if student == "=frank" else student: score
        for student, (_, score) in CLASS.items()
    }
    assert people[1] == ["Lovelace, Ada", "1815", "", "ada", "", "5"]
    assert people[2][:4] == ["bob", "", "", "bob"]
    assert ";" not in text


def test_moodle_file_has_users_and_points(course: Path, batch: Batch) -> None:
    """As grade/import/csv demands: UTF-8, named columns, users and numbers and nothing else."""
    assert batch.graded
    text = (course / "reports" / "tiny" / "moodle.csv").read_bytes().decode("utf-8")
    header, *people = csv.reader(text.splitlines())
    assert header == ["username", "tiny"]
    assert {row[0] for row in people} == {"'=frank", *CLASS} - {"=frank"}
    assert all(len(row) == 2 and 0 <= float(row[1]) <= 7 for row in each(people))


def test_failed_submission_is_reported_and_not_in_the_lms_files(
    course: Path, batch: Batch, tmp_path: Path
) -> None:
    assert batch.graded
    config = load_course(course)[0]
    with quiet():
        page = write_report(config, "tiny", tmp_path, {"ada": "the disk was full", "zoe": "<b>"})
    assert "the disk was full" in page.read_text()
    assert "&lt;b&gt;" in page.read_text()
    with (tmp_path / "reports" / "tiny" / "grades.csv").open(newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert (rows["ada"]["score"], rows["zoe"]["error"]) == ("", "<b>")
    for name in ("moodle.csv", "canvas.csv"):
        listed = (tmp_path / "reports" / "tiny" / name).read_text()
        assert "bob" in listed
        assert "ada" not in listed
        assert "zoe" not in listed


def test_feedback_has_messages_and_no_hidden_tests_or_scripts(course: Path, batch: Batch) -> None:
    assert batch.graded
    page = (course / "feedback" / "bob" / "tiny" / "tiny.html").read_text()
    assert "q1_sum has no answer yet." in page
    assert "No response." in page
    assert "a harmless word" in page
    assert "and a link" in page
    assert "alert('run by" not in page
    assert "alert(2)" not in page
    for folder in (course / "feedback", course / "autograded"):
        for path in each(path for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            assert b"the-hidden-judge-was-read" not in data, path
            assert b"MARK SCHEME" not in data or path.suffix != ".c"


def test_unchanged_submission_is_not_graded_again(course: Path, batch: Batch) -> None:
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


def test_byte_code_and_checkpoints_do_not_change_the_digest(tmp_path: Path) -> None:
    """The first run's own import leaves byte code beside the judge: the second run kept nobody."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "judge.py").write_text("points = 1\n")
    before = content_key(tmp_path)
    for by_product in ("hidden/__pycache__/judge.cpython-313.pyc", ".ipynb_checkpoints/a.ipynb"):
        path = tmp_path / by_product
        path.parent.mkdir()
        path.write_bytes(b"made anew at any time")
        assert content_key(tmp_path) == before, by_product
    (tmp_path / "hidden" / "judge.py").write_text("points = 2\n")
    assert content_key(tmp_path) != before


def test_course_without_submissions_makes_no_gradebook(tiny: Tiny, tmp_path: Path) -> None:
    course = tmp_path / "course"
    shutil.copytree(tiny.course, course)
    (course / "gradebook.db").unlink(missing_ok=True)
    with quiet(), pytest.raises(ParameterError, match="nothing to grade: no folder"):
        grade("tiny", course=course)
    assert not (course / "gradebook.db").exists()


def test_marks_by_hand_reach_report_and_feedback(course: Path, batch: Batch) -> None:
    assert batch.graded
    comment = "Two plus two is a good reason."
    where = ("tiny", "tiny", "carla")
    with quiet(), gradebook(course) as book:
        grade_of_w1 = book.find_grade("w1", *where)
        grade_of_w1.manual_score, grade_of_w1.needs_manual_grade = 1.5, False
        book.find_comment("w1", *where).manual_comment = comment
        book.db.commit()
    with quiet():
        first, second = (grade("tiny", course=course, jobs=2) for _ in range(2))
    assert (first.graded, first.feedback, first.failed) == ([], ["carla"], {})
    assert (second.graded, second.feedback, len(second.kept)) == ([], [], len(CLASS))
    assert comment in (course / "feedback" / "carla" / "tiny" / "tiny.html").read_text()
    assert "carla,6.5" in (course / "reports" / "tiny" / "moodle.csv").read_text().split()


KILLS_THE_GRADER_OF_BOB = """
import os, signal

def hook(assignment, student, notebooks):
    if student == "bob":
        os.kill(os.getpid(), signal.SIGKILL)

get_config().Autograde.pre_convert_hook = hook
"""


def test_killed_grading_process_costs_one_student_and_is_reported(
    tiny: Tiny, tmp_path: Path
) -> None:
    course = tmp_path / "course"
    shutil.copytree(tiny.course, course)
    for student in ("ada", "bob", "carla"):
        tiny.hand_in(course / "submitted" / student)
    config = course / "nbgrader_config.py"
    working = config.read_text()
    config.write_text(working + KILLS_THE_GRADER_OF_BOB)
    with quiet():
        batch = grade("tiny", course=course, jobs=2)
    assert sorted(batch.graded) == ["ada", "carla"]
    assert batch.failed == {"bob": "the grading process died (SIGKILL)"}
    assert batch.report is not None
    assert "the grading process died (SIGKILL)" in batch.report.read_text()
    assert not list((course / "reports" / "tiny").glob(".scratch-*"))
    config.write_text(working)
    with quiet():
        again = grade("tiny", course=course, jobs=2)
    assert (again.graded, again.failed, sorted(again.kept)) == (["bob"], {}, ["ada", "carla"])


@needs_ordinary_user
def test_unreadable_file_costs_itself(tiny: Tiny, tmp_path: Path) -> None:
    course = tmp_path / "course"
    shutil.copytree(tiny.course, course)
    for student in ("ada", "bob", "carl"):
        tiny.hand_in(course / "submitted" / student)
    (course / "submitted" / "bob" / "tiny" / "total.c").chmod(0)
    (course / "submitted" / "carl").chmod(0)
    with quiet():
        batch = grade("tiny", course=course, jobs=2)
    (course / "submitted" / "carl").chmod(0o755)
    assert sorted(batch.graded) == ["ada", "bob"]
    assert batch.failed == {"carl": "Permission denied: carl/tiny"}
    record = json.loads((course / "reports" / "tiny" / "records" / "bob.json").read_text())
    assert record["scores"] == {"q1": 2.0, "q2": 1.0, "q3": 0.0}
    assert "unreadable: 'total.c' (Permission denied)" in record["flags"]


def test_reason_for_no_grade_is_the_error_itself(tiny: Tiny, tmp_path: Path) -> None:
    course = tmp_path / "course"
    shutil.copytree(tiny.course, course)
    tiny.hand_in(course / "submitted" / "ada")
    (course / "solutions" / "tiny" / "hidden" / "judge.py").write_text("false")
    with quiet():
        batch = grade("tiny", course=course, jobs=1)
    assert batch.graded == []
    assert batch.failed["ada"].startswith("NameError: name 'false' is not defined")
    log = (course / "reports" / "tiny" / "logs" / "ada.log").read_text()
    assert "Traceback" in log


def test_submission_is_not_changed(tiny: Tiny, course: Path, batch: Batch) -> None:
    assert batch.graded
    handed_in = course / "submitted" / "bob" / "tiny"
    files = [path for path in tiny.exercise.rglob("*") if path.is_file()]
    for path in each(path for path in files if path.suffix != ".ipynb"):
        assert (handed_in / path.relative_to(tiny.exercise)).read_bytes() == path.read_bytes()


def test_usage_errors_take_one_line(
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


def test_grading_refuses_without_a_sandbox_and_says_why(
    course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "no laboratory on this machine: AppArmor restricts …; to allow it: sudo sysctl …"
    monkeypatch.setattr("tcplab.grading.sandbox.why_no_sandbox", lambda: reason)
    assert main(["grade", "tiny", "--course", str(course)]) == 1
    told = capsys.readouterr().err
    assert "not graded without a sandbox. no laboratory on this machine: AppArmor" in told
    assert "--unsafe-no-sandbox" in told


def test_unsafe_grading_is_stated_in_the_feedback(course: Path, batch: Batch) -> None:
    assert batch.graded
    with quiet():
        run = grade("tiny", course=course, students=["carla"], unsafe_no_sandbox=True)
    assert run.graded == ["carla"]
    page = (course / "feedback" / "carla" / "tiny" / "tiny.html").read_text()
    assert "WARNING: graded with --unsafe-no-sandbox" in page
    record = json.loads((course / "reports" / "tiny" / "records" / "carla.json").read_text())
    assert record["sandboxed"] is False
    assert record["scores"] == {"q1": 2.0, "q2": 1.0, "q3": 2.0}


def test_new_assignment_works_unedited(tmp_path: Path) -> None:
    from tcplab.grading.new import new_assignment
    from tcplab.grading.trial import Trial

    trial = Trial(new_assignment(tmp_path, "mine"))
    for name in ("reference", "untouched"):
        assert trial.run(name).as_expected, name
    with pytest.raises(ParameterError, match="exists already"):
        new_assignment(tmp_path, "mine")


def test_temporary_files_of_a_killed_run_go_and_those_of_another_machine_stay(
    tmp_path: Path,
) -> None:
    machine = socket.gethostname()
    killed, elsewhere, here = (
        tmp_path / f".scratch-{name}" for name in (f"{machine}-0", "other-0", f"{machine}-1")
    )
    for folder in (killed, elsewhere, here):
        folder.mkdir()
    with scratch_folder(tmp_path) as own:
        assert own.is_dir()
        assert [each.is_dir() for each in (killed, elsewhere, here)] == [False, True, True]
    assert not own.exists()
