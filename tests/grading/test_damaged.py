"""Damage is repaired or isolated, and never fatal: forty submissions with their exact scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.grading.conftest import Tiny
from tests.grading.damaged import DAMAGES

from tcplab.grading.judging import judge_submission


def test_a_good_submission_gets_all_points_and_no_notes(tiny: Tiny, tmp_path: Path) -> None:
    record = judge_submission(tiny.judge, tiny.released, tiny.hand_in(tmp_path), "ada")
    assert record.scores == {"q1": 2.0, "q2": 1.0, "q3": 2.0}
    assert record.repairs == []
    assert record.flags == []
    assert record.untouched_tasks == []


def test_an_untouched_exercise_gets_nothing(tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path, solved=False)
    record = judge_submission(tiny.judge, tiny.released, submission, "ada")
    assert record.scores == {"q1": 0.0, "q2": 0.0, "q3": 0.0}
    assert record.untouched_tasks == ["w1"]


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged(name: str, tiny: Tiny, tmp_path: Path) -> None:
    damage = DAMAGES[name]
    submission = tiny.hand_in(tmp_path)
    damage.do(submission)
    record = judge_submission(tiny.judge, tiny.released, submission, "ada")
    assert sum(each or 0.0 for each in record.scores.values()) == damage.score, record
    assert None not in record.scores.values()
    for repair in damage.repairs:
        assert any(told.startswith(repair) for told in record.repairs), record.repairs
    for flag in damage.flags:
        assert any(told.startswith(flag) for told in record.flags), record.flags
    if not damage.repairs:
        assert record.repairs == []
    if not damage.flags:
        # An accident must not look like an attack; what a strange notebook says of itself may.
        assert [each for each in record.flags if not each.startswith("locked-cell-changed")] == []
