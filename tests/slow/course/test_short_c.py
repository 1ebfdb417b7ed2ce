"""Each check of a lesson's short C program judges the other right and wrong changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.short_c import CHECKS, assert_judged_as_expected, first_two

CHANGES = [(slug, name) for slug, cases in CHECKS.items() for name in cases]


@pytest.mark.needs_lab
@pytest.mark.parametrize(("slug", "name"), [c for c in CHANGES if c not in first_two()])
def test_changed_program_is_judged(slug: str, name: str, tmp_path: Path) -> None:
    assert_judged_as_expected(slug, name, tmp_path)
