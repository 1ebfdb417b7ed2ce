"""Some damaged submissions, judged: each gets its exact score. tests/slow has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.damaged import assert_scored
from tests.support.grading.fixtures import Tiny, judge_submission

#: One of each kind: cells, the file, honest code that fails, the C file.
SAMPLE = (
    "all-tests-deleted",
    "half-written-json",
    "os-exit-in-a-cell",
    "answer-is-numpy",
    "c-file-does-not-compile",
    "c-file-crashes",
)


def test_good_submission_gets_all_points_and_no_notes(tiny: Tiny, tmp_path: Path) -> None:
    report = judge_submission(tiny.judge, tiny.exercise, tiny.hand_in(tmp_path), "ada")
    assert report.scores == {"q1": 2.0, "q2": 1.0, "q3": 2.0}
    assert report.repairs == []
    assert report.flags == []
    assert report.untouched_tasks == []


def test_untouched_submission_gets_nothing(tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path, solved=False)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert report.scores == {"q1": 0.0, "q2": 0.0, "q3": 0.0}
    assert report.untouched_tasks == ["w1"]


@pytest.mark.parametrize("name", SAMPLE)
def test_damaged_submission_gets_its_score(name: str, tiny: Tiny, tmp_path: Path) -> None:
    assert_scored(name, tiny, tmp_path)
