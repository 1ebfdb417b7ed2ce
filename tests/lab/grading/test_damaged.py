"""Damage is repaired or isolated, and never fatal: forty submissions with their exact scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.damaged import DAMAGES
from tests.support.grading.fixtures import Tiny, judge_submission


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


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_submission_gets_its_score(name: str, tiny: Tiny, tmp_path: Path) -> None:
    damage = DAMAGES[name]
    submission = tiny.hand_in(tmp_path)
    damage.do(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert sum(each or 0.0 for each in report.scores.values()) == damage.score, report
    assert None not in report.scores.values()
    for repair in damage.repairs:
        assert any(note.startswith(repair) for note in report.repairs), report.repairs
    for flag in damage.flags:
        assert any(note.startswith(flag) for note in report.flags), report.flags
    if not damage.repairs:
        assert report.repairs == []
    if not damage.flags:
        # An accident must not look like an attack; what a strange notebook says of itself may.
        assert [each for each in report.flags if not each.startswith("locked-cell-changed")] == []
