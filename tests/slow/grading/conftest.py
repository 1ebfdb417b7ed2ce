"""The grader's fixtures, and time for nbgrader, a compiler and a laboratory in each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.grading.fixtures import course, sandbox_or_skip

__all__ = ["course", "sandbox_or_skip"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this directory without a limit of its own ten minutes."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
