"""Cheating is contained and flagged: submissions that attack, with their exact scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, judge_submission
from tests.support.grading.hostile import ATTACKS

from tcplab.grading.judging import Judge
from tcplab.grading.sandbox import Limits

#: Tight, so that what can only be stopped by a limit is stopped soon.
LIMITS = Limits(
    wall_s=60,
    cpu_s=6,
    memory_bytes=400 << 20,
    processes=24,
    folder_bytes=32 << 20,
    file_bytes=16 << 20,
    output_bytes=1 << 20,
    result_bytes=1 << 20,
)


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_gains_nothing_and_is_flagged(name: str, tiny: Tiny, tmp_path: Path) -> None:
    attack = ATTACKS[name]
    submission = tiny.hand_in(tmp_path)
    attack.do(submission)
    judge = Judge(tiny.source, limits=LIMITS)
    report = judge_submission(
        judge, tiny.exercise, submission, "ada", cell_timeout_s=attack.cell_timeout_s
    )
    expected = {"q1": 0.0, "q2": attack.q2, "q3": 2.0}
    if name.startswith("c-"):
        expected = {"q1": 2.0, "q2": 1.0, "q3": 0.0}
    if name == "races-with-files":  # whichever of the two files is there at the end
        expected["q3"] = report.scores["q3"] or 0.0
    assert report.scores == expected, report
    assert any(flag.startswith(attack.flag) for flag in report.flags), report.flags
    shown = "\n".join([*report.messages.values(), *report.flags, *report.repairs])
    assert "the-hidden-judge-was-read" not in shown


def test_innocent_submission_raises_no_flag(tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path)
    source = "\n".join(
        [
            "import math, os, subprocess  # an honest cell, with honest tools",
            "print(os.getcwd(), subprocess.run(['cc', '--version'], check=False).returncode)",
            "from tcplab.models import bdp_bytes",
            "assert bdp_bytes(100, 20) == 250_000",
            "q1_sum = n['a'] + n['b']",
        ]
    )
    changed(set_source("q1-answer", source))(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert report.scores["q1"] == 2.0
    assert report.flags == []
