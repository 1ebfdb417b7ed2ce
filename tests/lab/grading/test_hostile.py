"""Some submissions that attack are contained and flagged. tests/slow has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, judge_submission
from tests.support.grading.hostile import assert_repelled

#: One of each kind: fooling checks, reading, forging, using up, getting out, and the C file.
SAMPLE = (
    "patched-checks",
    "reads-users-of-the-machine",
    "writes-the-result-channel",
    "forged-points-and-scores-in-the-metadata",
    "fork-bomb",
    "kills-everybody",
    "c-reads-the-judge",
)


@pytest.mark.parametrize("name", SAMPLE)
def test_attack_gains_nothing_and_is_flagged(name: str, tiny: Tiny, tmp_path: Path) -> None:
    assert_repelled(name, tiny, tmp_path)


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
