"""The plug-ins for nbgrader write the judge's scores to the gradebook, either all or none."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from nbformat import v4
from nbgrader.api import Gradebook
from tests.support.grading.tiny import cell, check_cell

from tcplab.grading.course import find_alembic
from tcplab.grading.judging import JudgingReport
from tcplab.grading.nbgrader_plugins import SaveScores

WHERE = ("notebook", "assignment", "ada")


def graded_cell(question: str, output: str) -> Any:
    """Return the test cell of a question, with its output, as the judge leaves it."""
    made = check_cell(question, 3)
    made.outputs = [v4.new_output("execute_result", {"text/plain": output})]
    return made


def task_cell() -> Any:
    return cell("markdown", "w1", "Why?", task=True, locked=True, points=2)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a gradebook with ada's submission, once, because nbgrader takes two seconds."""
    path = tmp_path_factory.mktemp("gradebook") / "gradebook.db"
    find_alembic()
    with Gradebook(f"sqlite:///{path}") as book:
        book.add_assignment("assignment")
        book.add_notebook("notebook", "assignment")
        for question in ("q1", "q2"):
            book.add_grade_cell(question, "notebook", "assignment", max_score=3, cell_type="code")
        book.add_task_cell("w1", "notebook", "assignment", max_score=2, cell_type="markdown")
        book.add_student("ada")
        book.add_submission("assignment", "ada")
    return path


@pytest.fixture
def gradebook_url(fresh: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(fresh, tmp_path)}"


def save(url: str, cells: list[Any], scores: dict[str, float | None], *untouched: str) -> None:
    notebook, assignment, student = WHERE
    about = {"notebook": notebook, "assignment": assignment, "student": student, "db_url": url}
    report = JudgingReport("ada", assignment, scores=scores, untouched_tasks=list(untouched))
    SaveScores().preprocess(v4.new_notebook(cells=cells), {"nbgrader": about, "tcplab": report})


def stored(url: str, *questions: str) -> list[tuple[float | None, bool]]:
    """Return each question's automatic score, and whether it needs manual grading."""
    with Gradebook(url) as book:
        grades = [book.find_grade(question, *WHERE) for question in questions]
        return [(grade.auto_score, bool(grade.needs_manual_grade)) for grade in grades]


def test_scores_are_those_of_the_judge_and_not_of_an_output(gradebook_url: str) -> None:
    cells = [graded_cell("q1", "3.0"), graded_cell("q2", "3.0")]
    save(gradebook_url, cells, {"q1": 2.25, "q2": None})
    assert stored(gradebook_url, "q1", "q2") == [(2.25, False), (0.0, True)]


def test_scores_are_saved_all_or_none(gradebook_url: str) -> None:
    cells = [graded_cell("q1", "3.0"), graded_cell("q3", "1.0")]  # q3 is unknown
    with pytest.raises(Exception, match="q3"):
        save(gradebook_url, cells, {"q1": 2.0, "q3": 1.0})
    assert stored(gradebook_url, "q1")[0][0] is None


@pytest.mark.parametrize("name", ["q1", "w1"])
def test_mark_by_hand_stays_and_is_to_be_looked_at_again(name: str, gradebook_url: str) -> None:
    with Gradebook(gradebook_url) as book:
        grade = book.find_grade(name, *WHERE)
        grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.db.commit()
    save(gradebook_url, [graded_cell("q1", "3.0"), task_cell()], {"q1": 2.0})
    assert stored(gradebook_url, name) == [({"q1": 2.0}.get(name), True)]
    with Gradebook(gradebook_url) as book:
        assert book.find_grade(name, *WHERE).score == 1.0


def test_task_without_an_answer_gets_nothing_until_there_is_one(gradebook_url: str) -> None:
    save(gradebook_url, [task_cell()], {}, "w1")
    assert stored(gradebook_url, "w1") == [(0.0, False)]
    with Gradebook(gradebook_url) as book:
        assert book.find_comment("w1", *WHERE).auto_comment == "No response."
    save(gradebook_url, [task_cell()], {})
    assert stored(gradebook_url, "w1") == [(None, True)]
