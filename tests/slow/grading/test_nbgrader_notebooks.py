"""The notebooks of nbgrader's own tests, out of its package, are judged no worse than by nbgrader.

They have no judge of ours: they are run whole in the sandbox and scored by nbgrader's rules.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import nbgrader
import pytest
from tests.support.grading.fixtures import quiet
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading.batch import Batch, grade
from tcplab.grading.generate import generate

FILES = Path(nbgrader.__file__).parent / "tests"
#: assignment -> its notebook; and the students' notebooks, with the score that nbgrader's tests
#: expect (test_nbgrader_autograde.py), or that follows when its changed cells are put back.
NOTEBOOKS = {
    "scores": (
        "apps/files/submitted-unchanged.ipynb",
        {
            "unchanged": ("apps/files/submitted-unchanged.ipynb", 1.0),
            "changed": ("apps/files/submitted-changed.ipynb", 2.0),
            "no-tracebacks": ("apps/files/submitted-cheat-attempt.ipynb", 1.0),
            "traceback-none": ("apps/files/submitted-cheat-attempt-alternative.ipynb", 1.0),
        },
    ),
    "loop": ("apps/files/infinite-loop.ipynb", {"ada": ("apps/files/infinite-loop.ipynb", 0.0)}),
    "memory": (
        "apps/files/infinite-loop-with-output.ipynb",
        {"ada": ("apps/files/infinite-loop-with-output.ipynb", 0.0)},
    ),
    "recursion": (
        "preprocessors/files/infinite-recursion.ipynb",
        {"ada": ("preprocessors/files/infinite-recursion.ipynb", 0.0)},
    ),
    "effects": ("apps/files/side-effects.ipynb", {"ada": ("apps/files/side-effects.ipynb", 0.0)}),
    "output": (
        "preprocessors/files/long-output.ipynb",
        {"ada": ("preprocessors/files/long-output.ipynb", 0.0)},
    ),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (FILES / NOTEBOOKS["scores"][0]).is_file():
        pytest.skip("NBGRADER'S NOTEBOOKS NOT TESTED: this nbgrader has no tests in its package")
    course = tmp_path_factory.mktemp("nbgrader") / "course"
    (course / "solutions").mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course / "solutions")
    config = (ROOT / "nbgrader_config.py").read_text()
    (course / "nbgrader_config.py").write_text(
        f"{config}\nget_config().SandboxedExecute.cell_timeout_s = 2\n"
    )
    for name, (source, students) in NOTEBOOKS.items():
        places = {course / "solutions" / name: source}
        places |= {course / "submitted" / who / name: what for who, (what, _) in students.items()}
        for folder, file in places.items():
            folder.mkdir(parents=True)
            shutil.copy(FILES / file, folder / f"{name}.ipynb")
    with quiet():
        generate(course, course / "exercises")
    return course


def graded(course: Path, name: str) -> tuple[Batch, dict[str, dict[str, str]]]:
    with quiet():
        batch = grade(name, course=course, jobs=2)
    with (course / "reports" / name / "grades.csv").open(newline="") as file:
        return batch, {row["student"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_of_nbgrader_is_judged_no_worse(name: str, course: Path) -> None:
    batch, rows = graded(course, name)
    assert batch.failed == {}
    for student, (_, score) in each(NOTEBOOKS[name][1].items()):
        assert float(rows[student]["score"]) == score, rows[student]
        assert (course / "autograded" / student / name / f"{name}.ipynb").is_file()


def test_loops_are_flagged_and_side_effects_leave_nothing(course: Path) -> None:
    for name in ("loop", "memory"):
        assert "cell-timeout" in graded(course, name)[1]["ada"]["flags"]
    graded(course, "effects")
    assert not list(course.rglob("side-effect.txt"))
