"""Test the problem sets' tasks, judges and public checks, without running a program or notebook."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from tests.support.grading.sets import EXAMPLE, NAMES, files_of
from tests.support.grading.tiny import release_by_hand
from tests.support.lessons import BY_SLUG
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.errors import ParameterError
from tcplab.grading import Verdict, open_assignment
from tcplab.grading.assignment import Task, load_module
from tcplab.grading.release import strip_solution
from tcplab.grading.submission import Submission
from tcplab.grading.trial import Trial
from tcplab.programs.pair import last_object


@pytest.mark.parametrize("name", NAMES)
def test_assignment_is_complete(name: str) -> None:
    tried = Trial(ROOT / "solutions" / name)
    assert tried.all_points == (4 if name == "the-lab" else 20)
    assert len(tried.mutants) >= 5
    task = Task(ROOT / "solutions" / name / "task.py", name)
    reasons = tomllib.loads((ROOT / "solutions" / name / "hidden" / "why.toml").read_text())
    assert set(task.answers) == set(reasons) == set(tried.points)
    assert all(len(reason.split()) >= 12 for reason in each(reasons.values()))
    # Numbers are plain data, and each student gets different ones, so that answers cannot be
    # passed on.
    made = [json.dumps(task.numbers(student)) for student in ("ada", "bob", "carla", "dan")]
    assert len(set(made)) == 4
    assert task.numbers(" ADA ") == task.numbers("ada")


@pytest.mark.parametrize("name", NAMES)
def test_questions_are_in_order(name: str) -> None:
    notebook = nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", as_version=4)
    about = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    graded = each(mark.grade_id for mark in about if mark.get("grade") or mark.get("task"))
    written = [question for question in graded if question.startswith("w")]
    asked = graded[: len(graded) - len(written)]
    assert asked == [f"q{number}" for number in range(1, len(asked) + 1)]
    assert written == [f"w{number}" for number in range(1, len(written) + 1)]


def test_brackets_without_end_in_a_programs_output_are_no_object() -> None:
    with pytest.raises(
        ValueError, match=r"not an object|Expecting value"
    ):  # Python versions differ
        last_object("[" * 5000)
    diagnosis = load_module(ROOT / "solutions/diagnosis/task.py", "task_that_reads_output")
    assert diagnosis._last_json(b"[" * 5000) == {}


def test_unpaired_solution_marker_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"x\.c line 1"):
        strip_solution("/* BEGIN SOLUTION */ int x;\n/* END SOLUTION */\n", "x.c")
    with pytest.raises(ParameterError, match=r"x\.c line 2"):
        strip_solution("int y;\n/* BEGIN SOLUTION */\nint x;\n", "x.c")


def test_public_check_does_not_reveal_the_answer(tmp_path: Path) -> None:
    folder = tmp_path / EXAMPLE
    shutil.copytree(ROOT / "exercises" / EXAMPLE, folder)
    assignment = open_assignment(EXAMPLE, "ada", folder)
    rtt_ms = assignment.numbers["rtt_ms"]
    names: dict[str, object] = {"q1_default_ms": None, "q1_nodelay_ms": None}
    assert "not yet" in repr(assignment.check("q1", names))
    assert re.search(rf"rtt_ms&quot;\] *</td><td[^>]*>{rtt_ms} ", assignment._repr_html_())
    names = {"q1_default_ms": 7 * rtt_ms, "q1_nodelay_ms": rtt_ms}
    result = assignment.check("q1", names)
    shown = repr(result)
    assert result is not None
    assert result._repr_html_() == f"<p>{shown}</p>"
    assert "recorded, not judged" in shown
    assert str(2 * rtt_ms + 40) not in shown
    with pytest.raises(ParameterError, match="question of small-writes 'q99' is not known"):
        assignment.check("q99")


#: Values that learners assign by mistake, as the sandbox returns them.
ODD: list[Any] = [
    *(None, True, -1, 0, 0.5, 10**18, 1e308, "", "cork", [], [None], [1], {}, [[1]] * 4),
    *([0] * 3, [1] * 4, [-1] * 4, ["x"] * 3, [1448, 1448], list(range(200))),
    *({"unsupported": "Yes"}, [{"unsupported": "Yes"}] * 3),
]


@pytest.mark.parametrize("name", NAMES)
def test_no_draw_repeats_the_public_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that suits only the parameters of the public check must fail in grading."""
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    judge = load_module(source / "hidden" / "judge.py", f"tcplab_judge_{name}_of_a_test")
    ran: list[object] = []
    for module in (task.module, judge.task):
        for function in [word for word in vars(module) if re.match("(look_at|judge)_", word)]:
            as_called = inspect.signature(getattr(module, function))

            def note(
                *given: object, _as: inspect.Signature = as_called, **named: object
            ) -> Verdict:
                _submission, *parameters = _as.bind(*given, **named).arguments.values()
                ran.append([getattr(p, "__dict__", p) for p in parameters])
                return Verdict(1, "")

            monkeypatch.setattr(module, function, note)
    for question in each([question for question, asked in task.answers.items() if not asked]):
        for student in range(2000):
            numbers = task.numbers(f"s{student}")
            work = Submission(f"s{student}", numbers, {}, {}, folder=source)
            check = task.public_check(question)
            assert check is not None
            check(work)
            getattr(judge, question)(work)
            public, drawn = ran
            assert public != drawn, numbers
            ran.clear()


@pytest.mark.parametrize("name", NAMES)
def test_judges_and_public_checks_take_any_data(name: str) -> None:
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    judge = load_module(source / "hidden" / "judge.py", f"tcplab_judge_{name}_of_a_test")
    for question, asked in each(task.answers.items()):
        check, own = task.public_check(question), getattr(judge, question)
        for value in ODD if asked else []:
            answers = dict.fromkeys(task.names, value)
            with Submission("ada", task.numbers("ada"), answers, {}, folder=source) as work:
                for verdict in [own(work), *([check(work)] if check else [])]:
                    assert verdict.share is not None, (question, value)
                    assert "\n" not in verdict.message, (question, value)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "the-lab"])
def test_public_check_of_a_choice_accepts_every_option(name: str) -> None:
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    module = load_module(source / "task.py", f"tcplab_task_{name}_of_a_test")
    options = next(
        getattr(module, name) for name in ("REASONS", "FIXES", "CAUSES") if hasattr(module, name)
    )
    (asked,) = (one for one in task.names if one.endswith(("_reason", "_fix", "_cause", "_causes")))
    check = task.public_check(asked.split("_")[0])
    assert check is not None
    verdicts = set()
    for option in (*options, options[0].upper()):
        answers: dict[str, Any] = dict.fromkeys(task.names, 7)
        answers[asked] = [option] * 3 if asked.endswith("causes") else option
        with Submission("ada", task.numbers("ada"), answers, {}, folder=source) as work:
            verdicts.add(check(work))
    assert len(verdicts) == 1
    assert verdicts.pop().passed


def test_numbers_of_numpy_are_numbers_in_both_checks(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "exercises" / "segments", tmp_path / "segments")
    assignment = open_assignment("segments", "ada", folder)
    for value in (np.int64(1448), np.float64(1448), np.array(1448), 1448):
        assert "recorded, not judged" in repr(assignment.check("q4", {"q4_full_bytes": value}))


#: Impossible numbers of the kinds that are asked for.
IMPOSSIBLE = [-3, -3.5, 10**10]


@pytest.mark.parametrize("name", NAMES)
def test_public_checks_refuse_impossible_answers(name: str) -> None:
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    numbers = task.numbers("ada")
    for question, asked in each(task.answers.items()):
        check = task.public_check(question)
        if not any(one.endswith(("_ms", "_segments", "_bytes", "_percent")) for one in asked):
            continue
        assert check is not None, question
        for value in IMPOSSIBLE:
            answers: dict[str, Any] = dict.fromkeys(task.names)
            for one in asked:
                answers[one] = (
                    [value] * 3 if name == "diagnosis" and question in ("q5", "q6") else value
                )
            with Submission("ada", numbers, answers, {}, folder=source) as work:
                assert check(work).share == 0, (question, value)


@pytest.mark.parametrize("name", NAMES)
def test_public_checks_accept_the_right_calculation_of_any_student(name: str) -> None:
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    cells = [
        (cell.metadata.nbgrader.grade_id.partition("-")[0], cell.source)
        for cell in nbformat.read(source / f"{name}.ipynb", as_version=4).cells
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution")
    ]
    calculated = each(itertools.takewhile(lambda cell: "capture" not in cell[1], cells))
    for student in map(str, range(60)):
        numbers = task.numbers(student)
        answers: dict[str, Any] = {"n": numbers}
        for _, lines in calculated:
            exec(lines, answers)
        with Submission(student, numbers, answers, {}, folder=source) as work:
            for question, _ in calculated:
                check = task.public_check(question)
                assert check is not None
                assert check(work).passed, (student, check(work))


#: Expressions that would give an answer away, so learners' files must not contain them.
ANSWERS_IN_TASKS = {
    "pipes": ("5 * copy", "chain_cost"),
    "tcp-vs-udp": ('"kept"', "receive_buffer_grant"),
    "small-writes": ("write each record at once", "or cork"),
    "sendfile": ("0x7FFFF000", "2147479552"),
    "diagnosis": ("_PAIRS",),
    "slow-start": ("mathis", "def flights", "1.31"),
    "queues": ("jain_index", "sawtooth", "NOTSENT", '== "CE" or'),
    "real-programs": ("SHUT_WR", "fork", "poll"),
}


@pytest.mark.parametrize("name", list(ANSWERS_IN_TASKS))
def test_what_learners_get_holds_no_answer(name: str) -> None:
    released = (ROOT / "exercises" / name / "task.py").read_text().replace("_", "")
    for answer in ANSWERS_IN_TASKS[name]:
        assert answer.replace("_", "") not in released


@pytest.mark.parametrize("name", NAMES)
def test_lesson_links_to_its_set(name: str) -> None:
    assert f"](../exercises/{name}/{name}.ipynb)" in BY_SLUG[name].read_text()


@pytest.mark.parametrize("name", NAMES)
def test_exercise_is_its_solution_without_the_answers(name: str, tmp_path: Path) -> None:
    """If this fails, a solution was changed without running `make exercises`.

    tests/slow/grading/test_exercises.py lets nbgrader make the exercises.
    """
    release_by_hand(ROOT / "solutions" / name, tmp_path / name)
    expected, handed_out = (files_of(top / name) for top in (tmp_path, ROOT / "exercises"))
    by_hand, given = (
        [
            (cell["id"], "".join(cell["source"]).strip())
            for cell in json.loads(files.pop(f"{name}.ipynb"))["cells"]
        ]
        for files in (expected, handed_out)
    )
    assert by_hand == given
    assert handed_out.keys() == expected.keys()
    assert [path for path in expected if expected[path] != handed_out[path]] == []
