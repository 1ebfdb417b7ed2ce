"""Every question is taught, by a section that exists; the C programs rise from set to set."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import nbformat
import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading import syllabus
from tcplab.grading.drawing import assignments
from tcplab.grading.trial import Trial

SETS = each(assignments(ROOT / "solutions"))
#: Not about a lesson: what somebody wants to know of the course.
NOT_TAUGHT = {("ps0", "w1")}


def anchors(notebook: Path) -> set[str]:
    """The anchors of a notebook's headings, as JupyterLab makes them."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {title.replace("`", "").replace(" ", "-") for title in titles}


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_each_question_is_taught_by_then(source: Path) -> None:
    for question, sections in each(syllabus.taught(source).items()):
        assert sections or (source.name, question) in NOT_TAUGHT, question
        for section in sections:
            assert section.anchor in anchors(ROOT / section.notebook), (question, section)
            assert section.title.replace(" ", "-") == section.anchor
            number = Path(section.notebook).stem.partition("-")[0]
            assert number == section.lesson
            taught = -1 if number == "primer" else int(number[:2])
            assert taught <= int(source.name.removeprefix("ps")), (question, section)


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_links_are_the_same_in_the_exercise(source: Path) -> None:
    released = ROOT / "exercises" / source.name
    assert syllabus.taught(released) == syllabus.taught(source)


def test_programs_ask_for_more_from_set_to_set() -> None:
    found = {path.name: syllabus.programs(path) for path in SETS}
    rules = [len(found[f"ps{number}"].rules) for number in range(8)]
    assert rules == sorted(rules)
    assert rules[1] < rules[6] < rules[7]
    lines = [found[f"ps{number}"].lines for number in range(8)]
    assert all(2 * each < lines[7] for each in lines[:7])
    for early, late in itertools.product((1, 2, 3), (7, 8)):
        assert len(found[f"ps{early}"].rules) < len(found[f"ps{late}"].rules)
    assert max(rules) < len(found["ps9"].rules)
    assert max(lines) < found["ps9"].lines


def test_the_last_set_names_no_fault() -> None:
    programs = sorted((ROOT / "exercises/ps8").glob("*.c"))
    assert len(programs) == 3
    for path in programs:
        manual = path.read_text().partition("*/")[0]
        assert not re.search(r"NODELAY|CORK|SO_RCVBUF|MSG_MORE|Nagle|window scale", manual), path


def test_set_11_names_no_cure() -> None:
    programs = sorted((ROOT / "exercises/ps11").glob("*.c"))
    assert len(programs) == 2
    for path in programs:
        assert not re.search(r"SHUT_WR|shutdown|fork|poll|thread|unread", path.read_text()), path


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_a_broken_rule_costs_points(source: Path) -> None:
    trial = Trial(source)
    for name, mutant in trial.mutants.items():
        if mutant.breaks:
            assert mutant.files, name
            assert mutant.score < trial.full, name


def test_each_written_answer_has_samples_of_every_mark() -> None:
    samples = (ROOT / "solutions/sample-answers.md").read_text().split("\n## ")[1:]
    found = [sample.partition("\n")[0].partition(" (")[0] for sample in samples]
    # ps0 gives its point for any sentence; ps4's plan stands before its explanation.
    sets = [name for path in SETS[1:] for name in [path.name] * (1 + (path.name == "ps4"))]
    assert [name.partition(",")[0] for name in found] == sets
    for name, sample in zip(found, samples, strict=True):
        assert re.findall(r"^→ \*\*(\d)\*\*", sample, re.M) == ["0", "1", "2"], name


def test_guide_has_both_tables() -> None:
    guide = (ROOT / "docs/instructors-guide.md").read_text()
    for table in syllabus.tables(ROOT).split("\n\n"):
        assert table in guide, "paste what `python -m tcplab.grading.syllabus` prints"
