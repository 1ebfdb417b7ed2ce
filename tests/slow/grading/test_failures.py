"""An error in grading one submission affects only its student, and is reported."""

import json
from pathlib import Path

import pytest
from tests.support.grading.fixtures import Tiny
from tests.support.needs import needs_ordinary_user

from tcplab.cli import main
from tcplab.grading.batch import grade

KILLS_THE_GRADER_OF_BOB = """
import os, signal

def hook(assignment, student, notebooks):
    if student == "bob":
        os.kill(os.getpid(), signal.SIGKILL)

get_config().Autograde.pre_convert_hook = hook
"""


def test_killed_process_fails_one_student_and_is_reported(tiny: Tiny, course: Path) -> None:
    for student in ("ada", "bob", "carla"):
        tiny.hand_in(course / "submitted" / student)
    config = course / "nbgrader_config.py"
    working = config.read_text()
    config.write_text(working + KILLS_THE_GRADER_OF_BOB)
    batch = grade("tiny", course=course, jobs=2)
    assert sorted(batch.graded) == ["ada", "carla"]
    assert batch.failed == {"bob": "the grading process died (SIGKILL)"}
    assert batch.report is not None
    assert "the grading process died (SIGKILL)" in batch.report.read_text()
    assert not list((course / "reports" / "tiny").glob(".scratch-*"))
    config.write_text(working)
    again = grade("tiny", course=course, jobs=2)
    assert (again.graded, again.failed, sorted(again.kept)) == (["bob"], {}, ["ada", "carla"])


@needs_ordinary_user
def test_unreadable_file_loses_only_its_own_points(tiny: Tiny, course: Path) -> None:
    for student in ("ada", "bob", "carl"):
        tiny.hand_in(course / "submitted" / student)
    (course / "submitted" / "bob" / "tiny" / "total.c").chmod(0)
    (course / "submitted" / "carl").chmod(0)
    batch = grade("tiny", course=course, jobs=2)
    (course / "submitted" / "carl").chmod(0o755)
    assert sorted(batch.graded) == ["ada", "bob"]
    assert batch.failed == {"carl": "Permission denied: carl/tiny"}
    record = json.loads((course / "reports" / "tiny" / "records" / "bob.json").read_text())
    assert record["scores"] == {"q1": 2.0, "q2": 1.0, "q3": 0.0}
    assert "unreadable: 'total.c' (Permission denied)" in record["flags"]


def test_failed_grading_is_reported_with_the_error(tiny: Tiny, course: Path) -> None:
    tiny.hand_in(course / "submitted" / "ada")
    (course / "solutions" / "tiny" / "hidden" / "judge.py").write_text("false")
    batch = grade("tiny", course=course, jobs=1)
    assert batch.graded == []
    assert batch.failed["ada"].startswith("NameError: name 'false' is not defined")
    log = (course / "reports" / "tiny" / "logs" / "ada.log").read_text()
    assert "Traceback" in log


LOSES_THE_COMPILER = """
def hook(assignment, student, notebooks):
    from tcplab.grading import sandbox
    sandbox._environment = lambda extra: {**(extra or {}), "PATH": "/nowhere"}

get_config().Autograde.pre_convert_hook = hook
"""


def test_other_questions_are_paid_while_the_compiler_is_missing(
    tiny: Tiny, course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.hand_in(course / "submitted" / "ada")
    config = course / "nbgrader_config.py"
    working = config.read_text()
    config.write_text(working + LOSES_THE_COMPILER)
    reason = "not judged: q3: no C program can be built in the sandbox"
    for _ in range(2):
        assert main(["grade", "tiny", "--course", str(course)]) == 3
        assert f"tcplab: ada: {reason}" in capsys.readouterr().err
    assert reason in (course / "reports" / "tiny" / "index.html").read_text()
    assert "ada,3" in (course / "reports" / "tiny" / "moodle.csv").read_text()
    assert (course / "feedback" / "ada" / "tiny" / "tiny.html").is_file()
    config.write_text(working)
    assert main(["grade", "tiny", "--course", str(course)]) == 0
    assert "ada,5" in (course / "reports" / "tiny" / "moodle.csv").read_text()
