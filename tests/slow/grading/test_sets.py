"""The statements that tests/lab makes about a few problem sets hold for all of them."""

import shutil
from pathlib import Path

import pytest
from tests.lab.grading.test_scapy_lines import OF_TCP, lines_agree_with_the_segments
from tests.support.grading.sets import NAMES, SHIPPED
from tests.support.grading.tried import (
    packet_is_judged_by_the_kernels_answer,
    program_of_another_course_fails,
    solution_gets_full_marks_and_untouched_exercise_nothing,
)
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading import open_assignment
from tcplab.grading.assignment import Task
from tcplab.grading.drawing import solved
from tcplab.grading.trial import Mutant, Trial

pytestmark = pytest.mark.needs_lab


@pytest.mark.parametrize("name", NAMES)
def test_solution_gets_full_marks_and_untouched_exercise_nothing(name: str) -> None:
    solution_gets_full_marks_and_untouched_exercise_nothing(name)


@pytest.mark.parametrize("name", NAMES)
def test_program_of_another_course_fails(name: str, tmp_path: Path) -> None:
    program_of_another_course_fails(name, tmp_path)


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "the-lab"])
def test_a_packet_is_judged_by_the_kernels_answer(name: str) -> None:
    packet_is_judged_by_the_kernels_answer(name)


@pytest.mark.parametrize("name", OF_TCP)
def test_the_scapy_lines_of_a_set_agree_with_the_segments(name: str, tmp_path: Path) -> None:
    lines_agree_with_the_segments(name, tmp_path, 12)


def test_server_that_leaves_its_port_in_time_wait_gets_full_marks() -> None:
    trial = Trial(ROOT / "solutions" / "real-programs")
    old = "setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)"
    files = {name: [(old, "on == 0)")] for name in ("intake.c", "desk.c")}
    trial.mutants = {"no-reuse": Mutant(files=files)}
    tried = trial.run("no-reuse", questions=["q6", "q7"])
    assert tried.as_expected, tried


@pytest.mark.parametrize("name", NAMES)
def test_public_checks_accept_the_solution(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = ROOT / "solutions" / name, tmp_path / name
    shutil.copytree(ROOT / "exercises" / name, folder)
    for program in (source / "hidden").glob("*.c"):
        shutil.copy(program, folder)
    monkeypatch.chdir(folder)
    assignment = open_assignment(name, "ada", folder)
    answers = solved(source, assignment.numbers)
    for question in each(Task(source / "task.py", name).answers):
        result = assignment.check(question, answers)
        assert result is not None
        assert result.verdict.passed, result
