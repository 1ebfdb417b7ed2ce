"""Every lesson: its form."""

from __future__ import annotations

import itertools
import re
import runpy
from pathlib import Path

import pytest
from tests.fast.course.test_docs import anchors
from tests.support.lessons import ALL, BY_SLUG, cells, glossary_links, headings, slug
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.experiments import recordings

GLOSSARY = (ROOT / "docs/glossary.md").read_text()
TERMS = re.findall(r"^## (.+)$", GLOSSARY, re.MULTILINE)
each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
each_lesson = pytest.mark.parametrize("path", BY_SLUG.values(), ids=lambda path: path.stem)


@each_lesson
def test_one_title_and_headings_in_order(path: Path) -> None:
    levels = [level for level, _title in headings(path)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert not re.search(r"\d", headings(path)[0][1])
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


@each_lesson
def test_lesson_has_every_part(path: Path) -> None:
    titles = {title for _level, title in headings(path)}
    assert {"Predict", "Measure", "Test the claims", "Try it", "Recap", "Further reading"} <= titles
    assert "In this lesson we" in "\n".join(cells(path, "markdown"))


@each_lesson
def test_contents_lead_to_every_section(path: Path) -> None:
    contents = cells(path, "markdown")[0].partition("**Contents.**")[2].partition("\n\n")[0]
    sections = [title for level, title in headings(path) if level == 2]
    # As JupyterLab makes its anchors.
    wanted = [title.replace("`", "").replace(" ", "-") for title in sections[:-1]]
    link = r"\]\(<?#([^>]+?)>?\)(?: \([^)]*\))?(?: ·|$)"  # with the time behind it, or without
    assert re.findall(link, contents, re.MULTILINE) == wanted


@each_lesson
def test_a_cell_is_at_most_ten_lines(path: Path) -> None:
    assert max(len(source.splitlines()) for source in cells(path, "code")) <= 10


@each_lesson
def test_terms_lead_to_the_glossary(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    in_the_book = runpy.run_path(str(ROOT / "tools/make-book"))["with_anchors_of_sphinx"]
    text = "\n".join(cells(path, "markdown"))
    linked = glossary_links(text)
    assert len(linked) == text.count("glossary.md#") > 0
    assert set(linked) <= {title.replace(" ", "-") for title in TERMS}, "not as JupyterLab does"
    assert set(glossary_links(in_the_book(text))) <= anchors(GLOSSARY)
    assert len(set(linked)) == len(linked), "linked twice"


#: Terms of the glossary that readers of C know, or that are words of every day as well.
EVERYDAY = {"bottleneck", "capture", "copy", "CPU time", "drop", "fragment", "frame", "median"}
EVERYDAY |= {"header", "packet", "path", "pipe", "port", "queue", "socket", "spread", "stall"}
EVERYDAY |= {"system call", "throughput", "warm-up"}
#: Parts of a Markdown cell that are no prose of the lesson.
NO_PROSE = r"`[^`\n]*`|\[[^][]*\]\([^)]*\)|<[^>]+>|^#.*$|^\|.*$|“[^”]*”|\"[^\"\n]*\""


@each_notebook
def test_each_term_is_linked_where_a_lesson_uses_it(path: Path) -> None:
    """In the prose of a lesson: not in the contents, the quiz, the recap and what follows."""
    texts = cells(path, "markdown")
    told = [each for each in texts[1:] if not re.search(r"<details>|## (Recap|Further)", each)]
    prose = re.sub(NO_PROSE, "", "\n\n".join(told), flags=re.MULTILINE)
    terms = {re.sub(r" \(.*\)$", "", title) for title in TERMS} - EVERYDAY
    places = {re.sub(r"-\(.*\)$", "", link) for link in glossary_links("\n".join(texts))}
    missing = [
        term
        for term in sorted(each(terms))
        if re.search(rf"(?<![\w/.-]){re.escape(term)}(?![\w-])", prose)
        and term.replace(" ", "-") not in places
    ]
    assert not missing, "these terms lead nowhere"


def test_recordings_are_small_and_name_their_machine() -> None:
    files = each(sorted(recordings.DIRECTORY.iterdir()))
    assert sum(path.stat().st_size for path in files) <= 2_000_000
    for path in files:
        for arguments, result in each(recordings.shipped(path.stem)):
            origin = result.provenance
            assert {"kernel", "cpu", "measured_at"} <= set(origin), (path, arguments)
            assert "recorded" not in origin, f"{path} has a recording of a recording"


@each_notebook
def test_each_answer_of_the_quiz_is_explained(path: Path) -> None:
    text = "\n\n".join(cells(path, "markdown"))
    quiz = text.partition("## Check yourself")[2].partition("\n## ")[0]
    questions = re.split(r"^\*\*\d\.\*\*", quiz, flags=re.MULTILINE)[1:]
    assert len(questions) >= 3
    for question in questions:
        # Markdown inside the fold needs empty lines around it.
        answers = re.findall(r"<summary>(.+?)</summary>\n\n(.+?)\n\n</details>", question, re.S)
        assert len(answers) == question.count("<details>") >= 3
        assert sum(why.startswith("Right") for _answer, why in answers) == 1
        assert all(len(why) > 5 for _answer, why in answers)
    recalled = [each for each in questions if re.match(r"\s*\((Primer|Lesson `[\w-]+`)\)", each)]
    assert slug(path) == "primer" or recalled
