import itertools
import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.fast.course.test_docs import anchors
from tests.support.lessons import ALL, BY_SLUG, cells, glossary_links, headings, notebook, slug
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
    text = "\n\n".join(cells(path, "markdown"))
    (recap,) = re.findall(r"## Recap\n\n(.*?)\n\n", text, re.DOTALL)
    assert 3 <= len(re.findall(r"[.?!](?=\s|$)", recap)) <= 6
    assert (
        text.index("## Check yourself") < text.index("## More") < text.index("## Test the claims")
    )


@each_lesson
def test_contents_link_to_every_section(path: Path) -> None:
    contents = cells(path, "markdown")[0].partition("**Contents.**")[2].partition("\n\n")[0]
    sections = [title for level, title in headings(path) if level == 2]
    # JupyterLab turns a heading into an anchor like this.
    wanted = [title.replace("`", "").replace(" ", "-") for title in sections[:-1]]
    link = r"\]\(<?#([^>]+?)>?\)(?: \([^)]*\))?(?: ·|$)"  # the time may follow the link
    assert re.findall(link, contents, re.MULTILINE) == wanted


@each_lesson
def test_a_cell_is_at_most_ten_lines(path: Path) -> None:
    assert max(len(source.splitlines()) for source in cells(path, "code")) <= 10


def tool(name: str) -> dict[str, Any]:
    """Return the global names of a program in tools/."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        return runpy.run_path(str(ROOT / "tools" / name))


TIMES = tool("time-lessons")
START = ROOT / "start.ipynb"


@pytest.mark.parametrize("path", [*ALL, START], ids=lambda path: path.stem)
def test_a_picture_of_the_question_comes_first(path: Path) -> None:
    before, picture, rest = cells(path, "markdown")[0].partition("![")
    assert picture
    assert TIMES["words_of"](before) <= 300
    alt, file = re.findall(r"^(.*?)\]\(([^)]+)\)", rest)[0]
    assert alt.endswith(".")
    question = tool("draw-questions")["QUESTIONS"][slug(path) or "start"]
    assert (path.parent / file).read_text() == tool("draw-questions")["drawn"](question)


@each_notebook
def test_a_lesson_is_short(path: Path) -> None:
    long = slug(path) == "diagnosis"  # it takes two sittings
    assert len(notebook(path)["cells"]) <= (60 if long else 45)
    texts = TIMES["texts_of"](nbformat.read(path, as_version=4))
    count = sum(map(TIMES["words_of"], texts))
    assert count <= (2600 if long else 2000)


@each_notebook
def test_core_is_short_and_its_stated_time_within_20_percent(path: Path) -> None:
    lesson = nbformat.read(path, as_version=4)
    runs = TIMES["stated_runs"](lesson)
    minutes = TIMES["core_s"](TIMES["sections"](lesson), runs) / 60
    assert round(minutes) <= 35 or slug(path) == "diagnosis"
    stated = int(re.findall(r"^\*(\d+) minutes", lesson.cells[0].source, re.MULTILINE)[0])
    assert stated == pytest.approx(minutes, rel=0.2)


def test_pages_state_the_times_of_the_lessons() -> None:
    primer, *lessons = (int(re.findall(r"\*(\d+) minutes", path.read_text())[0]) for path in ALL)
    *others, longest = sorted(lessons)
    start = cells(START, "markdown")[0]
    assert (
        f"primer takes {primer} minutes, the core of a lesson {others[0]} to {others[-1]} minutes"
        in start
    )
    assert f"`diagnosis` {longest} minutes" in start
    assert f"in\n{primer} minutes. Start" in (ROOT / "docs/learners-guide.md").read_text()
    hours = f"{others[0]} to {others[-1]} minutes each, `diagnosis` {longest}"
    assert hours in (ROOT / "docs/handout.md").read_text()


@each_lesson
def test_glossary_links_resolve_and_appear_once(path: Path) -> None:
    in_the_book = tool("make-book")["with_anchors_of_sphinx"]
    text = "\n".join(cells(path, "markdown"))
    linked = glossary_links(text)
    assert len(linked) == text.count("glossary.md#") > 0
    assert set(linked) <= {title.replace(" ", "-") for title in TERMS}, "not as JupyterLab does"
    assert set(glossary_links(in_the_book(text))) <= anchors(GLOSSARY)
    assert len(set(linked)) == len(linked), "linked twice"


#: Terms of the glossary that C programmers know or that are also everyday words.
EVERYDAY = {"bottleneck", "capture", "copy", "CPU time", "drop", "fragment", "frame", "median"}
EVERYDAY |= {"header", "packet", "path", "pipe", "port", "queue", "socket", "spread", "stall"}
EVERYDAY |= {"system call", "throughput", "warm-up"}
#: Regular expression for the parts of a Markdown cell that are not the prose of the lesson.
NO_PROSE = r"`[^`\n]*`|\[[^][]*\]\([^)]*\)|<[^>]+>|^#.*$|^\|.*$|“[^”]*”|\"[^\"\n]*\""


@each_notebook
def test_each_term_is_linked_where_a_lesson_uses_it(path: Path) -> None:
    """Only prose counts. The contents, cells with a fold, the recap and further reading do not."""
    texts = cells(path, "markdown")
    kept = [text for text in texts[1:] if not re.search(r"<details>|## (Recap|Further)", text)]
    prose = re.sub(NO_PROSE, "", "\n\n".join(kept), flags=re.MULTILINE)
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


def quiz(path: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the questions of a quiz, each with its answers and what is said about them."""
    text = "\n\n".join(cells(path, "markdown"))
    text = text.partition("## Check yourself")[2].partition("\n## ")[0]
    # Markdown inside the fold needs empty lines around it.
    answer = re.compile(r"<summary>(.+?)</summary>\n\n(.+?)\n\n</details>", re.DOTALL)
    questions = re.split(r"^\*\*\d\.\*\*", text, flags=re.MULTILINE)[1:]
    assert all(len(answer.findall(each)) == each.count("<details>") == 3 for each in questions)
    return [(each, answer.findall(each)) for each in questions]


@each_notebook
def test_each_answer_of_the_quiz_is_explained(path: Path) -> None:
    questions = quiz(path)
    assert len(questions) >= 3
    for _question, answers in questions:
        marks = [re.match(r"✓ Right\. \S|✗ Not quite\. \S", why) for _answer, why in answers]
        assert sorted(mark[0][0] if mark else "" for mark in marks) == ["✓", "✗", "✗"]
    earlier = r"\s*\((Primer|Lesson `[\w-]+`)\)"
    recalled = sum(bool(re.match(earlier, question)) for question, _answers in questions)
    assert recalled == 2 or slug(path) == "primer"


def test_place_and_length_do_not_reveal_the_right_answer_of_a_quiz() -> None:
    every = [answers for path in each(ALL) for _question, answers in quiz(path)]
    places = [[why[0] for _answer, why in answers].index("✓") for answers in every]
    assert all(0.3 <= places.count(place) / len(places) <= 0.37 for place in range(3))
    lengths = [[len(answer) for answer, _why in answers] for answers in every]
    longest = sum(sizes[place] == max(sizes) for sizes, place in zip(lengths, places, strict=True))
    assert longest <= len(every) / 3
