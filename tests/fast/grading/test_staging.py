"""A submission's plain files are copied under the assignment's names."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.grading.damaged import deep_path, nested
from tests.support.needs import needs_ordinary_user

from tcplab.grading import staging
from tcplab.grading.staging import Expected, content_key, stage


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    folder = tmp_path / "submitted"
    folder.mkdir()
    (folder / "tiny.ipynb").write_text("{}")
    (folder / "total.c").write_text("int x;")
    return folder


def staged(submission: Path) -> tuple[set[str], list[str], list[str]]:
    """Return the names of the copies, the repairs and the flags."""
    target = submission.parent / "staged"
    done = stage(submission, target, Expected("tiny.ipynb", ["total.c"]))
    names = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    return names, done.repairs, done.flags


@pytest.mark.parametrize(
    ("add", "reason"),
    [(deep_path, "unreadable: "), (nested, "(more than 100 folders in one another)")],
)
def test_file_too_deep_in_folders_is_left_out_and_flagged(
    add: Callable[[Path], None], reason: str, submission: Path
) -> None:
    add(submission)
    names, repairs, [flag] = staged(submission)
    assert (names, repairs) == ({"tiny.ipynb", "total.c"}, [])
    assert reason in flag
    assert content_key(submission) != ""


@needs_ordinary_user
def test_unreadable_file_is_left_out_and_flagged(submission: Path) -> None:
    (submission / "secret.txt").write_text("")
    (submission / "secret.txt").chmod(0)
    names, _repairs, flags = staged(submission)
    assert names == {"tiny.ipynb", "total.c"}
    assert flags == ["unreadable: 'secret.txt' (Permission denied)"]


def test_sparse_files_are_left_alone(submission: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a sparse 1 TB file would take about an hour, so it must not be read."""
    monkeypatch.setattr(staging, "MAX_FOLDER_BYTES", 7 << 20)
    with (submission / "sparse.bin").open("wb") as file:
        file.truncate(1 << 40)
    for number in range(12):
        with (submission / f"some-{number:02}.bin").open("wb") as file:
            file.truncate(3 << 20)
    key = content_key(submission)
    names, repairs, flags = staged(submission)
    assert names == {"tiny.ipynb", "total.c", "some-00.bin", "some-01.bin"}
    assert flags == []
    assert repairs[0].startswith("left-out: 'some-02.bin', 'some-03.bin', 'some-04.bin' and 8 more")
    assert key == content_key(submission)
    with (submission / "sparse.bin").open("r+b") as file:
        file.truncate(2 << 40)
    assert key != content_key(submission)


def test_assignment_files_come_first(submission: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MAX_FILES", 20)
    for number in range(30):
        (submission / f"a{number:03}").write_bytes(b"")
    names, _repairs, flags = staged(submission)
    assert {"tiny.ipynb", "total.c"} < names
    assert len(names) == 20
    assert flags == ["too-many-files: 'a018' and all after it"]


@pytest.mark.parametrize(
    "name",
    [
        "total (1).c",
        "total-2.c",
        "TOTAL.C",
        "ada_total.c",
        "total - Copy.c",
        "total.c.txt",
        "total_v2.c",
        "total-solution.cpp",
        "total.c.c",
        "a/total.c",
    ],
)
def test_file_under_another_name_is_found(name: str, submission: Path) -> None:
    (submission / name).parent.mkdir(exist_ok=True)
    (submission / "total.c").rename(submission / name)
    names, repairs, _flags = staged(submission)
    assert names == {"tiny.ipynb", "total.c"}
    assert repairs == [f"wrong-file-name: '{name}'"]


def test_changed_copy_beside_an_untouched_notebook_is_taken(
    submission: Path, tmp_path: Path
) -> None:
    """JupyterLab's *Duplicate* names a copy so."""
    shutil.copytree(submission, tmp_path / "released")
    (submission / "tiny-Copy1.ipynb").write_text("mine")
    done = stage(submission, tmp_path / "copy", Expected("tiny.ipynb", [], tmp_path / "released"))
    assert (tmp_path / "copy" / "tiny.ipynb").read_text() == "mine"
    assert done.repairs == ["wrong-file-name: 'tiny-Copy1.ipynb'"]


@pytest.mark.parametrize("name", ["subtotal.c", "total.h", "totality.c", "c"])
def test_other_file_name_is_not_taken_for_the_source(name: str, submission: Path) -> None:
    (submission / "total.c").rename(submission / name)
    assert staged(submission) == ({"tiny.ipynb", name}, [], [])


@pytest.mark.parametrize(
    ("given", "copy"),
    [
        ("data", "data-file"),  # a released folder
        ("captures", "captures-file"),  # a folder that the first cell makes
        ("tiny.html", "tiny.html-file"),  # the page, or the learner's export of the notebook
        ("tiny.html/a", "tiny.html-folder/a"),
        ("cell-3.json", "cell-3.json-file"),  # a part of the page
        ("captures/17.pcapng/a", "captures/17.pcapng-folder/a"),
    ],
)
def test_file_named_like_one_that_grading_makes(
    given: str, copy: str, submission: Path, tmp_path: Path
) -> None:
    (tmp_path / "released" / "data").mkdir(parents=True)
    (submission / given).parent.mkdir(parents=True, exist_ok=True)
    (submission / given).write_text("mine")
    done = stage(submission, tmp_path / "staged", Expected("tiny.ipynb", [], tmp_path / "released"))
    assert (tmp_path / "staged" / copy).read_text() == "mine"
    assert done.repairs == [f"name-clash: '{given}'"]


@pytest.mark.parametrize(
    ("files", "own", "repairs"),
    [
        ({"main.c": "b"}, "b", ["wrong-file-name: 'main.c'"]),
        (
            {"main.c": "b", "old.c": "c"},
            "a",
            ["not-looked-at: 'main.c', 'old.c'; total.c as handed out"],
        ),
        ({"total.c": "d", "main.c": "b"}, "d", []),
        ({"main.c": " "}, "a", []),
    ],
)
def test_program_under_a_name_of_its_own_is_taken_if_it_is_the_only_one(
    files: dict[str, str], own: str, repairs: list[str], submission: Path, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    released.mkdir()
    for name, text in ({"total.c": "a"} | files).items():
        (submission / name).write_text(text)
    (released / "total.c").write_text("a")
    target = tmp_path / "staged"
    assert (
        stage(submission, target, Expected("tiny.ipynb", ["total.c"], released)).repairs == repairs
    )
    assert (target / "total.c").read_text() == own


def test_byte_code_and_checkpoints_do_not_change_the_digest(tmp_path: Path) -> None:
    """A run may leave byte code next to the judge, which must not make all grades outdated."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "judge.py").write_text("points = 1\n")
    before = content_key(tmp_path)
    for by_product in ("hidden/__pycache__/judge.cpython-313.pyc", ".ipynb_checkpoints/a.ipynb"):
        path = tmp_path / by_product
        path.parent.mkdir()
        path.write_bytes(b"made anew at any time")
        assert content_key(tmp_path) == before, by_product
    (tmp_path / "hidden" / "judge.py").write_text("points = 2\n")
    assert content_key(tmp_path) != before
