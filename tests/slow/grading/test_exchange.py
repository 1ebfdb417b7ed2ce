"""Test the exchange: files must belong to the submission's owner; feedback returns at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nbgrader.utils import notebook_hash
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, refused, scores
from tests.support.needs import needs_root
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.errors import StepError
from tcplab.grading.course import expected_files, load_course
from tcplab.grading.exchange import SETTLED_S, Collect, Inbound, take_arrival
from tcplab.grading.staging import stage

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def course(tiny: Tiny, tmp_path: Path) -> Path:
    """Make a course with an exchange that does not check accounts."""
    course, exchange = tmp_path / "course", tmp_path / "exchange"
    shutil.copytree(tiny.course, course)
    (exchange / "tcplab" / "inbound").mkdir(parents=True)
    exchange.chmod(0o777)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(
            f"\nget_config().Exchange.root = {str(exchange)!r}\n"
            "get_config().ExchangeCollect.check_owner = False\n"
        )
    return course


def inbound_of(course: Path) -> Path:
    return course.with_name("exchange") / "tcplab" / "inbound"


def arrive(
    course: Path, submission: Path, student: str, minute: int = 0, *, complete: bool = True
) -> Path:
    """Copy a submission into the exchange, as `nbgrader submit` does; return the new folder."""
    at = (NOW + timedelta(minutes=minute)).strftime("%Y-%m-%d %H:%M:%S.%f %Z")
    folder = inbound_of(course) / f"{student}+tiny+{at}+cmFuZG9t"
    shutil.copytree(submission, folder)
    (folder / "timestamp.txt").write_text(at)
    (folder / "submission_secret.txt").write_text(f"{student} {minute}")
    folder.chmod(0o777 if complete else 0o755)
    return folder


def page_of(course: Path, student: str, minute: int = 0) -> Path:
    """Return the path at which `nbgrader fetch_feedback` looks for a submission's page."""
    name = notebook_hash(secret=f"{student} {minute}", notebook_id="tiny")
    return course.with_name("exchange") / "tcplab" / "feedback" / f"{name}.html"


# ---- collecting ----------------------------------------------------------------------------------


def test_newest_complete_submission_of_each_student_counts(course: Path, tiny: Tiny) -> None:
    submission = tiny.hand_in(course / "made")
    arrive(course, submission, "ada", 5)
    last = arrive(course, submission, "ada", 9)
    arrive(course, submission, "ada", 7)
    copying = arrive(course, submission, "bob", complete=False)
    newest, refused = Inbound(inbound_of(course).parent, "tiny", False).newest()
    assert {name: arrival.folder for name, arrival in newest.items()} == {"ada": last}
    assert refused == {}
    in_time, _ = Inbound(inbound_of(course).parent, "tiny", False).newest(
        NOW + timedelta(minutes=8)
    )
    assert in_time["ada"].at == NOW + timedelta(minutes=7)
    assert copying.is_dir()
    assert SETTLED_S >= 10  # time for a copy over a slow network


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ada+tiny+yesterday or so+x", "its name contains no valid time"),
        ("ada+tiny+2999-01-01 00:00:00 UTC+x", "its name gives a time in the future"),
        (f"ada+tiny+{'9' * 100}+x", "its name contains no valid time"),
        ("a*+tiny+2026-01-01 00:00:00 UTC+x", "its student's id has one of * ? [ ]"),
        ("..+tiny+2026-01-01 00:00:00 UTC+x", "its student's id begins with a dot"),
    ],
)
def test_only_the_folder_with_an_invalid_name_is_refused(
    name: str, reason: str, course: Path, tiny: Tiny
) -> None:
    arrive(course, tiny.hand_in(course / "made"), "bob")
    (inbound_of(course) / name).mkdir()
    newest, refused = Inbound(inbound_of(course).parent, "tiny", False).newest()
    assert list(newest) == ["bob"]
    assert refused[name].startswith(reason)


def test_folder_in_another_users_name_is_refused(course: Path, tiny: Tiny) -> None:
    folder = arrive(course, tiny.hand_in(course / "made"), "no-user-of-this-name")
    newest, refused = Inbound(inbound_of(course).parent, "tiny", True).newest()
    assert newest == {}
    assert "and not to no-user-of-this-name" in refused[folder.name]
    target = inbound_of(course) / "eve+tiny+2026-01-01 00:00:00 UTC+x"
    target.symlink_to(folder)
    newest, refused = Inbound(inbound_of(course).parent, "tiny", False).newest()
    assert (list(newest), refused[target.name]) == (["no-user-of-this-name"], "it is not a folder")


def test_symlinks_to_the_instructors_files_are_not_followed(course: Path, tiny: Tiny) -> None:
    """nbgrader's own `collect` would copy the solution, and the copy would get all points."""
    folder = arrive(course, tiny.hand_in(course / "made"), "eve")
    for name, to in (
        ("tiny.ipynb", "tiny.ipynb"),
        ("hidden", "hidden"),
        ("j.py", "hidden/judge.py"),
    ):
        path = folder / name
        path.unlink(missing_ok=True)
        path.symlink_to(course / "solutions" / "tiny" / to)
    arrive(course, tiny.hand_in(course / "made2"), "bob")
    (inbound_of(course) / "mallory+tiny+no time+x").mkdir()
    config, folders = load_course(course)
    folders.assignment_id, folders.student_id = "tiny", "*"
    Collect(coursedir=folders, config=config).start()
    assert (course / "submitted" / "bob" / "tiny" / "tiny.ipynb").is_file()
    taken = {path.name for path in (course / "submitted" / "eve" / "tiny").rglob("*")}
    assert "total.c" in taken
    assert taken.isdisjoint({"tiny.ipynb", "hidden", "j.py", "judge.py"})


@needs_root
def test_files_of_another_user_are_not_collected(course: Path, tiny: Tiny, tmp_path: Path) -> None:
    """A hard link keeps its owner, and a folder may turn into a link after it was checked."""
    folder = arrive(course, tiny.hand_in(course / "made"), "games")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    (folder / "total.c").unlink()
    (folder / "total.c").hardlink_to(course / "solutions" / "tiny" / "hidden" / "total.c")
    arrival = Inbound(inbound_of(course).parent, "tiny", False).newest()[0]["games"]
    owned = type(arrival)("games", arrival.at, arrival.folder, 65534, 0.0)
    expected = expected_files(load_course(course)[1], "tiny")
    assert take_arrival(owned, tmp_path / "t", expected).flags == [
        "unreadable: 'total.c' (another user's file)"
    ]
    assert not (tmp_path / "t" / "total.c").exists()
    for path in folder.rglob("*"):
        os.chown(path, 0, 0)
    with pytest.raises(StepError, match="no file of its owner"):
        take_arrival(owned, tmp_path / "t", expected)


@pytest.mark.parametrize("assignment", ["tiny", "another"])
def test_hard_link_to_the_instructors_files_is_not_followed(
    course: Path, tiny: Tiny, tmp_path: Path, assignment: str
) -> None:
    """A hard link that a backup made does no harm."""
    folder = tiny.hand_in(course / "submitted" / "eve")
    (tmp_path / "backup").hardlink_to(folder / "total.c")
    (course / "solutions" / "another").mkdir()
    solution = course / "solutions" / assignment / "tiny.ipynb"
    if assignment == "another":
        solution.write_text("{}")
    before = solution.read_bytes()
    (folder / "tiny.ipynb").unlink()
    (folder / "tiny.ipynb").hardlink_to(solution)
    target = tmp_path / "staged"
    staged = stage(folder, target, expected_files(load_course(course)[1], "tiny"))
    assert staged.flags == ["unreadable: 'tiny.ipynb' (a hard link to the instructor's file)"]
    assert (target / "tiny.ipynb").read_bytes() == b""
    assert (target / "total.c").read_bytes() == (folder / "total.c").read_bytes()
    assert solution.read_bytes() == before


# ---- feedback at submission ----------------------------------------------------------------------


class Watching:
    """A process that runs `tcplab grade tiny --watch`, killed at the end."""

    def __init__(self, course: Path, *arguments: str) -> None:
        self.log = course.parent / f"watch-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "tcplab", "grade", "tiny", "--watch", "--jobs", "2"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], cwd=course, stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 240
        while not holds():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline_s, self.log.read_text()
            time.sleep(0.05)

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120), self.log.read_text()


def test_submission_is_graded_and_its_page_is_returned(course: Path, tiny: Tiny) -> None:
    """A kill -9 loses nothing. A page hides the mark scheme, and results after two tries."""
    made = course.parent / "made"
    solved = tiny.hand_in(made / "solved")
    wrong = tiny.hand_in(made / "wrong")
    changed(set_source("q1-answer", "q1_sum = 1"))(wrong)
    arrive(course, solved, "ada")
    arrive(course, wrong, "bob")
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("get_config().EarlyPage.tries = 2\n")
    with Watching(course) as first:
        first.until(lambda: page_of(course, "ada").is_file() and page_of(course, "bob").is_file())
        arrive(course, wrong, "bob", 1)
    with Watching(course) as second:
        second.until(lambda: page_of(course, "bob", 1).is_file())
        arrive(course, solved, "bob", 2)
        second.until(lambda: page_of(course, "bob", 2).is_file())
        second.until(lambda: "bob: graded" in second.log.read_text())
        status, output = second.end()
    assert status == 0, output
    assert "Traceback" not in output
    assert "ada: graded" not in output  # the first watch graded it
    pages = [page_of(course, "bob", minute).read_text() for minute in range(3)]
    for page in each([*pages, page_of(course, "ada").read_text()]):
        assert "MARK SCHEME" not in page
        assert "Two points for anything" not in page
        assert "Feedback on your latest submission." in page
    assert ["q1_sum is too small." in page for page in pages] == [True, True, False]
    assert "q1: graded; its result will be in the final feedback." in pages[2]
    assert "q1_sum: right" not in pages[2]
    assert "Score: 2.0 / 4.0" in pages[2]  # without q1 and q2, which is a choice
    assert "so far: q1: 2" in pages[2]
    assert scores(course) == {"ada": 5.0, "bob": 5.0}
    # The final feedback is complete.
    assert main(["grade", "tiny", "--course", str(course), "--jobs", "2"]) == 0
    last = (course / "feedback" / "bob" / "tiny" / "tiny.html").read_text()
    assert "q1_sum: right" in last
    assert "Two points for anything" in last


def test_frequent_or_bad_submissions_delay_no_other_student(course: Path, tiny: Tiny) -> None:
    """Every student gets a first page before any student gets a second."""
    made = course.parent / "made"
    solved = tiny.hand_in(made / "solved")
    arrive(course, solved, "mallory")
    bad = arrive(course, solved, "oscar")
    shutil.rmtree(bad)
    bad.mkdir()
    bad.chmod(0o777)
    (bad / "tiny.ipynb").symlink_to("/etc/passwd")
    with Watching(course, "--jobs", "1") as watching:
        watching.until(page_of(course, "mallory").is_file)
        watching.process.send_signal(signal.SIGSTOP)  # so that it sees all submissions at once
        for minute in (1, 2, 3):
            arrive(course, solved, "mallory", minute)
        for student in ("ada", "bob", "carla"):
            arrive(course, solved, student)
        watching.process.send_signal(signal.SIGCONT)
        watching.until(lambda: watching.log.read_text().count("page released") == 5)
        status, output = watching.end()
    assert status == 3  # oscar has no grade
    assert "oscar: no grade: it contains no file of its owner; link: 'tiny.ipynb'" in output
    order = [line.split()[1] for line in output.splitlines() if "graded, page released" in line]
    assert sorted(order) == ["ada:", "bob:", "carla:", "mallory:", "mallory:"], output
    # mallory's second page, for the last of her three submissions, comes last or last but one. The
    # grader works on two submissions at a time, and they may finish in either order.
    assert order.index("mallory:", 1) >= 3
    assert page_of(course, "mallory", 3).is_file()
    record = json.loads((course / "reports" / "tiny" / "tries" / "mallory.json").read_text())
    assert record == {"q1": [], "q2": [], "q3": []}


def test_watch_without_an_exchange_is_refused(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(inbound_of(course))
    command = ["grade", "tiny", "--course", str(course), "--watch"]
    assert "no exchange: " in refused(command, capsys)
