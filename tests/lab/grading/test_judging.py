"""Judging ends in time, whatever a submission does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, judge_submission

from tcplab.grading import judging


def test_program_has_no_more_time_than_its_submission(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = tiny.hand_in(tmp_path)
    (submission / "total.c").write_text("int main(void) { for (;;) ; }\n")
    monkeypatch.setattr(judging, "JUDGING_S", 0.5)
    monkeypatch.setattr(judging, "CELLS_S", 1.0)
    changed(set_source("q1-answer", "import time; time.sleep(0.6); q1_sum = 1"))(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert set(report.scores.values()) == {None}
    assert report.messages["q3"] == "not judged in the 0.5 s there are; a person decides."
    assert "time-used-up: more than 0.5 s" in report.flags
