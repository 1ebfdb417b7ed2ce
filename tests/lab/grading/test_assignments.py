"""Test every problem set: its solution gets full marks, the untouched exercise nothing, and some
known mistakes get their declared score."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.grading.sets import EXAMPLE, NAMES, SOURCES
from tests.support.paths import ROOT

from tcplab.grading.trial import Trial

#: One mistake of each kind; tests/slow/grading/test_mutants.py tries all.
SAMPLE = {
    "fraction-instead-of-percent": "an answer that earns a part",
    "counts-both-directions": "lines after those of the reference",
    "nagle-behind-decoys": "a program that is seen on the wire",
    "does-not-compile": "a program that cannot be run",
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_solution_gets_full_marks_and_untouched_exercise_nothing(source: Path) -> None:
    """Run both trials at the same time. They mostly wait, and must not disturb each other."""
    trial = Trial(source)
    with ThreadPoolExecutor(2) as threads:
        reference, untouched = threads.map(trial.run, ("reference", "untouched"))
    assert reference.as_expected, reference
    assert reference.total == trial.full
    assert list(reference.flags) == []
    assert untouched.as_expected, untouched
    assert set(untouched.scores.values()) == {0.0}


@pytest.mark.needs_lab
@pytest.mark.parametrize("mutant", SAMPLE)
def test_known_mistake_gets_its_score(mutant: str) -> None:
    tried = Trial(ROOT / "solutions" / EXAMPLE).run(mutant)
    assert tried.as_expected, tried
