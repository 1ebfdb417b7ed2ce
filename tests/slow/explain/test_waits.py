"""The cases of tests/lab/explain/test_waits.py that repeat a statement."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.explain.test_waits import FAULTS, HEALTHY, SLOW
from tests.support.explain.cases import check

pytestmark = pytest.mark.needs_lab


@pytest.mark.parametrize("name", SLOW)
def test_case_gets_its_verdict(name: str, tmp_path: Path) -> None:
    check(FAULTS[name] if name in FAULTS else HEALTHY[name], tmp_path)
