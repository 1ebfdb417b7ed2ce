"""Test problem sets: the solution gets full marks, the untouched exercise nothing, and some known
mistakes get their declared score. tests/slow/grading/test_sets.py tries all sets."""

from pathlib import Path

import pytest
from tests.support.grading.sets import EXAMPLE, FEW
from tests.support.grading.tried import (
    program_of_another_course_fails,
    solution_gets_full_marks_and_untouched_exercise_nothing,
)
from tests.support.paths import ROOT

from tcplab.grading.trial import Trial

pytestmark = pytest.mark.needs_lab

#: One mistake of each kind; tests/slow/grading/test_mutants.py tries all.
SAMPLE = {
    "fraction-instead-of-percent": "an answer that earns a part",
    "takes-every-ack-for-a-delayed-one": "lines after those of the reference",
    "nagle-behind-decoys": "a program that is seen on the wire",
    "does-not-compile": "a program that cannot be run",
}


@pytest.mark.parametrize("name", FEW)
def test_solution_gets_full_marks_and_untouched_exercise_nothing(name: str) -> None:
    solution_gets_full_marks_and_untouched_exercise_nothing(name)


def test_program_of_another_course_fails(tmp_path: Path) -> None:
    program_of_another_course_fails(EXAMPLE, tmp_path)


@pytest.mark.parametrize("mutant", SAMPLE)
def test_known_mistake_gets_its_score(mutant: str) -> None:
    tried = Trial(ROOT / "solutions" / EXAMPLE).run(mutant)
    assert tried.as_expected, tried
