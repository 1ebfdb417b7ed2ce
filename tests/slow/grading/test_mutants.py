"""Every known mistake in every problem set gets its declared score."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.grading.sets import NAMES, SOURCES
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading.assignment import Task
from tcplab.grading.trial import Trial, Tried

pytestmark = pytest.mark.needs_lab


def mutants_of(source: Path) -> list[str]:
    try:
        return list(Trial(source).mutants)
    except Exception:  # a broken assignment must fail only its own tests
        return []


MUTANTS = each((path.name, mutant) for path in SOURCES for mutant in mutants_of(path))


def run_changed(trial: Trial, name: str, student: str = "ada") -> Tried:
    """Grade the questions of which a mutant changes the answer.

    A question without variables depends on the files alone, any other on the notebook alone.
    """
    mutant = trial.mutants[name]
    answers = Task(trial.source / "task.py", trial.name).answers
    changed = [
        question
        for question in trial.points
        if (mutant.answers or mutant.then if answers.get(question) else mutant.files)
    ]
    assert set(mutant.loses) <= set(changed)
    return trial.run(name, student, questions=changed)


@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_known_mistake_gets_its_declared_score(name: str, mutant: str) -> None:
    tried = run_changed(Trial(ROOT / "solutions" / name), mutant)
    assert tried.as_expected, tried


# ---- the same score, always: `make test-verdicts` ----


@pytest.fixture(params=["an idle machine", "every core busy"])
def load(request: pytest.FixtureRequest) -> Iterator[str]:
    spin = [sys.executable, "-c", "while True: pass"]
    busy = request.param == "every core busy"
    spinners = [subprocess.Popen(spin) for _ in range((os.cpu_count() or 1) * busy)]
    yield request.param
    for spinner in spinners:
        spinner.kill()
        spinner.wait()


@pytest.mark.classroom
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_same_in_20_runs(name: str, load: str) -> None:
    tried = Trial(ROOT / "solutions" / name)
    for number in range(20):
        student = f"student-{number}"
        reference = tried.run("reference", student)
        assert reference.as_expected, (load, number, reference)
        untouched = tried.run("untouched", student)
        assert untouched.as_expected, (load, number, untouched)
        for mutant in each(tried.mutants):
            if mutant != "never-ends":  # this mutant takes the same 8 s every time
                outcome = run_changed(tried, mutant, student)
                assert outcome.as_expected, (load, number, outcome)
