"""`tcplab study` judges a learner's attempts, and shows a model answer after the second."""

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.support.grading.fixtures import Tiny, refused
from tests.support.grading.homework import hand_in
from tests.support.paths import ROOT

from tcplab.course.progress import progress
from tcplab.errors import ParameterError
from tcplab.grading.assignment import Task, open_assignment
from tcplab.grading.study import Study, StudyError, attempts, study


@pytest.fixture
def course(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the course "tiny", in which the learner is ada."""
    shutil.copytree(tiny.course, tmp_path / "course", ignore=shutil.ignore_patterns(".*"))
    monkeypatch.chdir(tmp_path / "course")
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    return tmp_path / "course"


def write(course: Path, name: str = "tiny", **cells: str) -> None:
    """Write into cells of the learner's notebook; q1="q1_sum = 3" replaces the answer to q1."""
    path = course / "exercises" / name / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for question, source in cells.items():
            if f"{question}-answer" in (cell.id, cell.metadata.get("nbgrader", {}).get("grade_id")):
                cell.source = source
    nbformat.write(notebook, path)


def judged(*questions: str, answers: bool = False) -> Study:
    result = study("tiny", *questions, answers=answers)
    assert result is not None
    return result


def points(result: Study) -> dict[str, float | None]:
    return {one.question: one.points for one in result.judged}


def shown(result: Study) -> list[str]:
    return [one.question for one in result.judged if one.model is not None]


def test_solution_earns_all_points(course: Path) -> None:
    write(course, q1='q1_sum = n["a"] + n["b"]', q2='q2_word = "cork"', w1="Because it is so.")
    shutil.copy(course / "solutions/tiny/hidden/total.c", course / "exercises/tiny")
    result = judged()
    assert points(result) == {"q1": 2, "q2": 1, "q3": 2, "w1": None}
    assert result.heading.startswith("tiny: 5 of 5 points")
    # A right answer needs no model answer. An answer that the learner marks has a mark scheme.
    assert shown(result) == ["w1"]
    assert "w1, the mark scheme\n\n    Two points for anything." in str(result)
    assert result.next_steps == "All points are earned. Mark w1 yourself, with the mark scheme."


def test_untouched_exercise_earns_nothing_and_says_why(course: Path) -> None:
    result = judged()
    assert points(result) == {"q1": 0, "q2": 0, "q3": 0, "w1": None}
    messages = {one.question: one.message for one in result.judged}
    assert "no answer yet" in messages["q1"]
    assert messages["q3"] == "total.c is unchanged."
    assert messages["w1"] == "There is no answer yet."
    assert result.next_steps.startswith("Next: work on q1, q2, q3, w1, save")
    assert "Mark w1" not in result.next_steps
    assert shown(result) == []
    assert attempts(course)["tiny"] == {}


@pytest.mark.usefixtures("course")
def test_report_names_its_source_and_the_next_steps() -> None:
    result = judged("q1", "q3")
    assert result.source.startswith("exercises/tiny/tiny.ipynb as it was saved at ")
    assert result.source.endswith(" with total.c")
    for text in (str(result), result._repr_html_()):
        assert f"Judged: {result.source}." in text
        assert "Next: work on q1, q3, save, and run this again. A model answer is shown" in text


def test_known_mistake_earns_its_share_and_its_message(course: Path) -> None:
    write(course, q1='q1_sum = n["b"] - n["a"]')
    [one] = judged("q1").judged
    assert one.points == 1
    assert "this is the difference" in one.message


def test_model_answer_comes_after_the_second_attempt(course: Path) -> None:
    write(course, q1="q1_sum = 1")
    assert shown(judged("q1")) == []
    assert shown(judged("q1")) == []  # repeating an answer is not a new attempt
    write(course, q1="q1_sum = 2")
    result = judged()
    assert shown(result) == ["q1"]
    numbers = Task(course / "solutions/tiny/task.py", "tiny").numbers("ada")
    assert f"q1_sum = {numbers['a'] + numbers['b']}" in str(result)
    assert [one.attempts for one in result.judged] == [2, 0, 0, 0]
    assert [tried["points"] for tried in attempts(course)["tiny"]["q1"]] == [0, 0]


@pytest.mark.usefixtures("course")
def test_model_answers_come_at_once_when_asked_for() -> None:
    result = judged(answers=True)
    assert shown(result) == ["q1", "q2", "q3", "w1"]
    text = str(result)
    assert '-    printf("%s\\n", argv[1]);' in text
    assert '+    printf("%d\\n", atoi(argv[1]) + atoi(argv[2]));' in text
    assert "SOLUTION" not in text


def test_reason_is_shown_with_the_model_answer(course: Path) -> None:
    (course / "solutions/tiny/hidden/why.toml").write_text('q1 = "A sum has two parts."\n')
    assert "Why: A sum has two parts." in str(judged("q1", answers=True))


def test_numbers_are_those_of_the_id_in_the_notebook(course: Path) -> None:
    path = course / "exercises/tiny/tiny.ipynb"
    path.write_text(path.read_text().replace("student = None", "student = 'grace'"))
    write(course, q1='q1_sum = n["a"] + n["b"]')
    result = judged("q1")
    assert result.student == "grace"
    assert points(result) == {"q1": 2}


def test_in_the_notebook_its_variables_are_judged(course: Path) -> None:
    variables: dict[str, Any] = {"study": study}
    variables["assignment"] = open_assignment("tiny", "grace", course / "exercises/tiny")
    n = variables["assignment"].numbers
    variables["q1_sum"] = n["a"] + n["b"]
    exec('found = study("tiny", "q1")', variables)
    assert variables["found"].student == "grace"
    assert points(variables["found"]) == {"q1": 2}
    assert "q1_sum: right." in variables["found"]._repr_html_()


def test_failing_cell_is_named(course: Path) -> None:
    write(course, q1="q1_sum = nothing_of_that_name")
    result = judged("q1")
    assert any("ends with NameError" in note for note in result.notes)


def test_copy_without_solutions_says_so(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(course / "solutions")
    assert "study is off: this copy has no solutions" in refused(["study", "tiny"], capsys, 1)
    with pytest.raises(StudyError):
        study("tiny")


@pytest.mark.usefixtures("course")
@pytest.mark.parametrize("arguments", [["nosuch"], ["tiny", "q9"]])
def test_unknown_name_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{arguments[-1]!r} is not known; use one of" in refused(["study", *arguments], capsys)


def test_damaged_attempts_are_named(course: Path) -> None:
    (course / "exercises/attempts.json").write_text("{")
    with pytest.raises(ParameterError, match="delete it to start again"):
        study("tiny", "q1")


def test_nothing_is_studied_while_submissions_are_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert study("tiny") is None


def test_progress_has_predictions_and_points(tmp_path: Path) -> None:
    for folder in ("lessons", "exercises"):
        (tmp_path / folder).mkdir()
    shutil.copytree(ROOT / "exercises/small-writes", tmp_path / "exercises/small-writes")
    stored = {"small-writes": {"default": 44, "writev": None}}
    (tmp_path / "lessons/predictions.json").write_text(json.dumps(stored))
    tried = [{"at": "", "answer": str(n), "points": n, "of": 3} for n in (0, 1.5)]
    (tmp_path / "exercises/attempts.json").write_text(json.dumps({"small-writes": {"q1": tried}}))
    rows = {row["lesson"]: row for row in progress(tmp_path).rows}
    assert rows["small-writes"]["predicted"].startswith("1 of ")
    assert rows["small-writes"]["predicted"].endswith(", 1 skipped")
    assert (rows["small-writes"]["attempts"], rows["small-writes"]["points"]) == ("2", "1.5 of 3")
    asked = Task(ROOT / "exercises/small-writes/task.py", "small-writes").answers
    assert rows["small-writes"]["questions"] == f"1 of {len(asked)}"
    assert rows["cork"]["set"] is None


def test_progress_on_a_hub_is_the_learners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons/predictions.json").write_text('{"small-writes": {"default": 44}}')
    monkeypatch.chdir(tmp_path)  # this folder has no exercises; the package has them
    rows = {row["lesson"]: row for row in progress().rows}
    assert rows["small-writes"]["predicted"].startswith("1 of ")
    assert rows["small-writes"]["set"] == "small-writes"


@pytest.mark.needs_lab
def test_problem_set_gets_the_score_of_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judge a wrong solution of problem set small-writes, as a learner might write it."""
    shutil.copytree(ROOT / "exercises/small-writes", tmp_path / "exercises/small-writes")
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/small-writes").symlink_to(ROOT / "solutions/small-writes")
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    wrong = hand_in(ROOT / "solutions/small-writes", "one-write-but-nagle")
    answers = {name.removesuffix("-answer"): lines for name, lines in wrong.cells.items()}
    write(tmp_path, "small-writes", **answers)
    for name, program in wrong.files.items():
        (tmp_path / "exercises/small-writes" / name).write_text(program)
    result = study("small-writes", course=tmp_path)
    assert result is not None
    assert sum(score or 0 for score in points(result).values()) == wrong.score
    assert result.notes == []


@pytest.mark.needs_lab
def test_public_check_of_a_program_says_what_was_held(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "exercises/small-writes", tmp_path / "small-writes")
    shown = repr(open_assignment("small-writes", "ada", tmp_path / "small-writes").check("q7"))
    assert "not yet" in shown
    assert "held" in shown
