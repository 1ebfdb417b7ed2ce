"""Every damaged and every hostile submission gets its exact score, repairs and flags."""

from pathlib import Path

import pytest
from tests.support.grading.damaged import DAMAGES, assert_scored
from tests.support.grading.fixtures import Tiny
from tests.support.grading.hostile import ATTACKS, assert_repelled


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_submission_gets_its_expected_score(name: str, tiny: Tiny, tmp_path: Path) -> None:
    assert_scored(name, tiny, tmp_path)


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_gains_nothing_and_is_flagged(name: str, tiny: Tiny, tmp_path: Path) -> None:
    assert_repelled(name, tiny, tmp_path)
