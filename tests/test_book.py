"""The book can be read offline: every link leads somewhere, nothing comes from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.nonempty import each

from tcplab.predictions import questions

ROOT = Path(__file__).resolve().parent.parent


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
    built = subprocess.run(
        [sys.executable, ROOT / "tools/make-book", "--recorded", directory],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return {path: Page(path.read_text()) for path in directory.rglob("*.html")}


pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


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


def test_nothing_is_fetched_from_elsewhere(book: dict[Path, Page]) -> None:
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


#: Numbers near an answer that do not tell it: those of something else, and in lesson 07 the text's
#: time of way A, in which way B is to be guessed.
HARMLESS = {
    ("02", "tcp_localhost_over_bsd", 2.2),  # the book's table
    ("02", "udp_localhost_over_bsd", 1.0),  # a count of one
    ("02", "router_lost_percent", 75.0),  # kB of a queue
    ("03", "segment_9000", 9000.0),  # the MTU
    ("03", "announced_9000", 9000.0),
    ("06", "cork_ms", 20.0),  # the trailer, the round trip
    ("07", "wire_seconds", 5.4),
    ("07", "times_less_cpu", 4.0),
    ("08", "ticker_segments", 39.0),  # bytes of a line
}


def answers(page: str) -> dict[str, float]:
    """The measured value of each question that a page compares, by the question's words."""
    found = {}
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        headings = [strip(each) for each in re.findall(r"<th.*?</th>", table, re.DOTALL)]
        if "how close" in headings:
            for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL):
                cells = [strip(each) for each in re.findall(r"<td.*?</td>", row, re.DOTALL)]
                if cells:
                    found[cells[0]] = float(cells[headings.index("measured")])
    return found


def strip(html: str) -> str:
    """The text of a piece of HTML."""
    return without_separators(unescape(re.sub(r"<[^>]+>", "", html)).strip())


def without_separators(text: str) -> str:
    """A text whose numbers have no separators of thousands."""
    return re.sub(r"(?<=\d)[, \u00a0\u2009\u202f](?=\d{3}(?!\d))", "", text)


def told(text: str, answer: float) -> set[float]:
    """The numbers of a text that are within 2 % of an answer of two digits and more."""
    values = set(map(float, re.findall(r"(?<![\w.,])\d+(?:\.\d+)?(?!\w|\.\d)", text)))
    if answer < 10 and answer == int(answer):
        return set()  # a small count is in every text
    return {each for each in values if abs(each - answer) <= 0.02 * answer}


def test_no_lesson_tells_a_number_before_it_asks_for_it(book: dict[Path, Page]) -> None:
    words = questions()
    compared, spoilt = 0, set()
    for path in each(sorted(path for path in book if path.stem[:2].isdigit())):
        lesson, page = path.stem.partition("-")[0], path.read_text()
        body = page[page.index("<article") :]
        measured = answers(body)
        text = strip(body)
        for name, question in each(words[lesson].items()):
            question = without_separators(question)
            compared += question in measured
            before, asked, _rest = text.partition(f"{name}=None")
            assert asked, f"{lesson} does not ask for {name}"
            near = told(before, measured[question])
            spoilt |= {(lesson, name, number) for number in near}
    assert compared >= 40
    assert spoilt <= HARMLESS
