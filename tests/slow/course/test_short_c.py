"""Test the checks of the short C programs with the changes that tests/lab/course leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.short_c import CHECKS, assert_judged_as_expected, first_two

CHANGES = [(slug, name) for slug, cases in CHECKS.items() for name in cases]


@pytest.mark.needs_lab
@pytest.mark.parametrize(("slug", "name"), [c for c in CHANGES if c not in first_two()])
def test_changed_program_gets_the_expected_verdict(slug: str, name: str, tmp_path: Path) -> None:
    assert_judged_as_expected(slug, name, tmp_path)
