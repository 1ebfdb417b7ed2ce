"""Every lesson: its form, and that it runs from top to bottom with nothing on standard error."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.fast.course.test_docs import anchors
from tests.support.bare import bare_path
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tools import notebooks

from tcplab.course.doctor import lessons
from tcplab.experiments import recordings

ALL = sorted((ROOT / "lessons").glob("*.ipynb"))
LESSONS = [path for path in ALL if path.stem != "primer"]


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Any:
    return nbformat.read(request.param, as_version=4)


def cells(notebook: Any, kind: str) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def headings(notebook: Any) -> list[tuple[int, str]]:
    found = []
    for text in cells(notebook, "markdown"):
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        found += [(len(marks), title) for marks, title in re.findall(r"^(#+) (.+)$", prose, re.M)]
    return found


def test_one_title_and_headings_in_order(notebook: Any) -> None:
    levels = [level for level, _title in headings(notebook)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert re.match(r"Lesson \d\d[a-z]? · \w", headings(notebook)[0][1])
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_lesson_has_every_part(notebook: Any) -> None:
    titles = {title for _level, title in headings(notebook)}
    assert {"Predict", "Measure", "On trial", "Try it", "Recap", "Further reading"} <= titles
    assert "In this lesson we" in "\n".join(cells(notebook, "markdown"))


def test_contents_lead_to_every_section(notebook: Any) -> None:
    contents = notebook.cells[0].source.partition("**Contents.**")[2].partition("\n\n")[0]
    sections = [title for level, title in headings(notebook) if level == 2]
    # As JupyterLab makes its anchors.
    wanted = [title.replace("`", "").replace(" ", "-") for title in sections[:-1]]
    link = r"\]\(<?#([^>]+?)>?\)(?: \([^)]*\))?(?: ·|$)"  # with the time behind it, or without
    assert re.findall(link, contents, re.MULTILINE) == wanted


def test_a_cell_is_at_most_ten_lines(notebook: Any) -> None:
    assert max(len(source.splitlines()) for source in cells(notebook, "code")) <= 10


def test_terms_lead_to_the_glossary(notebook: Any) -> None:
    page = (ROOT / "docs/glossary.md").read_text()
    linked = re.findall(r"glossary\.md#([\w-]+)\)", "\n".join(cells(notebook, "markdown")))
    assert linked
    assert set(linked) <= anchors(page)
    assert len(set(linked)) == len(linked), "linked twice"


#: Terms of the glossary that readers of C know, or that are words of every day as well.
EVERYDAY = {"bottleneck", "capture", "copy", "CPU time", "drop", "fragment", "frame", "median"}
EVERYDAY |= {"header", "packet", "path", "pipe", "port", "queue", "socket", "spread", "stall"}
EVERYDAY |= {"system call", "throughput", "warm-up"}
#: Parts of a Markdown cell that are no prose of the lesson.
NO_PROSE = r"`[^`\n]*`|\[[^][]*\]\([^)]*\)|<[^>]+>|^#.*$|^\|.*$|“[^”]*”|\"[^\"\n]*\""


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_each_term_is_linked_where_a_lesson_uses_it(path: Path) -> None:
    """In the prose of a lesson: not in the contents, the quiz, the recap and what follows."""
    page = (ROOT / "docs/glossary.md").read_text()
    texts = cells(nbformat.read(path, as_version=4), "markdown")
    told = [each for each in texts[1:] if not re.search(r"<details>|## (Recap|Further)", each)]
    prose = re.sub(NO_PROSE, "", "\n\n".join(told), flags=re.MULTILINE)
    linked = set(re.findall(r"glossary\.md#([\w-]+)\)", "\n".join(texts)))
    terms = set(re.findall(r"^## ([^\n(]+?)(?: \(.*\))?$", page, re.MULTILINE)) - EVERYDAY
    places = {re.sub(r"-(bdp|rto|rtt|gro|tso-gso|cgroup|tcp_cork)$", "", each) for each in linked}
    missing = [
        term
        for term in sorted(each(terms))
        if re.search(rf"(?<![\w/.-]){re.escape(term)}(?![\w-])", prose)
        and re.sub(r"[^\w -]", "", term).lower().replace(" ", "-") not in places
    ]
    assert not missing, "these terms lead nowhere"


def runs() -> list[Any]:
    """Every lesson live, also without the programs that it uses; on plain loopback what runs there.

    In recorded mode the book's test runs them all. A lesson of which nothing runs on plain loopback
    shows the same recordings there.
    """
    named = {lesson.number: lesson for lesson in lessons()}
    found = []
    for path in ALL:
        lesson = named.get(path.stem.partition("-")[0])
        modes = ["live"]
        if lesson and lesson.on_loopback:
            modes.append("loopback")
        if lesson and lesson.programs:
            modes.append("bare")
        found += [pytest.param(path, mode, id=f"{path.stem}-{mode}") for mode in modes]
    return found


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("path", "mode"), runs())
def test_lesson_runs_with_nothing_on_stderr(
    path: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "live" if mode == "bare" else mode)
    notebook = nbformat.read(path, as_version=4)
    programs = notebook.metadata.get("tcplab", {}).get("programs", [])
    # A lesson that names no programs has to do without them.
    if mode == "bare" or not programs:
        (links := tmp_path / "programs").mkdir()
        monkeypatch.setenv("PATH", bare_path(links))
    notebooks.client(notebook, tmp_path).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out.text for out in outputs if out.get("name") == "stderr"]
    html = "".join(out.get("data", {}).get("text/html", "") for out in outputs)
    alternatives = re.findall(r'<img [^>]*alt="([^"]*)"', html)
    assert alternatives, "a lesson without a picture"
    assert all(len(text) > 20 for text in each(alternatives)), "a picture without words"
    if mode != "loopback":
        printed = "".join(out.text for out in outputs if out.get("name") == "stdout")
        absent = set(re.findall(r"([\w.-]+) is not installed: apt install ", html + printed))
        assert absent <= set(programs) | {"nc.openbsd"}
        not_measured = re.findall(r"not measured now: ([^<]*)", html)
        assert all(" is not installed: " in why for why in not_measured)
        assert mode == "live" or absent
        if mode == "live" and absent:
            pytest.skip(f"all but what needs {', '.join(sorted(absent))} (not installed)")


def test_recordings_are_small_and_name_their_machine() -> None:
    files = sorted(recordings.DIRECTORY.rglob("*.json.gz"))
    assert files
    assert sum(path.stat().st_size for path in files) <= 5_000_000
    for path in files:
        record = json.loads(gzip.decompress(path.read_bytes()))
        origin = recordings.decode(record["result"]).provenance
        assert {"kernel", "cpu", "measured_at"} <= set(origin), path
        assert "recorded" not in origin, f"{path} is a recording of a recording"


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_each_answer_of_the_quiz_is_explained(path: Path) -> None:
    text = "\n\n".join(cells(nbformat.read(path, as_version=4), "markdown"))
    quiz = text.partition("## Check yourself")[2].partition("\n## ")[0]
    questions = re.split(r"^\*\*\d\.\*\*", quiz, flags=re.MULTILINE)[1:]
    assert len(questions) >= 4
    for question in questions:
        # Markdown inside the fold needs empty lines around it.
        answers = re.findall(r"<summary>(.+?)</summary>\n\n(.+?)\n\n</details>", question, re.S)
        assert len(answers) == question.count("<details>") >= 3
        assert sum(why.startswith("Right") for _answer, why in answers) == 1
        assert all(len(why) > 5 for _answer, why in answers)
    recalled = [each for each in questions if re.match(r"\s*\((Primer|Lesson \d\d[a-z]?)\)", each)]
    assert path.stem == "primer" or len(recalled) >= (1 if path.stem.startswith("00") else 2)
