"""The book works offline: every link has a target, and nothing is loaded from elsewhere."""

import re
import runpy
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.support.browser.axe import findings
from tests.support.commands import completed
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.course.predictions import questions


class Page(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and "href" in values:
            self.loads.append(values["href"])
        elif "src" in values:
            self.loads.append(values["src"])


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    directory = tmp_path_factory.mktemp("book")
    built = completed([sys.executable, ROOT / "tools/make-book", directory])
    assert built.returncode == 0, built.stderr
    return {path: Page(path.read_text()) for path in directory.rglob("*.html")}


pytestmark = [pytest.mark.timeout(900)]  # building the book runs all lessons, one by one


def test_every_lesson_and_listing_is_in_the_book(book: dict[Path, Page]) -> None:
    names = {path.name for path in book}
    for lesson in (ROOT / "lessons").glob("*.ipynb"):
        assert f"{lesson.stem}.html" in names
    assert {"wire-c.html", "tcp_nodelay_client-c.html", "index.html", "search.html"} <= names


def test_internal_links_of_the_book_resolve(book: dict[Path, Page]) -> None:
    broken = []
    for path, page in book.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = book[target].anchors if target in book else {unquote(parts.fragment)}
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in anchors):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_book_loads_nothing_from_other_sites(book: dict[Path, Page]) -> None:
    foreign = {
        f"{path.name}: {link}"
        for path, page in book.items()
        for link in page.loads
        if urlsplit(link).scheme not in ("", "data")
    }
    assert foreign == set()


def test_lessons_of_the_book_name_the_recording_machine(book: dict[Path, Page]) -> None:
    for path in each(book):
        if path.parent.name == "lessons":
            assert "Recorded on" in path.read_text(), path.name


#: Numbers near an answer in the text that mean something else, as the comments say.
HARMLESS = {
    ("small-writes", "no_delay_segments", 15.0),  # the writes that the question is about
    ("segments", "segment_9000", 9000.0),  # the MTU
    ("segments", "announced_9000", 9000.0),
    ("segments", "gso_bytes", 1448.0),  # a full segment; the question asks whether this is one
    ("segments", "gso_bytes", 1460.0),  # the MSS in the SYN
    ("segments", "peer_300", 300.0),  # the number that the peer announces
    ("real-programs", "go_ms", 0.41),  # a Unix socket's share of a report
    ("cork", "default_ms", 40.0),  # the answer to a question of an earlier lesson
    ("cork", "cork_ms", 20.0),  # the trailer's bytes, and the round trip
    ("cork", "pulled_ms", 30.0),  # the round trip, which the question names
    ("diagnosis", "ticker_segments", 39.0),  # bytes of a line
    ("diagnosis", "backup_percent", 16.0),  # minutes of a section
    ("slow-start", "after_pause", 10.0),  # the initial window
    ("loss", "probe_cwnd", 40.0),  # the round trip, and a flight
    ("records-and-quotes", "two_late_acks", 47.9),  # waits in ms
}


def answers(page: str) -> dict[str, float]:
    """Return the measured value of each question that a page compares, by the question's text."""
    measured = {}
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        headings = [strip(cell) for cell in re.findall(r"<th.*?</th>", table, re.DOTALL)]
        if {"measured", "how close"} <= {*headings}:
            for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL):
                cells = [strip(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
                if cells:
                    measured[cells[0]] = float(cells[headings.index("measured")])
    return measured


def strip(html: str) -> str:
    """Return the text of a piece of HTML, without thousands separators."""
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return without_separators(unescape(re.sub(r"<[^>]+>", "", shown)).strip())


def without_separators(text: str) -> str:
    return re.sub(r"(?<=\d)[, \u00a0\u2009\u202f](?=\d{3}(?!\d))", "", text)


def numbers_near(text: str, answer: float) -> set[float]:
    """Return the numbers of a text within 2 % of an answer, but no small count."""
    if answer < 10 and answer == int(answer):
        return set()
    values = map(float, re.findall(r"(?<![\w.,])(?:\d\d+|\d+\.\d+)(?!\w|\.\d)", text))
    return {value for value in values if abs(value - answer) <= 0.02 * answer}


def test_lessons_do_not_reveal_answers_before_the_question(book: dict[Path, Page]) -> None:
    by_lesson = questions()
    compared, spoilt = 0, set()
    for path in each(
        sorted(path for path in book if path.stem[:2].isdigit() and path.stem != "00-primer")
    ):
        lesson, page = path.stem.partition("-")[2], path.read_text()
        body = page[page.index("<article") :]
        measured = answers(body)
        # The times of the three recorded changes differ in each recording.
        text = re.sub(r"\bStarted as \./.*?I choose", "", strip(body), flags=re.DOTALL)
        for name, question in each(by_lesson[lesson].items()):
            words = without_separators(question.ask)
            compared += words in measured
            before, asked, _rest = text.partition(f"{name}=None")
            assert asked, f"{lesson} does not ask for {name}"
            near = numbers_near(before, measured[words])
            spoilt |= {(lesson, name, number) for number in near}
    assert compared >= 40
    assert spoilt <= HARMLESS, spoilt - HARMLESS


# ---- in a browser ----


def shown(book: dict[Path, Page]) -> list[Path]:
    """Return the lessons, the pages of contents, and one page of each other kind."""
    names = {"index", "wire-c", "claims", "glossary"}
    return [path for path in sorted(book) if path.parent.name == "lessons" or path.stem in names]


#: The colours of the tokens in a page's listings, each with those of its background.
TOKENS = """() => [...new Set([...document.querySelectorAll(".highlight pre span")].map((token) => {
    const grounds = [token, token.closest("pre"), token.closest(".highlight")];
    const { color } = getComputedStyle(token);
    return [color, ...grounds.map((one) => getComputedStyle(one).backgroundColor)].join(" on ");
}))]"""
#: Remove the tokens of listings, which are a third of a page and of axe's time.
PLAIN = """() => document.querySelectorAll(".highlight pre").forEach((listing) => {
    listing.textContent = listing.textContent;
})"""


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_pages_are_accessible_and_do_not_scroll_sideways(
    book: dict[Path, Page], browser: Any, axe: str, width: int, scheme: str
) -> None:
    viewport = {"width": width, "height": 900}
    page = browser.new_page(viewport=viewport, color_scheme=scheme)
    seen: set[str] = set()
    for path in each(shown(book)):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        if (tokens := set(page.evaluate(TOKENS))) <= seen:
            page.evaluate(PLAIN)
        seen |= tokens
        assert findings(page, axe, "body") == [], path.name
    assert len(seen) > 3


def test_first_page_shows_every_lessons_question_and_result(
    book: dict[Path, Page], browser: Any
) -> None:
    page = browser.new_page()
    page.goto(page_named(book, "index"))
    asked = page.evaluate("""() => [...document.querySelectorAll(".question")].map((one) => [
        one.querySelector("a").href, one.children[1].textContent.slice(-1),
        one.querySelector("img").naturalWidth, one.lastElementChild.textContent])""")
    links, ends, widths, findings = zip(*asked, strict=True)
    assert {Path(link).stem for link in links} == {
        path.stem for path in (ROOT / "lessons").glob("*.ipynb")
    }
    assert set(ends) == {"?"}
    assert min(widths) > 300
    assert len(set(findings)) == len(findings)
    icon, picture = page.evaluate("""() => ["[rel~=icon]", "[property='og:image']"].map((name) => {
        const found = document.querySelector(name);
        return found.href ?? found.content; })""")
    assert Path(urlsplit(icon).path).is_file()
    assert (Path(urlsplit(page.url).path).parent / picture).is_file()


def page_named(book: dict[Path, Page], name: str) -> str:
    return min(path for path in book if path.stem == name).as_uri()


def test_the_search_finds_a_misspelt_name(book: dict[Path, Page], browser: Any) -> None:
    page = browser.new_page()
    found = {}
    for name in ("Nagle", "Nagel"):
        page.goto(f"{page_named(book, 'search')}?q={name}")
        page.locator(".search-summary", has_text="Search finished").wait_for()
        found[name] = page.locator("#search-results li a").all_inner_texts()
    assert found["Nagel"] == found["Nagle"]


def test_what_was_measured_is_folded_until_the_reader_has_guessed(
    book: dict[Path, Page], browser: Any
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(page_named(book, "02-small-writes"))
        opened, form = page.locator("details.hide[open]"), page.locator(".guesses form")
        first = form.filter(has_text="15 writes, no option")
        first.locator("input").fill("1")
        first.get_by_role("button", name="Guess").click()
        question = questions()["small-writes"]["default"]
        assert question.reply(1, 44) in first.inner_text()
        assert opened.count() == 0
        assert page.locator("table:visible", has_text="how close").count() == 0
        form.filter(has_text="One writev()").get_by_role("button", name="Show me").click()
        assert opened.count() >= 3
        page.reload()
        assert opened.count() >= 3
        row = page.locator(".cell_output tr", has_text="15 writes, no option")
        assert row.inner_text().split("\t")[1] == "1"


def test_without_scripts_the_answers_are_folded(book: dict[Path, Page], browser: Any) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(page_named(book, "02-small-writes"))
        answer = page.locator(".guess", has_text="15 writes, no option")
        assert not answer.locator("p").is_visible()
        answer.locator("summary").click()
        assert "The answer is 4" in answer.inner_text()


def test_book_is_built_from_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
    lesson = clone / "lessons/02-small-writes.ipynb"
    lesson.write_text(lesson.read_text().replace("default=None", "default=44"))
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    shutil.copy(ROOT / "tools/make-book", clone / "tools")
    tool = runpy.run_path(str(clone / "tools/make-book"))
    (clone / "build/book/source").mkdir(parents=True)
    tool["copy_lessons"]()
    copied = clone / "build/book/source/lessons" / lesson.name
    assert "default=None" in copied.read_text()
    assert f"lessons/{lesson.name} has changes" in capsys.readouterr().out
