"""Test the checks of the short C programs with the changes that tests/lab/course leaves out."""

from pathlib import Path

import pytest
from tests.support.short_c import CHANGES, Change, assert_judged_as_expected, few

OTHERS = [change for changes in CHANGES.values() for change in changes if change not in few()]


@pytest.mark.needs_lab
@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_changed_program_gets_the_expected_verdict(change: Change, tmp_path: Path) -> None:
    assert_judged_as_expected(change, tmp_path)
