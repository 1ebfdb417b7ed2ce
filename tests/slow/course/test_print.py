"""The printed pages are complete, fit on one sheet, and contain no answers."""

import base64
import contextlib
import json
import math
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections import Counter
from html import unescape
from pathlib import Path

import nbformat
import pytest
from tests.support.browser.jupyter import need_chromium
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.course.doctor import lessons
from tcplab.course.predictions import questions
from tcplab.grading.assignment import Task


def plain(page: str) -> str:
    """Return the words of a page, on one line."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2])))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("print")
    subprocess.run([sys.executable, ROOT / "tools/make-print", "--no-pdf", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def sheets(folder: Path) -> dict[str, str]:
    """Return the text of each worksheet, by lesson."""
    pages = sorted(folder.glob("worksheet-*.html"))
    return {page.stem.partition("-")[2]: plain(page.read_text()) for page in pages}


def test_every_lesson_has_a_worksheet_with_its_questions(sheets: dict[str, str]) -> None:
    assert sorted(sheets) == sorted(lesson.slug for lesson in lessons())
    for lesson, sheet in sheets.items():
        asked = questions().get(lesson, {})
        assert all(question in sheet for question in [asked[name].ask for name in asked]), lesson
        assert ("Predict, then measure" in sheet) == bool(asked)
        assert "The question." in sheet or lesson == "primer"


def test_worksheets_have_the_questions_picture_and_lanes_to_draw_in(folder: Path) -> None:
    for path in each((ROOT / "lessons").glob("*.ipynb")):
        lesson = path.stem.partition("-")[2]
        sheet = (folder / f"worksheet-{lesson}.html").read_text()
        picture = (ROOT / f"lessons/pictures/{lesson}.svg").read_bytes()
        assert base64.b64encode(picture).decode() in sheet, lesson
        assert ('class="lanes"' in sheet) == ("figures.timeline(" in path.read_text()), lesson


def test_worksheets_have_all_quiz_choices_and_no_answers(sheets: dict[str, str]) -> None:
    for path in each((ROOT / "lessons").glob("*.ipynb")):
        sheet = sheets[path.stem.partition("-")[2]]
        text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
        choices = re.findall(r"<details><summary>(.*?)</summary>\n(.*?)</details>", text, re.DOTALL)
        quiz = [(choice, why) for choice, why in choices if why.strip().startswith("✓")]
        assert sheet.count("☐") >= 2 * len(quiz), path.name
        for _choice, why in choices:
            explanation = re.sub(r"[`*]", "", " ".join(why.split()))
            assert len(explanation) < 15 or explanation not in sheet, explanation


def test_hand_out_is_without_the_line_for_instructors(folder: Path) -> None:
    assert "Instructor" not in (folder / "handout.html").read_text().partition("<h2")[0]


def test_hand_out_names_the_files_of_every_set() -> None:
    text = (ROOT / "docs" / "handout.md").read_text()
    for source in each(path.parent for path in ROOT.glob("exercises/*/task.py")):
        files = Task(source / "task.py", source.name).files
        row = rf"`{source.name}.ipynb` \| ([^|]+) \|"
        (named,) = re.findall(row, text)
        assert sorted(re.findall(r"`([^`]+)`", named)) == sorted(files)


def test_traces_are_apart_from_their_answers(folder: Path) -> None:
    with zipfile.ZipFile(folder / "traces.zip") as zipped:
        names = zipped.namelist()
        for name in each(name for name in names if name.endswith(".html")):
            own = name.partition("/")[0]
            causes = json.loads((ROOT / f"solutions/{own}/hidden/captures.json").read_text())
            traces = [path for path in names if re.fullmatch(rf"{own}/\d+\.pcapng", path)]
            shown = sorted(causes[Path(path).name] for path in traces)
            assert shown == sorted(set(causes.values())), own
            text = plain(zipped.read(name).decode())
            assert "BEGIN SOLUTION" not in text
            assert "n[" not in text
    answers = plain((folder / "answers/traces.html").read_text())
    assert all(f"{name.partition('/')[2]} " in answers for name in names if "pcapng" in name)


def test_make_print_writes_a_pdf_of_each_page(tmp_path: Path) -> None:
    """Use a course with one page, because each page starts a new Chromium."""
    need_chromium()
    for name in ("tools/make-print", "docs/handout.md"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run([sys.executable, tmp_path / "tools/make-print"], check=True)
    assert 1 <= (tmp_path / "dist/print/handout.pdf").read_bytes().count(b"/Type /Page\n") <= 2


def test_every_printed_page_fits_on_one_sheet(folder: Path) -> None:
    """Use one browser for all pages."""
    chromium = need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        page = running.chromium.launch(executable_path=chromium).new_page()
        for path in each(folder.glob("*.html")):
            page.goto(path.as_uri())
            pdf = page.pdf(prefer_css_page_size=True)
            assert 1 <= pdf.count(b"/Type /Page\n") <= 2, path.name
            assert type_size(pdf) == pytest.approx(10.5, abs=0.1), path.name
            page.set_viewport_size({"width": 680, "height": 900})  # 180 mm, the width of the text
            assert page.evaluate(OUTSIDE) == [], path.name


#: Elements that are wider than the paper, which would make Chromium shrink the page.
OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.outerHTML.slice(0, 99))"""


def type_size(pdf: bytes) -> float:
    """Return the most frequent size of the type in points, which Chromium may have shrunk."""
    sizes: Counter[float] = Counter()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        with contextlib.suppress(zlib.error):
            text = zlib.decompress(stream)
            scale = math.prod(
                map(float, re.findall(rb"([\d.]+) 0 0 -?[\d.]+ \S+ \S+ cm", text)[:2])
            )
            sizes.update(scale * float(size) for size in re.findall(rb"/F\d+ (\S+) Tf", text))
    return sizes.most_common(1)[0][0]
