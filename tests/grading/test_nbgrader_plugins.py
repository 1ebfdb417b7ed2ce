"""What stands in nbgrader's place among its preprocessors: the same verdicts, saved at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from nbformat import v4
from nbgrader import api
from nbgrader.api import Gradebook
from nbgrader.nbgraderformat import ValidationError
from tests.grading.conftest import quiet

from tcplab.grading.parts import CheckForeignMetadata, SaveGrades
from tcplab.grading.worker import keep_engines

WHERE = ("notebook", "assignment", "ada")


def graded_cell(question: str, score: float | str) -> Any:
    """A test's cell after the judge has been there."""
    own = {
        "grade": True,
        "grade_id": question,
        "locked": True,
        "points": 3,
        "schema_version": 3,
        "solution": False,
        "task": False,
        "cell_type": "code",
        "checksum": "",
    }
    result = v4.new_output("execute_result", {"text/plain": repr(score)})
    return v4.new_code_cell("check()", metadata={"nbgrader": own}, outputs=[result])


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook in which ada has handed in."""
    path = tmp_path_factory.mktemp("gradebook") / "gradebook.db"
    url = f"sqlite:///{path}"
    with quiet(), Gradebook(url) as book:
        book.add_assignment("assignment")
        book.add_notebook("notebook", "assignment")
        for question in ("q1", "q2"):
            book.add_grade_cell(question, "notebook", "assignment", max_score=3, cell_type="code")
        book.add_student("ada")
        book.add_submission("assignment", "ada")
    return path


@pytest.fixture
def gradebook_url(fresh: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(fresh, tmp_path)}"


def resources(url: str) -> dict[str, Any]:
    notebook, assignment, student = WHERE
    about = {"notebook": notebook, "assignment": assignment, "student": student, "db_url": url}
    record = {"scores": {"q1": 2.0, "q2": None}, "untouched_tasks": []}
    return {"nbgrader": about, "tcplab": record}


def test_grades_are_saved_and_what_was_not_judged_is_for_a_person(gradebook_url: str) -> None:
    notebook = v4.new_notebook(cells=[graded_cell("q1", 2.0), graded_cell("q2", 0.0)])
    with quiet():
        SaveGrades().preprocess(notebook, resources(gradebook_url))
        with Gradebook(gradebook_url) as book:
            grades = [book.find_grade(question, *WHERE) for question in ("q1", "q2")]
            found = [(each.auto_score, bool(each.needs_manual_grade)) for each in grades]
    assert found == [(2.0, False), (0.0, True)]


def test_grades_are_saved_all_or_none(gradebook_url: str) -> None:
    broken = graded_cell("q3", 1.0)  # which the gradebook does not know
    notebook = v4.new_notebook(cells=[graded_cell("q1", 2.0), broken])
    with quiet():
        with pytest.raises(Exception, match="q3"):
            SaveGrades().preprocess(notebook, resources(gradebook_url))
        with Gradebook(gradebook_url) as book:
            assert book.find_grade("q1", *WHERE).auto_score is None


def test_metadata_is_checked_unless_it_is_the_released_notebooks() -> None:
    cell = graded_cell("q1", 1.0)
    cell.metadata.nbgrader["points"] = "three"
    foreign = v4.new_notebook(cells=[cell])
    with pytest.raises(ValidationError):
        CheckForeignMetadata().preprocess(foreign, {})
    rebuilt = v4.new_notebook(cells=[cell], metadata={"tcplab": {}})
    assert CheckForeignMetadata().preprocess(rebuilt, {}) == (rebuilt, {})


def test_the_gradebooks_of_a_worker_share_an_engine(
    gradebook_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "create_engine", api.create_engine)  # put back at the end
    keep_engines()
    with quiet():
        with Gradebook(gradebook_url) as first:
            first.add_student("bob")
        with Gradebook(gradebook_url) as again:
            assert again.engine is first.engine
            assert {each.id for each in again.students} == {"ada", "bob"}
    assert api.create_engine("sqlite://") is not first.engine
