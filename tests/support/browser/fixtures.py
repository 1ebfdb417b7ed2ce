"""Provide Chromium, driven by Playwright, and axe-core. Tests are skipped if one is missing."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.browser.axe import fetch
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


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fetch(tmp_path_factory.mktemp("axe"))
