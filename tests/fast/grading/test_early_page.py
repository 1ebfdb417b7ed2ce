"""The page at submission hides the result of a question that could be guessed in three tries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbformat import v4
from tests.support.paths import ROOT
from traitlets.config import Config

from tcplab.grading.drawing import assignments, questions_about_causes
from tcplab.grading.nbgrader_plugins import EarlyPage


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
    assert "The result of q6, which has few possible answers, comes later." in text


def test_other_questions_are_shown_for_two_tries(tmp_path: Path) -> None:
    shown = [page(tmp_path / "tries", str(turn), 0.0, [])[1] for turn in range(3)]
    assert ["q5: not" in text for text in shown] == [True, True, False]


def test_each_set_with_captures_asks_one_question_about_causes() -> None:
    by_set = {path.name: questions_about_causes(path) for path in assignments(ROOT / "solutions")}
    assert by_set.pop("the-lab") == []
    assert all(len(questions) == 1 for questions in by_set.values()), by_set
