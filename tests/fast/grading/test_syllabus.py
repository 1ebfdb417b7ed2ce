"""Every question but one links to sections that exist, and later sets ask more of C programs."""

import re
import shutil
import tomllib
from pathlib import Path

import nbformat
import pytest
from tests.support.grading.sets import SHIPPED
from tests.support.lessons import BY_SLUG
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tools import syllabus

from tcplab.grading.drawing import assignments
from tcplab.grading.trial import Trial

SETS = each(path for path in assignments(ROOT / "solutions") if path.name in SHIPPED)
#: A question about the course itself and one about servers, which no lesson teaches.
NOT_TAUGHT = {("the-lab", "w1"), ("real-programs", "q7")}
#: A set may refer to these lessons before their turn. All but `pipes` share a set with an earlier
#: lesson, and `pipes` teaches how to plan a measurement.
EARLY = ("send-buffer", "loss", "sharing", "path-mtu", "pipes")


def sections(notebook: Path) -> dict[str, str]:
    """Return the text below each heading of a notebook by the anchor that JupyterLab makes."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    _, *parts = re.split(r"^#+ ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.M)
    texts = dict(part.split("\n", 1) for part in parts)
    return {title.replace("`", "").replace(" ", "-"): text for title, text in texts.items()}


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_each_question_is_taught_before_its_problem_set(source: Path) -> None:
    terms = tomllib.loads((source / "hidden/why.toml").read_text())["taught"]
    for question, links in each(syllabus.taught(source).items()):
        assert links or (source.name, question) in NOT_TAUGHT, question
        assert not links or question in terms, (
            f"add taught.{question} to {source.name}/hidden/why.toml, a phrase of the section that"
            " the question links to"
        )
        for section in links:
            text = " ".join(sections(ROOT / section.notebook)[section.anchor].split())
            is_how_to = section.anchor == "A-packet-of-your-own"
            assert is_how_to or re.search(terms[question], text), (question, section)
            assert section.title.replace(" ", "-") == section.anchor
            notebook = Path(section.notebook).stem
            assert notebook.partition("-")[2] == section.lesson
            assert notebook <= BY_SLUG[source.name].stem or section.lesson in EARLY, question


def test_every_lesson_but_the_optional_one_is_tested() -> None:
    links = [link for path in SETS for taught in syllabus.taught(path).values() for link in taught]
    assert {section.lesson for section in links} == {"primer", *BY_SLUG} - {"records-and-quotes"}


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_every_page_states_the_same_time_for_a_set(source: Path) -> None:
    head = nbformat.read(source / f"{source.name}.ipynb", as_version=4).cells[0].source
    (stated,) = re.findall(r"^\d+ points, (.+?)(?: minutes)?, after lesson", head, re.M)
    lesson = nbformat.read(BY_SLUG[source.name], as_version=4).cells
    link = f"](../exercises/{source.name}/{source.name}.ipynb)"
    recap = " ".join(cell.source for cell in lesson if link in cell.source)
    assert f"takes {stated} minutes" in " ".join(recap.split())
    guide = (ROOT / "docs/instructors-guide.md").read_text()
    assert f"| {source.name}, {stated} min |" in guide
    for page in ("docs/handout.md", "docs/learners-guide.md", "start.ipynb"):
        text = " ".join((ROOT / page).read_text().split())
        assert "60 to 90 minutes" in text
        assert (
            source.name == "the-lab" or stated == "60 to 90" or f"`{source.name}` {stated}" in text
        )


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_links_are_the_same_in_the_exercise(source: Path) -> None:
    released = ROOT / "exercises" / source.name
    assert syllabus.taught(released) == syllabus.taught(source)


def test_programs_of_the_third_part_have_the_most_rules() -> None:
    programs = {path.name: syllabus.programs(path) for path in SETS}
    rules = {name: len(program.rules) for name, program in programs.items()}
    for early in ("the-lab", "pipes", "tcp-vs-udp", "segments", "buffers", "small-writes"):
        assert rules[early] < rules["diagnosis"], early
    assert max(programs, key=lambda name: rules[name]) == "slow-start"
    assert max(programs, key=lambda name: programs[name].lines) == "slow-start"


def test_diagnosis_names_no_fault() -> None:
    programs = sorted((ROOT / "exercises/diagnosis").glob("*.c"))
    assert len(programs) == 3
    for path in programs:
        manual = path.read_text().partition("*/")[0]
        assert not re.search(r"NODELAY|CORK|SO_RCVBUF|MSG_MORE|Nagle|window scale", manual), path


def test_real_programs_exercise_names_no_fix() -> None:
    programs = sorted((ROOT / "exercises/real-programs").glob("*.c"))
    assert len(programs) == 2
    for path in programs:
        assert not re.search(r"SHUT_WR|shutdown|fork|poll|thread|unread", path.read_text()), path


@pytest.mark.parametrize("source", SETS, ids=lambda path: path.name)
def test_a_broken_rule_costs_points(source: Path) -> None:
    trial = Trial(source)
    for name, mutant in trial.mutants.items():
        if mutant.breaks:
            assert mutant.files, name
            assert sum(mutant.loses.values()) > 0, name


def test_each_written_answer_has_samples_of_every_mark() -> None:
    samples = (ROOT / "solutions/sample-answers.md").read_text().split("\n## ")[1:]
    names = [sample.partition("\n")[0].partition(" (")[0] for sample in samples]
    # The set the-lab gives its point for any sentence, so it has no samples. The set buffers has
    # two written answers, first a plan and then an explanation.
    sets = [name for path in SETS[1:] for name in [path.name] * (1 + (path.name == "buffers"))]
    assert [name.partition(",")[0] for name in names] == sets
    for name, sample in zip(names, samples, strict=True):
        assert re.findall(r"^→ \*\*(\d)\*\*", sample, re.M) == ["0", "1", "2"], name


def test_points_and_tables_of_sets_and_guide_are_up_to_date() -> None:
    assert list(syllabus.outdated(ROOT)) == [], "run `make exercises`, which writes them"


def test_points_of_a_check_cell_are_written_into_the_texts(tmp_path: Path) -> None:
    for name in ("solutions/pipes", "docs", "lessons"):
        shutil.copytree(ROOT / name, tmp_path / name)
    path = tmp_path / "solutions/pipes/pipes.ipynb"
    notebook = nbformat.read(path, as_version=4)
    marks = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
    (check,) = [mark for mark in marks if mark.grade_id == "q7"]
    check.points = 9.0
    nbformat.write(notebook, path)
    texts = syllabus.outdated(tmp_path)
    total = sum(mark.get("points", 0) for mark in marks)
    for stated in (f'"{total:g} points, ', "| Program in C | q7 | 9 |", "**q7** (9 points). "):
        assert stated in texts[path]
    (guide,) = set(texts) - {path}
    assert re.search(r"^\| pipes \|.* 9 p, \d+, \d+ \|", texts[guide], re.M)


@pytest.mark.parametrize("source", SETS[1:], ids=lambda path: path.name)
def test_minutes_of_the_questions_are_within_those_of_the_set(source: Path) -> None:
    asked = syllabus.questions(source).values()
    head = nbformat.read(source / f"{source.name}.ipynb", as_version=4).cells[0].source
    least, most = map(int, re.findall(r"points, (\d+) to (\d+) minutes", head)[0])
    assert least <= sum(question.minutes for question in asked) <= most
    assert sum(question.points for question in asked) == 20
