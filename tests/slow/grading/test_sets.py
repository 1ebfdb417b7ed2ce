"""The statements that tests/lab makes about a few problem sets hold for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.sets import NAMES
from tests.support.grading.tried import (
    packet_is_judged_by_the_kernels_answer,
    program_of_another_course_fails,
    solution_gets_full_marks_and_untouched_exercise_nothing,
)

pytestmark = pytest.mark.needs_lab


@pytest.mark.parametrize("name", NAMES)
def test_solution_gets_full_marks_and_untouched_exercise_nothing(name: str) -> None:
    solution_gets_full_marks_and_untouched_exercise_nothing(name)


@pytest.mark.parametrize("name", NAMES)
def test_program_of_another_course_fails(name: str, tmp_path: Path) -> None:
    program_of_another_course_fails(name, tmp_path)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "the-lab"])
def test_a_packet_is_judged_by_the_kernels_answer(name: str) -> None:
    packet_is_judged_by_the_kernels_answer(name)
