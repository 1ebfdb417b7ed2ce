"""Test `tcplab grade` on a small class, twice, with nbgrader's own folders and gradebook."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from tests.support.grading.damaged import DAMAGES, Notebook, changed
from tests.support.grading.fixtures import Tiny, gradebook, graded_by_command, grades, refused
from tests.support.grading.hostile import ATTACKS
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.errors import ParameterError
from tcplab.grading.batch import Batch, grade
from tcplab.grading.course import load_course
from tcplab.grading.report import write_report

#: Students, each with the damage or attack in the submission, if any, and the expected score.
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
    """Return a copy of the course, with the class's submissions."""
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
    """Add a script and an active link, neither of which may work in the feedback."""
    source = (
        "<script>alert('run by the teacher')</script> a harmless word"
        "\n\n[and a link](java&#115;cript:alert(2))"
    )
    notebook["cells"].insert(
        2, {"cell_type": "markdown", "id": "script", "metadata": {}, "source": source}
    )


@pytest.fixture(scope="module")
def batch(course: Path) -> Batch:
    return grade("tiny", course=course, jobs=2)


@pytest.fixture
def copied(course: Path, batch: Batch, tmp_path: Path) -> Path:
    """Return a copy of the graded course, which a test may change while other workers read it."""
    assert batch.graded
    return shutil.copytree(course, tmp_path / "course", symlinks=True)


def test_gradebook_has_the_right_scores(course: Path, batch: Batch) -> None:
    assert batch.failed == {}
    assert sorted(batch.graded) == sorted(CLASS)
    with gradebook(course) as book:
        for student, (what, score) in CLASS.items():
            submission = book.find_submission("tiny", student)
            assert submission.score == score, student
            assert submission.max_score == 7
            # A person marks the written answer, unless there is none.
            unanswered = what in ("untouched", "half-written-json")
            assert submission.needs_manual_grade != unanswered, student


def test_report_names_repairs_and_flags(course: Path, batch: Batch) -> None:
    assert batch.report == course / "reports" / "tiny" / "index.html"
    page = batch.report.read_text()
    for text in ("6 submissions", "half-written", "points-changed", "link: &#39;stolen&#39;"):
        assert text in page, text
    rows = grades(course)
    assert rows["ada"]["score"] == "5"
    assert rows["ada"]["flags"] == "active-html: cell 3 of the notebook; like-the-model: total.c"
    assert rows["ada"]["repairs"] == rows["ada"]["error"] == ""
    assert rows["carla"]["repairs"] == "duplicated-cell: q1-answer"
    assert rows["eve"]["flags"].startswith("link: 'stolen'")
    # A spreadsheet must not run text that begins like a formula.
    assert "'=frank" in rows


def test_report_says_how_hard_the_questions_were(batch: Batch) -> None:
    assert batch.report is not None
    (_, questions) = batch.report.read_text().split("<h2>The questions</h2>")
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in questions.split("<tr>")[2:]]
    by_question = {question: cells for question, *cells in rows}
    # Five students have points, and the two attackers among them have none for q1. The only mark
    # for w1 is dan's: his truncated notebook has no answer, so it gets 0 points automatically.
    assert by_question["q1"] == ["5", "0.60", "q1_sum is too small.", "1"]
    assert by_question["q2"] == ["5", "1.00", "", ""]
    assert by_question["w1"] == ["1", "too few", "", ""]


def test_canvas_file_has_the_columns_of_canvas(course: Path, batch: Batch) -> None:
    """The columns and the separator are as canvas-lms/lib/gradebook_importer.rb demands."""
    assert batch.graded
    with gradebook(course) as book:
        book.update_or_create_student(
            "ada", first_name="Ada", last_name="Lovelace", lms_user_id="1815"
        )
    write_report(load_course(course)[0], "tiny", course, {}, {})
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
    """Moodle's grade/import/csv demands UTF-8, named columns for users, and numbers as grades."""
    assert batch.graded
    text = (course / "reports" / "tiny" / "moodle.csv").read_bytes().decode("utf-8")
    header, *people = csv.reader(text.splitlines())
    assert header == ["username", "tiny"]
    assert {row[0] for row in people} == {"'=frank", *CLASS} - {"=frank"}
    assert all(len(row) == 2 and 0 <= float(row[1]) <= 7 for row in each(people))


def test_failed_and_withdrawn_submissions_leave_the_lms_files(
    course: Path, batch: Batch, tmp_path: Path
) -> None:
    assert batch.graded
    withdrawn = (course / "submitted" / "bob").rename(tmp_path / "bob")
    failed = {"ada": "the disk was full", "zoe": "<b>"}
    page = write_report(load_course(course)[0], "tiny", tmp_path, failed, {}).read_text()
    withdrawn.rename(course / "submitted" / "bob")
    assert "the disk was full" in page
    assert "&lt;b&gt;" in page
    rows = grades(tmp_path)
    assert [rows[student]["score"] for student in ("ada", "bob")] == ["", ""]
    assert (rows["zoe"]["error"], rows["bob"]["error"]) == ("<b>", "withdrawn: its folder is gone")
    for name in ("moodle.csv", "canvas.csv"):
        listed = (tmp_path / "reports" / "tiny" / name).read_text()
        assert [who in listed for who in ("carla", "ada", "bob", "zoe")] == [True, *[False] * 3]


def test_feedback_has_messages_and_no_hidden_tests_or_scripts(course: Path, batch: Batch) -> None:
    assert batch.graded
    page = (course / "feedback" / "bob" / "tiny" / "tiny.html").read_text()
    assert "q1_sum has no answer yet." in page
    assert "No response." in page
    assert "a harmless word" in page
    assert "and a link" in page
    assert "alert('run by" not in page
    assert "alert(2)" not in page
    assert "(th, td) { padding: 3px 8px; }" in page
    for folder in (course / "feedback", course / "autograded"):
        for path in each(path for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            assert b"the-hidden-judge-was-read" not in data, path
            assert b"MARK SCHEME" not in data or path.suffix != ".c"


def test_unchanged_submission_is_not_graded_again(copied: Path) -> None:
    again = grade("tiny", course=copied, jobs=2)
    assert (again.graded, sorted(again.kept)) == ([], sorted(CLASS))
    DAMAGES["answer-cell-deleted"].do(copied / "submitted" / "ada" / "tiny")
    again = grade("tiny", course=copied, jobs=2)
    assert again.graded == ["ada"]
    record = json.loads((copied / "reports" / "tiny" / "records" / "ada.json").read_text())
    assert record["scores"] == {"q1": 0.0, "q2": 1.0, "q3": 2.0}
    with gradebook(copied) as book:
        assert book.find_submission("tiny", "ada").score == 3


def test_course_without_submissions_or_judge_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    course = shutil.copytree(tiny.course, tmp_path / "course")
    (course / "gradebook.db").unlink(missing_ok=True)
    with pytest.raises(ParameterError, match="nothing to grade: no folder"):
        grade("tiny", course=course)
    assert not (course / "gradebook.db").exists()
    (course / "solutions" / "tiny" / "hidden" / "judge.py").unlink()
    with pytest.raises(ParameterError, match=r"has no hidden/judge\.py"):
        grade("tiny", course=course)


def test_marks_by_hand_reach_report_and_feedback(copied: Path) -> None:
    comment = "Two plus two is a good reason."
    where = ("tiny", "tiny", "carla")
    with gradebook(copied) as book:
        grade_of_w1 = book.find_grade("w1", *where)
        grade_of_w1.manual_score, grade_of_w1.needs_manual_grade = 1.5, False
        book.find_comment("w1", *where).manual_comment = comment
        book.db.commit()
    first, second = (grade("tiny", course=copied, jobs=2) for _ in range(2))
    assert (first.graded, first.feedback, first.failed) == ([], ["carla"], {})
    assert (second.graded, second.feedback, len(second.kept)) == ([], [], len(CLASS))
    pages = (copied / "feedback").glob("*/tiny/tiny.html")
    assert [page.parts[-3] for page in pages if comment in page.read_text()] == ["carla"]
    assert "carla,6.5" in (copied / "reports" / "tiny" / "moodle.csv").read_text().split()


def test_usage_errors_take_one_line(
    course: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for arguments, complaint in (
        (["grade", "no-such-set", "--course", str(course)], "no assignment 'no-such-set'"),
        (["grade", "tiny", "--jobs", "-1", "--course", str(course)], "jobs=-1 must be from 1"),
        (["grade", "tiny", "zoe", "--course", str(course)], "no submission of zoe"),
        (
            ["grade", "tiny", "--watch", "--no-feedback", "--course", str(course)],
            "--no-feedback cannot be combined with --watch",
        ),
        (["grade", "tiny", "--course", str(tmp_path)], "has no nbgrader_config.py"),
        (["new-assignment", "a/b", "--course", str(tmp_path)], "name 'a/b' must be letters"),
        (["try-assignment", "no-such-set", "--course", str(course)], "no such file"),
    ):
        assert complaint in refused(arguments, capsys)


def test_grading_refuses_without_a_sandbox_and_says_why(
    course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "no laboratory on this machine: AppArmor restricts …; to allow it: sudo sysctl …"
    monkeypatch.setattr("tcplab.grading.sandbox.why_no_sandbox", lambda: reason)
    assert main(["grade", "tiny", "--course", str(course)]) == 1
    errors = capsys.readouterr().err
    assert "not graded without a sandbox. no laboratory on this machine: AppArmor" in errors


@pytest.mark.parametrize("options", [[], ["--watch"]])
def test_grading_refuses_without_a_compiler_and_says_why(
    options: list[str],
    course: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tcplab.grading.sandbox._environment", lambda _extra: {"PATH": "/nowhere"})
    errors = refused(["grade", "tiny", "--course", str(course), *options], capsys, 1)
    assert "no C program can be built in the sandbox (" in errors
    assert "apt install gcc libc6-dev" in errors


def test_new_assignment_works_unedited(tmp_path: Path) -> None:
    from tcplab.grading.release import new_assignment
    from tcplab.grading.trial import Trial

    trial = Trial(new_assignment(tmp_path, "mine"))
    for name in ("reference", "untouched"):
        assert trial.run(name).as_expected, name
    with pytest.raises(ParameterError, match="exists already"):
        new_assignment(tmp_path, "mine")


NOTES_FORKS = """
import os

def note():
    with open("forks", "a") as file:
        file.write(f"{os.getpid()}\\n")

os.register_at_fork(after_in_child=note)
"""


def test_submission_takes_two_forks_of_the_grader(copied: Path) -> None:
    """One grades it and one reads its notebook; the sandbox's Python is started, not forked."""
    with (copied / "nbgrader_config.py").open("a") as config:
        config.write(NOTES_FORKS)
    output, _ = graded_by_command(copied, "--again", "ada").communicate()
    assert output.startswith("1 graded in"), output
    assert len(set((copied / "forks").read_text().split())) == 2
