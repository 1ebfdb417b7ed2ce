"""Promises of the pages are kept: links, commands, options' names, files; the README is short."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.nonempty import each

from tcplab import demos
from tcplab.cli import main
from tcplab.demos import Demo
from tcplab.doctor import lessons
from tcplab.widgets.spec import load

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
#: What may stand before a command: nothing, another command, a variable, its place.
COMMAND = r"(?:^|&& |sudo |[A-Z]+=\S+ )(?:\S+/bin/)?"


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """A page without what is code."""
    return re.sub(
        r"```.*?```|`[^`\n]*`|^ {4}(?![-*0-9]).*$", "", text, flags=re.DOTALL | re.MULTILINE
    )


def code(text: str) -> Iterator[str]:
    """Everything that a page shows as code: blocks and words."""
    yield from re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    yield from re.findall(r"^ {4}(?![-*0-9])(.*)$", text, re.MULTILINE)
    yield from re.findall(r"(?<!`)`([^`]+)`(?!`)", text)


def anchors(text: str) -> set[str]:
    """What a heading can be linked by, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in headings}


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
    rows = re.findall(r"^\| \[(\d\d) ([^]]+)\]\(lessons/\1-[\w-]+\.ipynb\) \| .+\? \|$", text, re.M)
    assert rows == [(lesson.number, lesson.title) for lesson in lessons()]


def test_lecturers_card_has_every_demo() -> None:
    text = (ROOT / "docs/lecturers-card.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)) == {
        demo.name for demo in demos.every()
    }


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        word
        for text in code(page.read_text())
        for word in re.findall(COMMAND + r"make ([a-z][a-z-]*)", text, re.MULTILINE)
    }
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_tcplab_commands_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.compile(COMMAND + r"tcplab ((?:run )?[a-z][a-z-]*)", re.MULTILINE)
    for text in code(page.read_text()):
        for command in found.findall(text):
            with pytest.raises(SystemExit) as ended:
                main([*command.split(), "--help"])
            assert ended.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    """A placeholder is written in capitals: ``src/programs/NAME.c``."""
    missing = [
        word
        for text in code(page.read_text())
        for word in re.findall(r"(?<![\w/.~-])(?:src|tests|tools|docs|deploy)/[\w./-]*\w/?", text)
        if not re.search(r"NAME|NN|XX", word) and not (ROOT / word).exists()
    ]
    assert missing == []


class Step:
    """A run of a demo's step as its panel's measurement sees it where no laboratory can be made."""

    wants_picture = False
    stop_asked = False

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def stage(self, words: str, share: float | None = None) -> None:
        pass

    def sample(self, values: Mapping[str, float]) -> None:
        pass

    def changes(self) -> Iterator[Mapping[str, Any]]:
        return iter(())

    def lab(self, **_parameters: Any) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize(
    "demo",
    [each for each in demos.every() if not load(each.panel).live],
    ids=lambda it: it.name,
)
def test_demos_are_shown_from_recordings(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    for step in each(demo.steps):
        shown = load(demo.panel).measurement.run(Step(step.settings))
        assert shown.provenance["recorded"]["why"] == "TCPLAB_MODE=recorded"
