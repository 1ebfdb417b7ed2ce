"""The page at submission hides the result of a question that could be guessed in three tries."""

from pathlib import Path
from typing import Any

import pytest
from nbformat import v4
from tests.support.grading.sets import NAMES, SHIPPED, SOURCES
from tests.support.grading.tiny import write_tiny
from traitlets.config import Config

from tcplab.grading.archive import named_in, take_out
from tcplab.grading.assignment import Task, load_module
from tcplab.grading.checks import Verdict
from tcplab.grading.drawing import questions_by_choice, solved
from tcplab.grading.nbgrader_plugins import EarlyPage
from tcplab.grading.sandbox_runner import plain
from tcplab.grading.submission import Submission


def page(record: Path, arrival: str, score: float, by_choice: list[str]) -> tuple[Any, str]:
    """Return the points on the page of a submission, and its text."""
    notebook = v4.new_notebook()
    for name in ("q5", "q6"):
        about = {"grade": True, "solution": False, "grade_id": name, "points": 2.0, "score": score}
        about |= {"locked": True, "task": False, "schema_version": 3, "cell_type": "code"}
        shown = v4.new_output("stream", text=f"{name}: not 'corked'.\n")
        notebook.cells.append(v4.new_code_cell("", metadata={"nbgrader": about}, outputs=[shown]))
    config = Config()
    config.EarlyPage.update(record=str(record), arrival=arrival, tries=2, by_choice=by_choice)
    totals = {"nbgrader": {"score": 2 * score, "max_score": 4.0}}
    made, totals = EarlyPage(config=config).preprocess(notebook, totals)
    texts = [cell.source for cell in made.cells]
    texts += [output.text for cell in made.cells[1:] for output in cell.outputs]
    return totals["nbgrader"], "".join(texts)


@pytest.mark.parametrize("score", [0.0, 2.0])
def test_a_choice_is_never_shown(tmp_path: Path, score: float) -> None:
    points, text = page(tmp_path / "tries", "first", score, ["q6"])
    assert points == {"score": score, "max_score": 2.0}
    assert "q5: not 'corked'." in text
    assert "q6: not" not in text
    assert "The results of q6 come later, as few answers are possible." in text


def test_other_questions_are_shown_for_two_tries(tmp_path: Path) -> None:
    shown = [page(tmp_path / "tries", str(turn), 0.0, [])[1] for turn in range(3)]
    assert ["q5: not" in text for text in shown] == [True, True, False]


def asked_by_choice(source: Path, folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Return the questions whose judge compares a solved answer with a list of words."""
    task = Task(source / "task.py", source.name)
    numbers = task.numbers("ada")
    if names := named_in(numbers):
        take_out(source, names, folder)
    patch.chdir(folder)
    answers = {name: plain(value) for name, value in solved(source, numbers).items()}
    asked: list[str] = []

    def note(*_: Any, name: str, **_more: Any) -> Verdict:
        asked.append(name)
        return Verdict(1, "")

    patch.setattr("tcplab.grading.checks.choice", note)
    patch.setattr(Submission, "check_choice", lambda _, name, *__, **___: note(name=name))
    judge = load_module(source / "hidden" / "judge.py", "judge_with_noted_choices")
    questions = []
    for question, variables in task.answers.items():
        if variables and not any("_packet" in name for name in variables):
            asked.clear()
            getattr(judge, question)(Submission("ada", numbers, answers, {}, folder=source))
            questions += [question] * bool(asked)
    return questions


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_each_question_by_choice_is_withheld(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = questions_by_choice(source)
    assert questions == asked_by_choice(source, tmp_path, monkeypatch)
    assert questions or source.name not in SHIPPED[1:]


def test_choice_in_a_function_that_the_judge_calls_counts(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    (tmp_path / "hidden" / "judge.py").write_text(
        "def q1(submission): return number(submission)\n"
        "def q2(submission): return _look(submission)\n"
        "def q3(submission): return secrets.choice([1, 2])\n"
        "def _look(submission): return choice(submission)\n"
    )
    assert questions_by_choice(tmp_path) == ["q2"]
