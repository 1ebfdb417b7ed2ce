"""Open a feedback page full of attacks in Chromium: it does nothing and links nowhere.

MathJax comes from Debian's libjs-mathjax in place of the address from which the page loads it.
"""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbformat import v4
from tests.fast.grading.test_pages import ATTACKS
from tests.support.browser.jupyter import tab_of
from tests.support.grading.fixtures import Tiny, course
from tests.support.lifetime import until
from tests.support.paths import DATA

from tcplab.grading.batch import grade

if TYPE_CHECKING:
    from playwright.sync_api import Route

__all__ = ["course"]  # a fixture
pytestmark = [pytest.mark.timeout(600)]

MATHJAX = Path("/usr/share/javascript/mathjax")
EVIL = "https://evil.example/"
FORMULAS = tomllib.loads((DATA / "formulas.toml").read_text())
TARGETS = (EVIL, "/logout")


def payloads() -> list[str]:
    """Return more than 100 texts, in which `{}` is replaced."""
    inline = FORMULAS["math"]
    forms = [f"${math}$" for math in inline] + [f"$$ {math} $$" for math in inline[:4]]
    forms += FORMULAS["texts"]
    made = [form.replace("{}", target) for form, target in itertools.product(forms, TARGETS)]
    return [*ATTACKS, *made]


def serve(route: Route, asked: list[str]) -> None:
    """Answer from Debian's MathJax, or record the request and abort it."""
    url = route.request.url
    if url.startswith("file:"):
        route.continue_()
    elif "/mathjax/" in url:
        name = url.partition("/2.7.7/")[2].partition("?")[0]
        if name == "latest.js":  # as the original, which first looks for the latest version
            load = url.replace(name, "MathJax.js")
            code = "document.head.appendChild(document.createElement('script')).src = "
            route.fulfill(body=f"{code}'{load}'", content_type="text/javascript")
        else:
            route.fulfill(path=MATHJAX / name)
    else:
        asked.append(url)
        route.abort()


def test_page_of_attacks_does_nothing_and_links_nowhere(
    browser: Any, tiny: Tiny, course: Path
) -> None:
    if not MATHJAX.is_dir():
        pytest.skip("MathJax is not installed: apt install libjs-mathjax")
    texts = payloads()
    assert len(texts) >= 100
    folder = tiny.hand_in(course / "submitted" / "eve")
    notebook = nbformat.read(folder / "tiny.ipynb", as_version=4)
    notebook.cells += [v4.new_markdown_cell(text) for text in [*texts, r"$$\frac{1}{2}$$"]]
    nbformat.write(notebook, folder / "tiny.ipynb")
    run = grade("tiny", course=course, jobs=1)
    assert (run.failed, run.lacking) == ({}, {})
    path = course / "feedback" / "eve" / "tiny" / "tiny.html"
    asked: list[str] = []
    said: list[str] = []

    def dismiss(dialog: Any) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    with tab_of(browser, "hostile-page") as page:
        page.route("**/*", lambda route: serve(route, asked))
        page.on("dialog", dismiss)
        page.goto(path.as_uri())
        # The last formula is typeset last.
        until(lambda: page.locator(".mjx-mfrac").count() > 0, 60)
        page.wait_for_function("MathJax.Hub.queue.pending === 0")
        links = page.eval_on_selector_all(
            "*",
            "all => all.flatMap(one => [...one.attributes])"
            ".filter(a => /href|src|action|data$/.test(a.name)).map(a => a.value)",
        )
        styled = page.eval_on_selector_all(
            "#notebook *",
            "all => all.filter(one => getComputedStyle(one).position === 'fixed').length",
        )
    scripts = ("https://cdnjs.cloudflare.com/", "data:image/")
    outside = [link for link in links if not link.startswith(("#", *scripts))]
    beside = {name for name in outside if (path.parent / name).is_file() or name == "x"}
    assert (asked, said, set(outside) - beside, styled) == ([], [], set(), 0)
