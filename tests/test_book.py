"""The book can be read offline: every link leads somewhere, nothing comes from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.nonempty import each

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


def test_no_lesson_tells_a_number_before_it_asks_for_it(book: dict[Path, Page]) -> None:
    compared = 0
    for path in each(sorted(path for path in book if path.stem[:2].isdigit())):
        page = path.read_text()
        tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
        rows = "".join(each for each in tables if "how close" in each)
        numbers = set(re.findall(r"> *([\d,.]{4,})</td>", rows))
        compared += len(numbers)
        before, asked, _ = re.sub(r"<[^>]+>", "", page).partition("=None")
        assert asked, f"{path.stem} asks for no prediction"
        told = {
            each for each in numbers if re.search(rf"(?<![\d.]){re.escape(each)}(?!\d)", before)
        }
        assert not told, f"{path.stem} tells {told} before it asks"
    assert compared > 20
