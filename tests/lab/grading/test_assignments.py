"""Every assignment: its solution gets full marks, the untouched exercise none, mistakes what they
are said to. And the exercises in the repository are what their source makes of them."""

from __future__ import annotations

import filecmp
import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.grading.fixtures import quiet
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.errors import ParameterError
from tcplab.grading.assignment import Task, load_module
from tcplab.grading.generate import generate
from tcplab.grading.release import strip_solution
from tcplab.grading.submission import Submission
from tcplab.grading.trial import Trial, Tried

SOURCES = each(
    path for path in sorted(ROOT.glob("solutions/*")) if (path / f"{path.name}.ipynb").is_file()
)
NAMES = [path.name for path in SOURCES]
#: Whose mutants are tried in every `make test`: the one that exercises every part of the machinery.
ALWAYS = "ps5"


def mutants_of(source: Path) -> list[str]:
    try:
        return list(Trial(source).mutants)
    except Exception:  # a broken assignment fails its own tests, and no others
        return []


MUTANTS = each((path.name, mutant) for path in SOURCES for mutant in mutants_of(path))


def _always(name: str, mutant: str) -> bool:
    return name == ALWAYS and not mutant.startswith("never-ends")


@pytest.fixture(scope="module")
def references() -> dict[str, Tried]:
    return {}


def trial(name: str) -> Trial:
    return Trial(ROOT / "solutions" / name)


def reference(name: str, references: dict[str, Tried]) -> Tried:
    if name not in references:
        references[name] = trial(name).run("reference")
    return references[name]


def run_changed(trial: Trial, name: str, reference: Tried, student: str = "ada") -> Tried:
    """Tries a mutant, but takes what it does not change from the reference.

    A question without variables is about files alone, the others about the notebook alone.
    """
    mutant = trial.mutants[name]
    answers = Task(trial.source / "task.py", trial.name).answers
    by_file = {question for question in trial.points if not answers.get(question)}
    changed = by_file if mutant.files else set()
    if mutant.answers or mutant.then:
        changed = changed | (set(trial.points) - by_file)
    tried = trial.run(name, student, questions=sorted(changed))
    return replace(
        tried,
        scores={**reference.scores, **tried.scores},
        messages={**reference.messages, **tried.messages},
    )


@pytest.mark.parametrize("name", NAMES)
def test_reference_solution_gets_full_marks(name: str, references: dict[str, Tried]) -> None:
    tried = reference(name, references)
    assert tried.as_expected, tried
    assert tried.total == trial(name).full
    assert list(tried.flags) == []


@pytest.mark.parametrize("name", NAMES)
def test_untouched_exercise_gets_nothing(name: str) -> None:
    tried = trial(name).run("untouched")
    assert tried.as_expected, tried
    assert set(tried.scores.values()) == {0.0}


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        pytest.param(*mutant, marks=[] if _always(*mutant) else [pytest.mark.classroom])
        for mutant in MUTANTS
    ],
)
def test_known_mistake_gets_its_score(name: str, mutant: str, references: dict[str, Tried]) -> None:
    tried = run_changed(trial(name), mutant, reference(name, references))
    assert tried.as_expected, tried


@pytest.mark.parametrize("name", NAMES)
def test_assignment_is_complete(name: str) -> None:
    tried = trial(name)
    assert tried.all_points == (4 if name == "ps0" else 20)
    assert len(tried.mutants) >= 5
    task = Task(ROOT / "solutions" / name / "task.py", name)
    assert set(task.answers) == set(tried.points)
    # Numbers are plain data, and differ: answers can't be passed on.
    made = [json.dumps(task.numbers(student)) for student in ("ada", "bob", "carla", "dan")]
    assert len(set(made)) == 4
    assert task.numbers(" ADA ") == task.numbers("ada")


# ---- generation ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("exercises")
    with quiet():
        assert generate(ROOT, target) == NAMES
    return target


@pytest.mark.parametrize("name", NAMES)
def test_exercises_are_up_to_date(name: str, generated: Path) -> None:
    difference = filecmp.dircmp(generated / name, ROOT / "exercises" / name)
    fresh, stored = (_files(folder / name) for folder in (generated, ROOT / "exercises"))
    assert fresh == stored, f"run `make exercises`: {difference.diff_files or difference.left_only}"


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and ".ipynb_checkpoints" not in path.parts
    }


@pytest.mark.parametrize("name", NAMES)
def test_released_files_have_no_solutions(name: str, generated: Path) -> None:
    released = _files(generated / name)
    assert not any("hidden" in path or "judge" in path or "mutants" in path for path in released)
    for path, data in each(released.items()):
        assert b"SOLUTION" not in data, path
        assert b"MARK SCHEME" not in data, path
    notebook = json.loads(released[f"{name}.ipynb"])
    assert "jupytext" not in notebook["metadata"]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    for cell in each(notebook["cells"]):
        own = cell["metadata"].get("nbgrader", {})
        # The names of cells in the notebook and in the gradebook are the same, and so never drift.
        assert own.get("grade_id", cell["id"]) == cell["id"]


def test_unpaired_solution_marker_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"x\.c line 1"):
        strip_solution("/* BEGIN SOLUTION */ int x;\n/* END SOLUTION */\n", "x.c")
    with pytest.raises(ParameterError, match=r"x\.c line 2"):
        strip_solution("int y;\n/* BEGIN SOLUTION */\nint x;\n", "x.c")


# ---- the same score, always ----------------------------------------------------------------------


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Every core has something else to do."""
    import os
    import subprocess
    import sys

    spin = [sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.wait()


@pytest.mark.classroom
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_twenty_runs_on_an_idle_machine(name: str) -> None:
    _repeat(name, 20)


@pytest.mark.classroom
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("busy_cores")
@pytest.mark.parametrize("name", NAMES)
def test_twenty_runs_with_every_core_busy(name: str) -> None:
    _repeat(name, 20)


def _repeat(name: str, times: int) -> None:
    tried = trial(name)
    for number in range(times):
        student = f"student-{number}"
        reference = tried.run("reference", student)
        assert reference.as_expected, (number, reference)
        untouched = tried.run("untouched", student)
        assert untouched.as_expected, (number, untouched)
        for mutant in each(tried.mutants):
            if mutant != "never-ends":  # which is the same 8 s every time
                found = run_changed(tried, mutant, reference, student)
                assert found.as_expected, (number, found)


def test_two_trials_at_a_time_get_the_same_scores(references: dict[str, Tried]) -> None:
    alone = reference(ALWAYS, references)
    found: list[Tried] = []
    threads = [
        threading.Thread(target=lambda: found.append(trial(ALWAYS).run("reference")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tried.scores for tried in found] == [alone.scores] * 2


def test_public_check_does_not_reveal_the_answer(tmp_path: Path) -> None:
    from tcplab.grading import open_assignment

    folder = tmp_path / ALWAYS
    shutil.copytree(ROOT / "exercises" / ALWAYS, folder)
    assignment = open_assignment(ALWAYS, "ada", folder)
    rtt_ms = assignment.numbers["rtt_ms"]
    names: dict[str, object] = {"q1_default_ms": None, "q1_nodelay_ms": None}
    assert "not yet" in repr(assignment.check("q1", names))
    assert re.search(rf"rtt_ms&quot;\] *</td><td[^>]*>{rtt_ms} ", assignment._repr_html_())
    names = {"q1_default_ms": 7 * rtt_ms, "q1_nodelay_ms": rtt_ms}
    shown = repr(assignment.check("q1", names))
    assert "recorded, not judged" in shown
    assert str(2 * rtt_ms + 40) not in shown
    shown = repr(assignment.check("q7"))
    assert "not yet" in shown
    assert "held" in shown
    result = assignment.check("q1", names)
    assert result is not None
    assert result._repr_html_() == f"<p>{result}</p>"
    with pytest.raises(ParameterError, match="no question 'q99' in ps5"):
        assignment.check("q99")


#: What learners assign by mistake, as it comes out of the sandbox.
ODD: list[Any] = [
    *(None, True, -1, 0, 0.5, 10**18, 1e308, "", "cork", [], [None], [1], {}, [[1]] * 4),
    *([0] * 3, [1] * 4, [-1] * 4, ["x"] * 3, [1448, 1448], list(range(200))),
    *({"unsupported": "Yes"}, [{"unsupported": "Yes"}] * 3),
]


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


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ps0"])
def test_public_check_of_a_choice_accepts_every_option(name: str) -> None:
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    module = load_module(source / "task.py", f"tcplab_task_{name}_of_a_test")
    words = next(
        getattr(module, name) for name in ("REASONS", "CURES", "CAUSES") if hasattr(module, name)
    )
    (asked,) = (
        one for one in task.names if one.endswith(("_reason", "_cure", "_cause", "_causes"))
    )
    check = task.public_check(asked.split("_")[0])
    assert check is not None
    said = set()
    for word in (*words, words[0].upper()):
        answers: dict[str, Any] = dict.fromkeys(task.names, 7)
        answers[asked] = [word] * 3 if asked.endswith("causes") else word
        with Submission("ada", task.numbers("ada"), answers, {}, folder=source) as work:
            said.add(check(work))
    assert len(said) == 1
    assert said.pop().passed


def test_numbers_of_numpy_are_numbers_in_both_checks() -> None:
    import numpy as np

    from tcplab.grading import open_assignment

    assignment = open_assignment("ps3", "ada", ROOT / "exercises" / "ps3")
    for value in (np.int64(1448), np.float64(1448), np.array(1448), 1448):
        assert "recorded, not judged" in repr(assignment.check("q4", {"q4_full_bytes": value}))


#: Numbers that cannot be, of the kinds that are asked for.
IMPOSSIBLE = [-3, -3.5, 10**10]


@pytest.mark.parametrize("name", NAMES)
def test_public_checks_refuse_what_cannot_be(name: str) -> None:
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
                answers[one] = [value] * 3 if name == "ps8" and question in ("q5", "q6") else value
            with Submission("ada", numbers, answers, {}, folder=source) as work:
                assert check(work).share == 0, (question, value)


#: Of what a judge computes with: not in what learners get.
ANSWERS_IN_TASKS = {
    "ps1": ("5 * copy", "chain_cost"),
    "ps2": ('"kept"', "receive_buffer_grant"),
    "ps5": ("write each record at once", "or cork"),
    "ps7": ("0x7FFFF000", "2147479552"),
    "ps8": ("_PAIRS",),
    "ps9": ("mathis", "def flights", "0.93"),
    "ps10": ("jain_index", "sawtooth", "NOTSENT", '== "CE" or'),
    "ps11": ("SHUT_WR", "fork", "poll"),
}


@pytest.mark.parametrize("name", list(ANSWERS_IN_TASKS))
def test_what_learners_get_holds_no_answer(name: str) -> None:
    released = (ROOT / "exercises" / name / "task.py").read_text().replace("_", "")
    for words in ANSWERS_IN_TASKS[name]:
        assert words.replace("_", "") not in released
