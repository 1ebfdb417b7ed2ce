"""Fixtures for the slow tests: a browser, axe-core, the tiny course, the C programs, and others."""

import pytest
from tests.lab.conftest import lab
from tests.lab.widgets.conftest import mark
from tests.support.browser.fixtures import axe, browser, chromium
from tests.support.grading.fixtures import tiny
from tests.support.programs.fixtures import installed, sanitized_directory
from tests.support.programs.harness import Programs

__all__ = ["axe", "browser", "chromium", "installed", "lab", "mark", "sanitized_directory", "tiny"]


@pytest.fixture(scope="session")
def programs(installed: Programs) -> Programs:
    """Use the installed programs in the slow tests; tests/lab/programs uses the sanitized ones."""
    return installed
