"""Test the problem sets' tasks, judges and public checks, without running a program or notebook."""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.grading.sets import EXAMPLE, NAMES, SHIPPED, files_of
from tests.support.grading.tiny import release_by_hand
from tests.support.paths import DATA, ROOT

from tcplab.errors import ParameterError
from tcplab.grading import open_assignment
from tcplab.grading.assignment import Task, load_module
from tcplab.grading.release import new_assignment, strip_solution
from tcplab.grading.rules import broken_rules
from tcplab.grading.submission import Submission
from tcplab.grading.trial import Trial
from tcplab.programs.pair import last_object


@pytest.mark.parametrize("name", NAMES)
def test_assignment_keeps_the_rules_of_every_assignment(name: str) -> None:
    assert broken_rules(Trial(ROOT / "solutions" / name)) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_set_has_twenty_points(name: str) -> None:
    tried = Trial(ROOT / "solutions" / name)
    assert sum(tried.all_points.values()) == (4 if name == "the-lab" else 20)
    assert len(tried.mutants) >= 5


#: Changes of a new assignment, and a rule that each breaks.
BROKEN = tomllib.loads((DATA / "broken-rules.toml").read_text())["rules"]


@pytest.mark.parametrize(("file", "old", "new", "rule"), BROKEN)
def test_broken_rule_says_what_to_do(
    file: str, old: str, new: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Bytecode of the same second and size as the changed file would be taken for its own.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = new_assignment(tmp_path, "mine")
    assert broken_rules(Trial(source)) == []
    text = (source / file).read_text()
    assert old in text
    (source / file).write_text(text.replace(old, new))
    assert [sentence for sentence in broken_rules(Trial(source)) if rule in sentence]


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


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "the-lab"])
def test_public_check_of_a_choice_accepts_every_option(name: str) -> None:
    source = ROOT / "solutions" / name
    task = Task(source / "task.py", name)
    module = load_module(source / "task.py", f"tcplab_task_{name}_of_a_test")
    options = next(
        getattr(module, name) for name in ("REASONS", "FIXES", "CAUSES") if hasattr(module, name)
    )
    (asked,) = (one for one in task.names if one.endswith(("_reason", "_fix", "_cause", "_causes")))
    verdicts = set()
    for option in (*options, options[0].upper()):
        answers: dict[str, Any] = dict.fromkeys(task.names, 7)
        answers[asked] = [option] * 3 if asked.endswith("causes") else option
        with Submission("ada", task.numbers("ada"), answers, {}, folder=source) as work:
            verdicts.add(task.check(asked.split("_")[0], work))
    assert len(verdicts) == 1
    assert verdicts.pop().passed


def test_numbers_of_numpy_are_numbers_in_both_checks(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "exercises" / "segments", tmp_path / "segments")
    assignment = open_assignment("segments", "ada", folder)
    for value in (np.int64(1448), np.float64(1448), np.array(1448), 1448):
        assert "recorded, not judged" in repr(assignment.check("q4", {"q4_full_bytes": value}))


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


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name in SHIPPED or (ROOT / "exercises" / name).is_dir()]
)
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
