"""Test panels in JupyterLab, in Notebook 7, and in the widget manager of VS Code.

VS Code with its Jupyter extension cannot be installed from a package registry. Its part that shows
widgets, `@vscode/jupyter-ipywidgets8`, can. Here that part runs on a separate page with a kernel.
(Voilà shows the demos, in test_in_the_browser.py.)
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.slow.browser.test_in_the_browser import (
    IS_IN_VIEW,
    button,
    move_by_arrows,
    run,
    wait_for,
)
from tests.support.browser.jupyter import (
    Jupyter,
    choose,
    keep,
    npm_package,
    run_notebook,
    tab_of,
    write_notebook,
)
from tests.support.lessons import BY_SLUG, cells

from tcplab.course.predictions import NOBODY_ANSWERS, earlier

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.timeout(600)]

IMPORT = "from tcplab import widgets\n"
CELLS = [IMPORT + "widgets.small_writes()"]
PAGE = Path(__file__).parent / "widgets_of_vscode.html"
LESSON = BY_SLUG["small-writes"]
TALL = {"width": 1280, "height": 1600}
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
    with tab_of(browser, f"front-end-{request.param}", viewport=TALL) as page:
        if request.param == "vscode":
            open_widgets_of_vscode(page, jupyter, tmp_path_factory, CELLS)
        else:
            run_notebook(page, jupyter, "widgets.ipynb", OPENERS[request.param])
        button(page.locator(".tcplab-panel"), "Run").wait_for()
        yield page
    jupyter.end_kernel("widgets.ipynb")


def open_widgets_of_vscode(
    page: Page, jupyter: Jupyter, tmp_path_factory: pytest.TempPathFactory, sources: list[str]
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
    # The server provides this page, because a page that Playwright makes up may not open a
    # WebSocket on this machine.
    page.goto(f"{jupyter.url}static/style/index.css#{urllib.parse.quote(json.dumps(sources))}")
    page.set_content(PAGE.read_text())


def test_panel_runs_in_every_front_end(page: Page) -> None:
    panel = page.locator(".tcplab-panel").first
    slider, box = panel.get_by_role("slider").first, panel.get_by_role("spinbutton").first
    move_by_arrows(slider, box)
    run(panel)
    figure = panel.locator("tcplab-figure").first
    figure.locator("svg .part[tabindex='0']").focus()
    hint = figure.get_by_role("status").text_content()
    page.keyboard.press("ArrowRight")
    wait_for(figure.get_by_role("status"), f"status => status.textContent !== {json.dumps(hint)}")
    panel.locator(".tcplab-model svg").wait_for(state="attached")


@pytest.fixture
def course(chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jupyter]:
    """Start a server of the lessons, which show their recordings and ask for guesses."""
    del chromium
    monkeypatch.delenv(NOBODY_ANSWERS, raising=False)
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with contextlib.closing(Jupyter(tmp_path)) as server:
        yield server


@pytest.mark.parametrize("opener", OPENERS)
def test_fields_for_guesses_and_quiz_work(browser: Any, course: Jupyter, opener: str) -> None:
    with tab_of(browser, f"guesses-{opener}", viewport={"width": 1280, "height": 720}) as page:
        run_notebook(page, course, LESSON.name, OPENERS[opener])
        fields = page.locator(".jp-OutputArea-output").get_by_label(re.compile("^Your guess"))
        skip = page.locator(".jp-OutputArea-output").get_by_role("button", name="Skip")
        page.get_by_text("Guess first, or skip.").wait_for()  # "Run All" stopped at a question
        assert fields.count() == len(earlier("small-writes"))
        wait_for(fields.first, "field => field === document.activeElement")
        assert fields.first.evaluate(IS_IN_VIEW)  # although the page was at the end of the notebook
        page.keyboard.type("soon\n")
        page.get_by_text("“soon” must be a number").wait_for()
        for each_skip in skip.all():
            each_skip.click()
        page.get_by_text("Go on with the next cell.").wait_for()
        choose(page, "Run", "Run All Cells")
        page.get_by_label("Your guess (ms per message)").first.wait_for()
        keep(page, f"fields-{opener}")
        fields.first.fill("12")
        fields.first.press("Enter")
        skip.last.click()
        page.get_by_text("Go on with the next cell.").last.wait_for()
        keep(page, f"answered-{opener}")
        choose(page, "Run", "Run All Cells")  # goes on to the later question
        page.get_by_text("15 writes at an RTT of 20 ms (ms per message)").first.wait_for()
        fields.first.wait_for()
        text = page.locator(".jp-RenderedMarkdown")
        right = text.get_by_text("✓ Right. Write, write, read.")
        assert not right.is_visible()
        text.get_by_text("write 4, write 100, read the reply").click()
        right.wait_for()
    stored = json.loads((course.lessons / "predictions.json").read_text())
    assert stored["small-writes"] == {"default": 12, "writev": None}


def test_lesson_runs_with_the_widgets_of_vscode(
    browser: Any, course: Jupyter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with tab_of(browser, "lesson-vscode", viewport=TALL) as page:
        open_widgets_of_vscode(page, course, tmp_path_factory, cells(LESSON, "code"))
        page.locator("body[data-ran=all]").wait_for()
        assert not page.title().startswith("failed"), page.title()
        run(page.locator(".tcplab-panel"))
    (path,) = course.lessons.parent.rglob("predictions.json")
    stored = json.loads(path.read_text())
    assert set(stored["small-writes"].values()) == {None}
