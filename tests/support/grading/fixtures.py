"""Provide a tiny course, and functions that grade its submissions with or without nbgrader."""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import completed
from tests.support.grading.homework import hand_in, write
from tests.support.grading.tiny import release_by_hand, write_tiny
from tests.support.paths import ROOT

from tcplab.cli import main
from tcplab.grading.checks import score
from tcplab.grading.course import load_course
from tcplab.grading.judging import Judge, JudgingReport, parts_of
from tcplab.grading.nbgrader_plugins import read_submission
from tcplab.grading.processes import apart
from tcplab.grading.staging import Expected, stage


class Tiny:
    """The assignment "tiny" in its own course, and its released notebook."""

    def __init__(self, course: Path) -> None:
        self.course = course
        self.source = course / "solutions" / "tiny"
        self.exercise = course / "exercises" / "tiny"
        self.judge = Judge(self.source)

    def hand_in(self, folder: Path, *, solved: bool = True) -> Path:
        """Copy the exercise, solved or as handed out, into folder/tiny."""
        submission = shutil.copytree(self.exercise, folder / "tiny")
        if solved:
            write(submission, hand_in(self.source, "reference"), "Because two plus two is four.")
        return submission


def judge_submission(judge: Judge, exercise: Path, submission: Path, student: str) -> JudgingReport:
    """Judge a folder as handed in, without nbgrader and its gradebook."""
    import nbformat

    report = JudgingReport(student, judge.name)
    with tempfile.TemporaryDirectory(prefix="tcplab-submission-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "given"
        expected = Expected(f"{judge.name}.ipynb", judge.task.files, exercise)
        staged = stage(submission, folder, expected)
        notebook = folder / f"{judge.name}.ipynb"
        shutil.copy(exercise / "task.py", folder)  # nbgrader copies it too
        read = apart(read_submission, str(notebook), str(exercise / notebook.name))
        notebook.unlink()
        tests, cells = parts_of(nbformat.from_dict(read["notebook"]))
        ran, verdicts = judge.judge(student, cells, list(tests), folder)
    for question, cell in tests.items():
        report.scores[question] = score(verdicts[question], float(cell.metadata.nbgrader.points))
        report.messages[question] = verdicts[question].message
    about = read["about"]
    report.repairs = [*staged.repairs, *about["repairs"]]
    report.flags = list(dict.fromkeys([*staged.flags, *about["flags"], *ran.flags]))
    report.untouched_tasks = about["untouched_tasks"]
    return report


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Return the course, released without nbgrader, so that it has no gradebook."""
    course = tmp_path_factory.mktemp("course")
    write_tiny(course / "solutions" / "tiny")
    shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course / "solutions")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    release_by_hand(course / "solutions" / "tiny", course / "exercises" / "tiny")
    return Tiny(course)


@pytest.fixture
def course(tiny: Tiny, tmp_path: Path) -> Path:
    """Return a copy of the course, for a test that changes it."""
    return shutil.copytree(tiny.course, tmp_path / "course")


def grades(course: Path, assignment: str = "tiny") -> dict[str, dict[str, str]]:
    """Return the rows of the report's grades.csv, by student."""
    with (course / "reports" / assignment / "grades.csv").open(newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def scores(course: Path, assignment: str = "tiny") -> dict[str, float]:
    rows = grades(course, assignment)
    return {student: float(row["score"] or "nan") for student, row in rows.items()}


def graded_by_command(
    course: Path,
    *arguments: str,
    prefix: Sequence[str] = (),
    path: str = "",
    own_group: bool = False,
) -> subprocess.Popen[str]:
    """Start `tcplab grade tiny` in the course's folder."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "tcplab", "grade", "tiny", *arguments],
        cwd=course,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | ({"PATH": path} if path else {}),
        start_new_session=own_group,
    )


def typed(cwd: Path, *arguments: str, prefix: Sequence[str] = (), timeout_s: float = 300) -> str:
    """Run a Python module such as nbgrader, which must succeed; return what it printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = completed(
        [*prefix, sys.executable, "-m", *arguments],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def gradebook(course: Path) -> Any:
    from nbgrader.api import Gradebook

    _, folders = load_course(course)
    return Gradebook(folders.db_url, folders.course_id)


def refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str], status: int = 2) -> str:
    """Run a command of tcplab that must fail; return its error, which must be one line."""
    assert main([*arguments]) == status, arguments
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


@pytest.fixture(scope="session", autouse=True)
def sandbox_or_skip() -> None:
    from tcplab.grading.sandbox import why_no_sandbox

    if reason := why_no_sandbox():
        pytest.skip(reason)
