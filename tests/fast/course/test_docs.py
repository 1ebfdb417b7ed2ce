"""Test that links, commands and files on the pages exist, and that the pages are complete."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tools import kernels

from tcplab import demos
from tcplab.cli.front import parser_of
from tcplab.course.doctor import lessons

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob(".github/*.md"),
    ],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
#: Regular expression for what may precede a command, such as `&&`, sudo, a variable or a path.
COMMAND = r"(?:^|&& |sudo |[A-Z]+=\S+ )(?:\S+/bin/)?"
FILE = r"(?<![\w/.~-])(?:src|tests|bench|tools|docs|deploy)/[\w./-]*\w/?"


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Return a page without its code."""
    return re.sub(
        r"```.*?```|`[^`\n]*`|^ {4}(?![-*0-9]).*$", "", text, flags=re.DOTALL | re.MULTILINE
    )


def code(text: str) -> Iterator[str]:
    """Return all code on a page, from blocks and inline spans."""
    yield from re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    yield from re.findall(r"^ {4}(?![-*0-9])(.*)$", text, re.MULTILINE)
    yield from re.findall(r"(?<!`)`([^`]+)`(?!`)", text)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_of_the_pages_resolve(page: Path) -> None:
    assert list(broken_links(page, prose(page.read_text()))) == []


def test_readme_is_short_and_has_every_lesson() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    link = r"^\| \[([^]]+)\]\(lessons/\d\d-([\w-]+)\.ipynb\) \| .+\? \|$"
    rows = re.findall(link, text, re.MULTILINE)
    assert rows == [(lesson.title, lesson.slug) for lesson in lessons()]


def test_start_page_has_every_lesson_and_problem_set() -> None:
    (page,) = (
        "".join(cell["source"])
        for cell in json.loads((ROOT / "start.ipynb").read_text())["cells"]
        if cell["id"] == "start-lessons"
    )
    readme = (ROOT / "README.md").read_text()
    lesson = r"^\| \[[^]]+\]\((lessons/[\w-]+\.ipynb)\) \| (.+\?) \|"
    entries = re.findall(lesson, page, re.MULTILINE)
    assert entries == re.findall(lesson, readme, re.MULTILINE)
    assert len(entries) == len(lessons())
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert all((ROOT / link).is_file() for link in links)
    sets = {str(path.relative_to(ROOT)) for path in ROOT.glob("exercises/*/*.ipynb")}
    assert sets <= set(links)


def test_hours_of_the_instructors_kit_are_those_of_the_lessons() -> None:
    text = (ROOT / "docs/instructors-guide.md").read_text()
    table = text.partition("| week | lesson | core |")[2].partition("| **all** |")[0]
    listed = [
        int(minutes)
        for cell in re.findall(r"\| ([\d +]+) min \|", table)
        for minutes in cell.split("+")
    ]
    paths = sorted(ROOT.glob("lessons/*.ipynb"))
    stated = [int(re.findall(r"\*(\d+) minutes", path.read_text())[0]) for path in paths]
    assert listed == stated
    assert f"| **all** | **{sum(stated) / 60:.1f} h** |" in text


def test_lecturers_card_has_every_demo() -> None:
    text = (ROOT / "docs/lecturers-card.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)) == {
        demo.name for demo in demos.every()
    }


def named(pattern: str) -> list[str]:
    """Return the texts that the pattern's group matches in the commands on all pages."""
    regex = re.compile(COMMAND + pattern, re.MULTILINE)
    texts = [text for page in PAGES for text in code(page.read_text())]
    return sorted({command for text in texts for command in regex.findall(text)})


@pytest.mark.parametrize("target", named("make ([a-z][a-z-]*)"))
def test_named_make_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", named("tcplab ((?:run )?[a-z][a-z-]*)"))
def test_named_tcplab_commands_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser_of(command.split()).parse_args([*command.split(), "--help"])
    assert ended.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    """A name with a placeholder in capitals, such as ``src/programs/NAME.c``, need not exist."""
    missing = [
        word
        for text in code(page.read_text())
        for word in re.findall(FILE, text)
        if not re.search(r"NAME|NN|XX", word) and not (ROOT / word).exists()
    ]
    assert missing == []


def test_glossary_is_in_order_without_doubles_and_translated() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    entries = re.findall(r"^## (.+)\n\n(.+)\n\n\*(.+) · (.+) · (.+)\*$", text, re.MULTILINE)
    terms = [term for term, *_ in entries]
    assert len(terms) == text.count("\n## ")
    assert terms == sorted(terms, key=lambda term: term.lower().replace("'", ""))
    bare = [re.sub(r" \(.*\)", "", term).lower() for term in terms if "fragment" not in term]
    assert len(set(bare)) == len(bare)


def test_page_of_kernels_is_made_from_what_was_measured() -> None:
    """If this fails, run `python -m tools.kernels`."""
    assert (ROOT / "docs/kernels.md").read_text() == kernels.page(kernels.shipped())
    for measured in each(kernels.shipped()):
        assert len(measured) >= 65
        assert measured.keys() - {"kernel"} <= kernels.FACTS.keys()


@pytest.mark.parametrize(
    ("rule", "results", "shown"),
    [
        ("any rule", ("16", "16", "16"), "16"),
        ("any rule", ("16", "24", "16"), "16 (2 of 3 runs), 24 (1 of 3 runs)"),
        (f"any delay {kernels.TIMER}", ("90", "110", "100"), "90–110"),
    ],
)
def test_results_that_differ_are_shown(rule: str, results: tuple[str, ...], shown: str) -> None:
    assert kernels.agreed(rule, results) == shown


def test_each_guide_is_listed_for_its_reader() -> None:
    listed = re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text())
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(listed) == sorted(pages)


def test_the_reference_has_each_option() -> None:
    """If this fails: make reference."""
    sections = (ROOT / "docs/reference.md").read_text().split("\n### ")
    text = {section.partition("\n")[0]: section for section in sections}
    made = runpy.run_path(str(ROOT / "tools/make-reference"))
    for name, parser in each(made["commands"]().items()):
        for action in parser._actions:
            for option in action.option_strings:
                assert option in text[f"tcplab {name}"], (name, option)
            assert " ".join((action.help or "").split()) in " ".join(text[f"tcplab {name}"].split())
    for name in each(made["names"]()):
        assert name in text
