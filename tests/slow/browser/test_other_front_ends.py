"""Panels in JupyterLab, in Notebook 7, and in the widget manager of VS Code.

VS Code with its Jupyter extension cannot be installed from a package registry; the part of it that
shows widgets can: `@vscode/jupyter-ipywidgets8`, which has a page of its own here, and a kernel.
(Voilà shows the demos, in test_in_the_browser.py.)
"""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.slow.browser.test_in_the_browser import (
    WAIT_MS,
    axe,
    button,
    keep,
    move_by_arrows,
    run,
    wait_for,
)
from tests.support.browser.jupyter import Jupyter, npm_package, run_notebook, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

__all__ = ["axe"]

pytestmark = [pytest.mark.timeout(600)]

IMPORT = "from tcplab import widgets\n"
CELLS = [IMPORT + "widgets.small_writes()"]
PAGE = Path(__file__).parent / "widgets_of_vscode.html"
#: The front ends of Jupyter's server, and the path under which each opens a notebook.
OPENERS = {"lab": "doc/tree", "notebook": "notebooks"}


@pytest.fixture(scope="module")
def jupyter(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    del chromium
    directory = tmp_path_factory.mktemp("jupyter")
    (directory / "served").mkdir()
    write_notebook(directory / "served" / "widgets.ipynb", CELLS)
    with contextlib.closing(Jupyter(directory, directory / "served")) as server:
        yield server


@pytest.fixture(scope="module", params=[*OPENERS, "vscode"])
def page(
    browser: Any,
    jupyter: Jupyter,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Page]:
    """Open a page of each front end, and run its cells."""
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.set_default_timeout(WAIT_MS)
    try:
        if request.param == "vscode":
            open_widgets_of_vscode(page, jupyter, tmp_path_factory)
        else:
            run_notebook(page, jupyter, "widgets.ipynb", OPENERS[request.param])
        button(page.locator(".tcplab-panel"), "Run").wait_for()
        yield page
    finally:
        keep(page, f"front-end-{request.param}")
        page.close()
        if request.param != "vscode":
            jupyter.end_kernel("widgets.ipynb")


def open_widgets_of_vscode(
    page: Page, jupyter: Jupyter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packages = {
        name: npm_package(name, tmp_path_factory.mktemp("npm"))
        for name in ("requirejs", "@jupyterlab/services", "@vscode/jupyter-ipywidgets8")
    }
    files = {
        "require.js": packages["requirejs"] / "require.js",
        "services.js": packages["@jupyterlab/services"] / "dist/dist/index.js",
        "ipywidgets.js": packages["@vscode/jupyter-ipywidgets8"] / "dist/ipywidgets.js",
    }

    def answer(route: Route) -> None:
        name = urllib.parse.urlparse(route.request.url).path.removeprefix("/vscode/")
        share = Path(sys.prefix) / "share/jupyter"
        route.fulfill(path=files.get(name, share / name))

    page.route(f"{jupyter.url}vscode/**", answer)
    # A page of the server: one that Playwright makes up may not open a WebSocket on this machine.
    page.goto(f"{jupyter.url}static/style/index.css#{urllib.parse.quote(json.dumps(CELLS))}")
    page.set_content(PAGE.read_text())


def test_panel_runs(page: Page) -> None:
    panel = page.locator(".tcplab-panel").first
    slider, box = panel.get_by_role("slider").first, panel.get_by_role("spinbutton").first
    move_by_arrows(slider, box)
    run(panel)
    figure = panel.locator("tcplab-figure").first
    figure.locator("svg .part[tabindex='0']").focus()
    hint = figure.get_by_role("status").text_content()
    page.keyboard.press("ArrowRight")
    wait_for(figure.get_by_role("status"), f"words => words.textContent !== {json.dumps(hint)}")
    panel.locator(".tcplab-model svg").wait_for(state="attached")
