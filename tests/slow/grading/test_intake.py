"""A bad submission affects only its own student, and is reported in one line."""

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, grades
from tests.support.grading.hostile import ELSEWHERE, INTAKE, many_cells
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.grading.batch import Batch, grade
from tcplab.grading.collect import Submitter, collect
from tcplab.grading.course import load_course
from tcplab.grading.flags import suspicious_source
from tcplab.grading.nbgrader_plugins import read_submission
from tcplab.grading.pages import safe_markdown, settle_page
from tcplab.grading.processes import apart

# ---- reading -------------------------------------------------------------------------------------


def read(tiny: Tiny, submission: Path) -> tuple[Any, list[str]]:
    """Return the cells of a submission's repaired notebook, ready for a page, and the repairs."""
    paths = str(submission / "tiny.ipynb"), str(tiny.exercise / "tiny.ipynb")
    made = apart(read_submission, *paths)
    cells = nbformat.from_dict(made["notebook"]).cells
    repairs, _flags = settle_page(cells, submission, made["about"]["slow"])
    return cells, repairs


@pytest.mark.parametrize(
    "bomb", ["\\\\[" * 7000, "\\begin{a}" * 5000, "[a](<" * 5000, "> " * 20_000, "*a _b " * 8000]
)
def test_text_slow_to_render_is_shown_as_typed(bomb: str, tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path)
    changed(set_source("w1-answer", f"Because <b>so</b> {bomb}"))(submission)
    cells, repairs = read(tiny, submission)
    [shown] = [cell for cell in cells if cell["id"] == "w1-answer"]
    page = safe_markdown({}, shown["source"])
    assert "Because" in page
    if repairs:  # a machine that renders the cell in time does not repair it
        assert repairs == ["shown-as-typed: cell 12 of the notebook (too long or too slow)"]
        assert "&lt;b&gt;so" in page


def test_hundreds_of_slow_texts_are_shown_as_typed(tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path)
    many_cells("markdown", "\\\\[" * 5000, 300)(submission)
    cells, repairs = read(tiny, submission)
    assert len(cells) == 312
    assert sum(note.startswith(("shown-as-typed", "cut")) for note in repairs) >= 290


def test_suspicious_code_is_found_in_linear_time() -> None:
    """Matching 1 MB of these texts used to take hours."""
    for text in ("tcplab." * 150_000, "sys.modules" + " " * 1_000_000, "def " * 250_000):
        suspicious_source("cell", text)
    for attack in ("tcplab.x.y = 1", "import os; os.path = 2", "sys.modules ['a']"):
        assert suspicious_source("cell", attack)
    assert suspicious_source("cell", "a = tcplab.x == 3; os.environ['HOME'] = mytcplab.x") == []


# ---- a class -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def course(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    course = tmp_path_factory.mktemp("intake") / "course"
    shutil.copytree(tiny.course, course)
    for student, hostile in INTAKE.items():
        hostile.do(tiny.hand_in(course / "submitted" / student))
    return course


@pytest.fixture(scope="module")
def batch(course: Path) -> Batch:
    return grade("tiny", course=course, jobs=2)


def test_every_student_has_a_score_or_a_reason(course: Path, batch: Batch) -> None:
    without = {student for student, hostile in INTAKE.items() if hostile.score is None}
    assert set(batch.failed) == without
    assert batch.lacking == {}
    for student in each(without):
        assert INTAKE[student].note in batch.failed[student]
    records = course / "reports" / "tiny" / "records"
    for student in each(set(INTAKE) - without):
        report = json.loads((records / f"{student}.json").read_text())
        assert sum(report["scores"].values()) == INTAKE[student].score, student
        notes = "\n".join([*report["repairs"], *report["flags"]])
        assert INTAKE[student].note in notes, student
        assert (course / "feedback" / student / "tiny" / "tiny.html").is_file()
    assert json.loads((records / "ada.json").read_text())["repairs"] == []


def test_folder_names_are_escaped_in_tables_and_pages(course: Path, batch: Batch) -> None:
    assert batch.failed
    rows = grades(course)
    assert len(rows) == len(INTAKE)
    assert rows.keys() >= {"two\\nlines,1\\x1b[31m", "ada"}
    folder = course / "reports" / "tiny"
    for name in ("index.html", "grades.csv", "moodle.csv", "canvas.csv"):
        data = (folder / name).read_bytes()
        assert b"\x1b" not in data
        assert b"two\nlines" not in data


def test_page_links_to_the_cells_cut_from_it(course: Path, batch: Batch) -> None:
    assert batch.graded
    feedback = course / "feedback" / "much-code" / "tiny"
    page = (feedback / "tiny.html").read_text()
    links = re.findall(r'href="(cell-\d+\.json)"', page)
    assert links == [f"cell-{number}.json" for number in range(13, 21)]
    for folder in (feedback, course / "autograded" / "much-code" / "tiny"):
        for link in links:
            assert len(json.loads((folder / link).read_text())["source"]) == 96_000
    assert len(page) < 10_000_000


def test_page_leads_only_to_files_of_the_submission(course: Path, batch: Batch) -> None:
    assert batch.graded
    page = (course / "feedback" / "other-hosts" / "tiny" / "tiny.html").read_text()
    addresses = re.findall(r'(?:href|src)\s*=\s*"([^"]*)"', page)
    assert [address for address in addresses if any(host in address for host in ELSEWHERE)] == []
    assert all(host in page for host in ELSEWHERE[:2])  # citations remain as text


def test_page_of_many_texts_is_short(course: Path, batch: Batch) -> None:
    assert batch.graded
    page = (course / "feedback" / "many-texts" / "tiny" / "tiny.html").read_text()
    assert 90_000 < page.count("word") * len("word ") <= 110_000


def test_second_run_grades_nothing_and_escapes_names(
    course: Path, batch: Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch.failed
    assert main(["grade", "tiny", "--course", str(course), "--jobs", "2"]) == 3
    printed = capsys.readouterr()
    assert "\x1b" not in printed.err
    assert "tcplab: two\\nlines,1\\x1b[31m: no grade: the folder's name" in printed.err
    assert "0 graded" in printed.out


def test_again_accepts_students_before_and_after_it(
    course: Path, batch: Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch.failed
    for arguments in (["--again", "ada"], ["ada", "--again"]):
        main(["grade", "tiny", *arguments, "--course", str(course), "--no-feedback"])
        assert "1 graded" in capsys.readouterr().out
    # make the page that --no-feedback left out
    grade("tiny", course=course, students=["ada"])


BROKEN_PAGES = """
def filter_of_a_bug(source):
    raise RuntimeError("no page of this")

get_config().HTMLExporter.filters = {"markdown2html": filter_of_a_bug}
"""


def test_page_falls_back_to_plain_text_if_rendering_fails(tiny: Tiny, tmp_path: Path) -> None:
    course = shutil.copytree(tiny.course, tmp_path / "course")
    changed(set_source("w1-answer", "<b>Because</b>"))(tiny.hand_in(course / "submitted" / "ada"))
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text() + BROKEN_PAGES)
    batch = grade("tiny", course=course, jobs=1)
    assert (batch.graded, batch.failed, batch.lacking) == (["ada"], {}, {})
    page = (course / "feedback" / "ada" / "tiny" / "tiny.html").read_text()
    assert "&lt;b&gt;Because" in page


def test_grade_is_kept_if_no_page_can_be_made(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = shutil.copytree(tiny.course, tmp_path / "course")
    tiny.hand_in(course / "submitted" / "ada")
    (course / "feedback").write_text("a file where the folder should be")
    assert main(["grade", "tiny", "--course", str(course)]) == 3
    assert "tcplab: ada: no feedback page: NotADirectoryError" in capsys.readouterr().err
    row = grades(course)["ada"]
    assert float(row["score"]) == 5
    assert row["error"].startswith("no feedback page: NotADirectoryError")
    assert "ada,5" in (course / "reports" / "tiny" / "moodle.csv").read_text()


# ---- collecting ----------------------------------------------------------------------------------


def test_lms_user_id_identifies_the_sender(tiny: Tiny, tmp_path: Path) -> None:
    course = shutil.copytree(tiny.course, tmp_path / "course")
    _, folders = load_course(course)
    with Gradebook(folders.db_url, folders.course_id) as gradebook:
        gradebook.update_or_create_student("ada", lms_user_id="1")
        gradebook.update_or_create_student("bob", lms_user_id="3")
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for login in ("ada-1", "bob"):
        with zipfile.ZipFile(folder / f"lovelace_1_2_{login}.zip", "w") as archive:
            archive.writestr("tiny.ipynb", "{}")
    collected = collect("tiny", [folder], course=course)
    assert collected.senders == {"ada": Submitter("ada", "lovelace", "1")}
    assert collected.refused == {
        "lovelace_1_2_bob.zip": "belongs to the LMS's user 1, but bob is user 3"
    }
