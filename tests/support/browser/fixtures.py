"""Provide Chromium, driven by Playwright. Tests are skipped if either is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.browser.jupyter import need_chromium


@pytest.fixture(scope="module")
def chromium() -> str:
    return need_chromium()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    # Playwright ends with the test module, because no other asyncio loop can start while it runs.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium)
        yield running
        running.close()
