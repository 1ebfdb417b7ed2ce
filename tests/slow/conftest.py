"""Chromium and the tiny course, for the tests that need them."""

from tests.support.browser.fixtures import browser, chromium
from tests.support.grading.fixtures import tiny

__all__ = ["browser", "chromium", "tiny"]
