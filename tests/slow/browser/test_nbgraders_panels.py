"""Test nbgrader's own panels, Formgrader and Validate, on an assignment of the course.

A small class is graded with `tcplab grade`. Then a real browser acts as an instructor: it looks at
the submissions, opens one, and marks the written answer. The pictures are in
test-artifacts/browser/formgrader-*.png; look at them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.browser.jupyter import Jupyter, keep, tab_of
from tests.support.grading.fixtures import gradebook
from tests.support.grading.homework import hand_in, write
from tests.support.lifetime import until
from tests.support.paths import ROOT

from tcplab.grading.batch import grade

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Page

pytestmark = [pytest.mark.timeout(600)]

TASK = "w1"
ANSWER = (
    "The last write waits for an ACK that the peer delays by 40 ms. <script>alert(1)</script>"
    " [more](java&#115;cript:alert(2))"
)
COMMENT = "Right mechanism, and your own number shows it."


@pytest.fixture(scope="module")
def course(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grade small-writes with two submissions, ada's solved and bob's as it was handed out."""
    from tcplab.grading.sandbox import why_no_sandbox

    del chromium  # without a browser no course is needed
    if reason := why_no_sandbox():
        pytest.skip(reason)
    course = tmp_path_factory.mktemp("course") / "course"
    source = course / "solutions" / "small-writes"
    shutil.copytree(ROOT / "solutions" / "small-writes", source)
    shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course / "solutions")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    for student in ("ada", "bob"):
        shutil.copytree(
            ROOT / "exercises" / "small-writes", course / "submitted" / student / "small-writes"
        )
    work = hand_in(source, "reference")
    write(course / "submitted" / "ada" / "small-writes", work, ANSWER)
    run = grade("small-writes", course=course, jobs=2)
    assert (run.failed, sorted(run.graded)) == ({}, ["ada", "bob"])
    assert mark(course) == (None, None, True)
    return course


@pytest.fixture(scope="module")
def page(
    browser: Any, course: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Page, Jupyter]]:
    size = {"width": 1280, "height": 900}
    with (
        closing(Jupyter(tmp_path_factory.mktemp("jupyter"), serve=course)) as jupyter,
        tab_of(browser, "formgrader", viewport=size) as page,
    ):
        yield page, jupyter


def mark(course: Path) -> tuple[float | None, str | None, bool]:
    """Return score and comment of ada's written answer, and whether it still waits for a mark."""
    where = ("small-writes", "small-writes", "ada")
    with gradebook(course) as book:
        (task,) = book.find_notebook("small-writes", "small-writes").task_cells
        comment = book.find_comment(task.name, *where).manual_comment
        left = book.find_submission("small-writes", "ada").needs_manual_grade
        return book.find_grade(task.name, *where).manual_score, comment, left


def test_formgrader_shows_submissions_and_stores_marks(
    page: tuple[Page, Jupyter], course: Path
) -> None:
    window, jupyter = page
    window.goto(f"{jupyter.url}lab")
    window.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Nbgrader$")).click()
    window.locator(".lm-Menu-itemLabel", has_text=re.compile("^Formgrader$")).click()
    inside = window.frame_locator("#formgrader-iframe iframe")
    inside.locator("td.name", has_text="small-writes").wait_for()
    inside.locator("td.num-submissions a", has_text="2").click()
    rows = inside.locator("tbody tr")
    rows.filter(has_text="bob").locator("td.score", has_text="0 / 20").wait_for()
    rows.filter(has_text="ada").locator("td.score", has_text="18 / 20").wait_for()
    keep(window, "formgrader-submissions")
    _open_the_submission(inside, "ada")
    inside.locator("pre", has_text="Every segment ends where a record ends").wait_for()
    inside.get_by_text("point for the gain and when").wait_for()  # the marker sees the mark scheme
    inside.get_by_text("that the peer delays by 40 ms").wait_for()
    assert "alert(" not in inside.locator("body").inner_html()
    # Text typed before the page has fetched marks and comments is lost (formgrade.js).
    fetched = "() => formgrader.grades.loaded && formgrader.comments.loaded"
    until(lambda: inside.locator("body").evaluate(fetched))
    for name, text in ((TASK, "2"), (f"{TASK}-comment", COMMENT)):
        field = inside.locator(f"[id='{name}']")
        field.fill(text)
        field.blur()
    keep(window, "formgrader-marking")
    until(lambda: mark(course) == (2.0, COMMENT, False))


def test_validate_button_reports_unsolved_questions(
    page: tuple[Page, Jupyter], course: Path
) -> None:
    window, jupyter = page
    for student, kind in (("bob", "validation-failed"), ("ada", "validation-success")):
        shutil.copytree(course / "submitted" / student / "small-writes", course / "own" / student)
        window.goto(f"{jupyter.url}doc/tree/own/{student}/small-writes.ipynb")
        window.locator(".jp-Notebook .jp-Cell").first.wait_for()
        window.locator("#jp-main-statusbar", has_text="| Idle").wait_for()
        window.locator(".validate-button").click()
        message = window.locator(f".jp-Dialog #validation-message.{kind}")
        message.wait_for()
        keep(window, f"formgrader-validate-{student}")
        if student == "bob":
            assert "q1: not yet." in (message.text_content() or "")
        window.locator(".jp-Dialog button.jp-mod-accept").click()


def _open_the_submission(inside: FrameLocator, student: str) -> None:
    """Open the submission from "Manual Grading", which shows a student's name only on request."""
    inside.get_by_role("link", name="Manual Grading").first.click()
    inside.locator("td.name a", has_text="small-writes").click()
    inside.locator("td.name a", has_text="small-writes").click()
    row = inside.locator("tr", has=inside.locator("a.name-shown", has_text=student))
    row.locator(".reveal .name-hidden").click()
    row.locator("a.name-shown").click()
