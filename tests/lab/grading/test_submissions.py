"""Judge good, damaged and hostile submissions; tests/slow tries every damage and attack."""

from pathlib import Path

import pytest
from tests.support.grading.damaged import assert_scored, changed, set_source
from tests.support.grading.fixtures import Tiny, judge_submission
from tests.support.grading.hostile import assert_repelled

#: At least one damage of each kind: cells, the file, honest code that fails, the C file.
DAMAGED = (
    "all-tests-deleted",
    "half-written-json",
    "os-exit-in-a-cell",
    "answer-is-numpy",
    "c-file-does-not-compile",
    "c-file-prints-two-megabytes",
)
#: At least one attack of each kind: fooling checks, reading, forging, exhausting resources,
#: escaping, and the C file.
HOSTILE = (
    "patched-checks",
    "reads-users-of-the-machine",
    "writes-the-result-channel",
    "forged-points-and-scores-in-the-metadata",
    "fork-bomb",
    "kills-everybody",
    "c-reads-the-judge",
)
INNOCENT = """
import math, os, subprocess  # an honest cell, with honest tools
print(os.getcwd(), subprocess.run(['cc', '--version'], check=False).returncode)
from tcplab.models import bdp_bytes
assert bdp_bytes(100, 20) == 250_000
q1_sum = n['a'] + n['b']
"""


def test_good_submission_gets_all_points_and_no_notes(tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path)
    changed(set_source("q1-answer", INNOCENT))(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert report.scores == {"q1": 2.0, "q2": 1.0, "q3": 2.0}
    assert report.repairs == report.flags == report.untouched_tasks == []


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_submission_gets_its_score(name: str, tiny: Tiny, tmp_path: Path) -> None:
    assert_scored(name, tiny, tmp_path)


@pytest.mark.parametrize("name", HOSTILE)
def test_attack_gains_nothing_and_is_flagged(name: str, tiny: Tiny, tmp_path: Path) -> None:
    assert_repelled(name, tiny, tmp_path)
