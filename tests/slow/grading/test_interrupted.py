"""A grader loses nothing when it is killed, runs twice, or meets a full disk or a locked file."""

import errno
import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.lab.grading.test_faults import content, outcome
from tests.support.grading.fixtures import Tiny, gradebook, graded_by_command, scores
from tests.support.needs import needs_root

from tcplab.cli import main

#: Students, each with the points that the grader must give.
CLASS = {"ada": 5.0, "bob": 0.0, "carla": 5.0, "dan": 0.0}


@pytest.fixture
def course(tiny: Tiny, tmp_path: Path) -> Path:
    course = tmp_path / "course"
    shutil.copytree(tiny.course, course)
    for student, score in CLASS.items():
        tiny.hand_in(course / "submitted" / student, solved=score > 0)
    return course


def start(course: Path, *arguments: str, **how: Any) -> subprocess.Popen[str]:
    return graded_by_command(course, "--jobs", "2", *arguments, **how)


def finish(grader: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = grader.communicate(timeout=300)
    assert "Traceback" not in output, output
    return grader.returncode, output


def assert_each_once(course: Path) -> None:
    assert scores(course) == CLASS
    with sqlite3.connect(course / "gradebook.db") as book:
        assert book.execute("pragma integrity_check").fetchall() == [("ok",)]
        submitted = book.execute("select student_id from submitted_assignment").fetchall()
        grades = book.execute("select count(*) from grade").fetchone()[0]
    assert sorted(student for (student,) in submitted) == sorted(CLASS)
    assert grades == 4 * len(CLASS)  # q1 to q3, and w1
    assert not list((course / "reports" / "tiny").glob("tcplab-*"))
    for student in CLASS:
        assert (course / "feedback" / student / "tiny" / "tiny.html").is_file(), student


#: Files that appear one after the other while a class is graded.
MOMENTS = (
    "reports/tiny/tcplab-*/slot-*",
    "reports/tiny/logs/*",
    "reports/tiny/records/*",
    "reports/tiny/graded/*",
    "feedback/*/tiny/tiny.html",
)


def start_until(course: Path, moment: str) -> subprocess.Popen[str]:
    """Start a grader; return when one more file matches `moment`, or all is graded."""
    before = len(list(course.glob(moment)))
    grader = start(course, own_group=True)
    while grader.poll() is None and len(list(course.glob(moment))) <= before:
        time.sleep(0.005)
    return grader


def test_grader_killed_at_any_step_loses_nothing(course: Path) -> None:
    for moment in MOMENTS:
        grader = start_until(course, moment)
        grader.kill()
        grader.communicate()
    assert finish(start(course))[0] == 0
    assert_each_once(course)
    _, output = finish(start(course))
    assert output.startswith("0 graded"), output


@pytest.mark.parametrize("left", [None, b"", b'{"cells": ['])
def test_incomplete_release_is_made_again(course: Path, left: bytes | None) -> None:
    """nbgrader writes the notebook last, after the gradebook's entry."""
    assert finish(start(course))[0] == 0
    notebook = course / "exercises" / "tiny" / "tiny.ipynb"
    released = notebook.read_bytes()
    notebook.unlink() if left is None else notebook.write_bytes(left)
    assert finish(start(course, "--again"))[0] == 0
    assert notebook.read_bytes() == released
    assert_each_once(course)


def test_ctrl_c_at_any_step_prints_one_line_and_loses_nothing(course: Path) -> None:
    for moment in MOMENTS:
        grader = start_until(course, moment)
        with suppress(ProcessLookupError):
            os.killpg(grader.pid, signal.SIGINT)  # to the whole group, as a terminal does
        status, output = finish(grader)
        reported = [line for line in output.splitlines() if line.startswith("tcplab:")]
        if status == 0:  # the grader had nothing left to do
            assert reported == []
        else:
            assert (status, len(reported)) == (130, 1), output
            assert reported[0].startswith("tcplab: interrupted")
    assert finish(start(course))[0] == 0
    assert_each_once(course)


def test_ctrl_c_while_the_gradebook_is_made_prints_one_line(course: Path, tmp_path: Path) -> None:
    alembic = tmp_path / "alembic"
    alembic.write_text(f"""#!{sys.executable}
import pathlib, signal, sys, time
held = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
pathlib.Path({str(tmp_path / "started")!r}).write_text("held" if held else "open")
time.sleep(1)
sys.argv[0] = "alembic"
from alembic.config import main
main()
""")
    alembic.chmod(0o755)
    (course / "gradebook.db").unlink(missing_ok=True)
    own = Path(sys.executable).parent
    grader = start(course, own_group=True, path=f"{tmp_path}:{own}:{os.environ['PATH']}")
    while not (tmp_path / "started").exists():
        assert grader.poll() is None
        time.sleep(0.01)
    os.killpg(grader.pid, signal.SIGINT)
    status, output = finish(grader)
    # If alembic did not hold the signal, the grader might kill it before the signal is reported.
    assert (tmp_path / "started").read_text() == "held"
    assert (status, output.count("\n")) == (130, 1), output
    assert finish(start(course))[0] == 0
    assert_each_once(course)


def test_two_graders_at_once_grade_each_student_once(course: Path) -> None:
    for status, output in [finish(grader) for grader in (start(course), start(course, "--again"))]:
        assert status == 0, output
    assert_each_once(course)


def test_locked_gradebook_loses_no_grade(course: Path) -> None:
    book = sqlite3.connect(course / "gradebook.db", isolation_level=None)
    book.execute("begin exclusive")
    status, output = finish(start(course))
    assert (status, "locked" in output) == (1, True), output
    book.execute("rollback")
    book.close()
    assert finish(start(course))[0] == 0
    assert_each_once(course)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "fault",
    [
        errno.ENOSPC,
        signal.SIGKILL,
        *(pytest.param(n, marks=pytest.mark.classroom) for n in (errno.EIO, errno.EACCES)),
    ],
)
def test_fault_at_any_write_leaves_the_old_page_or_the_new_one(
    fault: int, tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A person has marked ada's answer, so only her page, the ledger and the report change."""
    shutil.copytree(tiny.course, graded := tmp_path / "graded")
    tiny.hand_in(graded / "submitted" / "ada")
    assert main(["grade", "tiny", "--course", str(graded)]) == 0
    with gradebook(graded) as book:
        mark = book.find_grade("w1", "tiny", "tiny", "ada")
        mark.manual_score, mark.needs_manual_grade = 1.5, False
        book.db.commit()
    shutil.copytree(graded, right := tmp_path / "right")
    assert main(["grade", "tiny", "--course", str(right)]) == 0
    old, new = content(graded), content(right)
    page, marks = "feedback/ada/tiny/tiny.html", "reports/tiny/moodle.csv"
    assert old[page] != new[page]
    assert old[marks] != new[marks]
    for at in itertools.count(1):
        shutil.copytree(graded, copy := tmp_path / str(at))
        capfd.readouterr()
        command = ["grade", "tiny", "--jobs", "1", "--course", str(copy)]
        status, had_one = outcome(command, copy, at, fault)
        if not had_one:
            break
        assert "Traceback" not in capfd.readouterr().err
        found = content(copy)
        assert found[page] in (old[page], new[page]), (at, status)
        # Marks that were not looked at in this run are left out.
        assert found[marks] in (old[marks], new[marks], b"username,tiny\r\n"), (at, status)
        if (found[page], found[marks]) != (new[page], new[marks]):
            assert main(command) == 0
            assert (content(copy)[page], content(copy)[marks]) == (new[page], new[marks])
    assert at > 3


@needs_root
@pytest.mark.parametrize(
    "spare_kib", [200, *(pytest.param(n, marks=pytest.mark.classroom) for n in (0, 600))]
)
def test_full_disk_loses_no_grade(spare_kib: int, course: Path) -> None:
    moved = course.with_name("moved")
    course.rename(moved)
    course.mkdir()
    script = (
        f"mount -t tmpfs -o size=16m tmpfs {course} && cp -a {moved}/. {course} && cd {course}"
        f" && dd if=/dev/zero of=filling bs=1K status=none; truncate -s -{spare_kib}K filling;"
        ' "$@"; echo "ended with $?"; rm filling; "$@" || exit 3;'
        f" cp -a {course}/. {moved}"
    )
    grader = start(moved, prefix=("unshare", "--mount", "sh", "-c", script, "sh"))
    status, output = finish(grader)
    assert status == 0, output
    assert "ended with 1" in output, output
    course.rmdir()
    moved.rename(course)
    assert_each_once(course)
