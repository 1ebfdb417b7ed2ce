"""Find the accessibility problems of a page with axe-core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.browser.jupyter import npm_package

if TYPE_CHECKING:
    from playwright.sync_api import Page

_PACKAGE = "axe-core@4"


def fetch(directory: Path) -> str:
    """Return axe-core's script, fetched through npm; skip the test if that fails."""
    return (npm_package(_PACKAGE, directory) / "axe.min.js").read_text()


def findings(page: Page, axe: str, *within: str) -> list[str]:
    """Return the violations that axe finds in the parts of the page selected by `within`."""
    page.evaluate(axe)
    result = page.evaluate(
        "within => axe.run({ include: within }, { resultTypes: ['violations'] })",
        [[selector] for selector in within],
    )
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary']}"
        for violation in result["violations"]
        for node in violation["nodes"]
    ]
