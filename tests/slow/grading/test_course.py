"""Run a course of thirty learners, from the hand-out to the marks in a CSV: `make test-course`.

The commands are those of the guide's first page (docs/instructors-guide.md), in its order. They run
in a copy of the course with a separate secret and an exchange. Eighteen learners are honest,
six hand in something damaged, and six attack. One set is also handed out and back through an LMS.
TCPLAB_COURSE_LEARNERS reduces the number of learners; -k cork runs one set.
"""

import csv
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.grading.damaged import DAMAGES, notebook_of
from tests.support.grading.fixtures import typed
from tests.support.grading.guide import words
from tests.support.grading.homework import hand_ins, write
from tests.support.grading.hostile import ATTACKS
from tests.support.grading.sets import captures_in
from tests.support.paths import ROOT

from tcplab.grading.archive import ARCHIVE_FILE, named_in
from tcplab.grading.assignment import Task
from tcplab.grading.drawing import assignments
from tcplab.grading.trial import Trial

pytestmark = [pytest.mark.classroom, pytest.mark.timeout(3600)]

SETS: Final = [path.name for path in assignments(ROOT / "solutions")]
LEARNERS: Final = int(os.environ.get("TCPLAB_COURSE_LEARNERS", "30"))
#: The kinds of ten learners: honest ones, damaged submissions and attacks.
KINDS: Final = ("honest", "honest", "honest", "damaged", "hostile") * 2
#: Damages that can happen to a notebook of any set, and cost no points.
REPAIRED: Final = (
    "test-cell-duplicated",
    "all-cell-ids-lost",
    "notebook-name-in-capitals",
    "utf-16-with-byte-order-mark",
    "windows-line-ends-in-the-cells",
    "all-tests-deleted",
    "test-cell-turned-into-text",
    "wrong-file-name",
    "another-kernels-name",
    "cells-reordered",
    "an-error-in-a-cell-of-its-own",
    "half-an-emoji-in-texts-and-code",
)
#: Attacks that replace the answer to q1 and gain no points.
REPELLED: Final = (
    "equality-always-true",
    "reads-solutions-gradebook-and-other-students",
    "forged-points-and-scores-in-the-metadata",
    "patched-checks",
    "kills-everybody",
    "reads-users-of-the-machine",
    "changed-test",
    "sends-the-exercise-to-the-network",
    "leaves-a-daemon-behind",
    "answers-with-a-gigantic-structure",
)
#: Points that a person gives for each written answer.
BY_HAND: Final = 1.0


@dataclass
class Course:
    """The instructor's folder, the exchange and the learners' homes."""

    folder: Path
    exchange: Path
    homes: Path
    learners: list[str]

    def type(self, *arguments: str) -> str:
        """Run a command in the instructor's terminal."""
        return typed(self.folder, *arguments, timeout_s=1800)

    def step(self, number: int, name: str = "", *, lms: bool = False) -> str:
        """Type the command of a step of the guide; return its output."""
        typed = words(number, name, LEARNERS, lms=lms)
        if typed == ["make", "exercises"]:  # run what the target runs, but without its environment
            typed = ["tcplab.grading.release"]
        return self.type(*typed)

    def through_the_exchange(self, learner: str, name: str, kind: Any) -> None:
        """Submit or fetch as nbgrader does when the learner presses the button."""
        from nbgrader.auth import Authenticator
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config import Config

        home = self.homes / learner
        config = Config()
        config.Exchange.root = str(self.exchange)
        config.Exchange.assignment_dir = str(home)
        config.Exchange.cache = str(home / ".nbgrader_cache")
        config.CourseDirectory.course_id = "tcplab"
        config.CourseDirectory.student_id = learner
        config.CourseDirectory.assignment_id = name
        about = {"coursedir": CourseDirectory(config=config), "authenticator": Authenticator()}
        kind(**about, config=config).start()


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Set up the whole course as the guide says."""
    return set_up(tmp_path_factory.mktemp("course"), SETS)


def set_up(top: Path, sets: list[str]) -> Course:
    """Take steps 3 and 4 of the guide in a course that has these sets."""
    course = Course(
        top / "course",
        top / "exchange",
        top / "homes",
        [f"learner{number:02}" for number in range(LEARNERS)],
    )
    course.exchange.mkdir()
    course.exchange.chmod(0o1777)
    course.folder.mkdir()
    for name in sets:
        source = course.folder / "solutions" / name
        leave_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "solutions" / name, source, ignore=leave_out)
    shutil.copy(ROOT / "solutions" / "nbgrader_config.py", course.folder / "solutions")
    shutil.copy(ROOT / "nbgrader_config.py", course.folder)
    config = course.folder / "solutions" / "nbgrader_config.py"
    # One account hands in for all thirty, which nbgrader would take for cheating.
    config.write_text(
        f"{config.read_text()}\nc.Exchange.root = {str(course.exchange)!r}\n"
        "c.ExchangeCollect.check_owner = False\n"
    )
    (course.folder / "roster.txt").write_text("\n".join(course.learners) + "\n")
    course.step(3)
    course.step(4)
    return course


@dataclass(frozen=True)
class Expected:
    """The score that a submission must get without manual grading, and the report's entries."""

    score: float  #: upper bound for an attack
    repairs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  #: at least one must be raised; empty without an attack


def hand_out(course: Course, name: str) -> None:
    """Give each learner the set with their own captures, and release it to the exchange."""
    course.step(5, name)
    into = f"{course.homes}/{{student}}/{{assignment}}"
    course.type("tcplab", "handout", name, "--students", "roster.txt", "--into", into)


def work(course: Course, name: str) -> dict[str, Expected]:
    """Let every learner do the set, well or badly; return the expected results."""
    source = course.folder / "solutions" / name
    trial, task = Trial(source), Task(source / "task.py", name)
    honest = iter(hand_ins(source, len(course.learners)))
    damages, attacks = itertools.cycle(REPAIRED), itertools.cycle(REPELLED)
    for _ in range(SETS.index(name)):  # each set gets different damages and attacks
        next(damages), next(attacks)
    expected = {}
    for learner, kind in zip(course.learners, itertools.cycle(KINDS), strict=False):
        folder = course.homes / learner / name
        hand_in = next(honest) if kind == "honest" else hand_ins(source, 1)[0]
        write(folder, hand_in, "Since the first segment was not acknowledged, the second waited.")
        mark = Expected(hand_in.score)
        if kind == "damaged":
            damage = DAMAGES[next(damages)]
            damage.do(folder)
            mark = Expected(hand_in.score, damage.repairs)
        if kind == "hostile":
            attack = ATTACKS[next(attacks)]
            attack.do(folder)
            path = notebook_of(folder)  # the attack answers the question of another set
            path.write_text(path.read_text().replace("q1_sum", task.answers["q1"][0]))
            flags = (attack.flag,) if isinstance(attack.flag, str) else attack.flag
            mark = Expected(hand_in.score - trial.points["q1"], (), flags)
        expected[learner] = mark
    return expected


def hand_in_all(course: Course, name: str, learners: list[str]) -> None:
    from nbgrader.exchange.default import ExchangeSubmit

    for learner in learners:
        course.through_the_exchange(learner, name, ExchangeSubmit)


def grade_live(course: Course, name: str, learners: list[str]) -> None:
    """Hand in while `--watch` runs, which must release a page for each learner before it ends."""
    from nbgrader.exchange.default import ExchangeFetchFeedback

    command = [sys.executable, "-m", "tcplab", "grade", name, "--watch"]
    watch = subprocess.Popen(command, cwd=course.folder, stdout=subprocess.PIPE, text=True)
    try:
        hand_in_all(course, name, learners)
        waiting = set(learners)
        assert watch.stdout is not None
        for line in watch.stdout:
            reported = re.match(r"[\d:]+ (\w+): (.*)", line)
            if reported:
                assert reported[2].startswith("graded, page released "), line
                waiting.remove(reported[1])
            if not waiting:
                break
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=300)
    for learner in learners:
        course.through_the_exchange(learner, name, ExchangeFetchFeedback)


def mark_by_hand(course: Course, name: str) -> dict[str, float]:
    """Mark each written answer, as in formgrader; return the points of each learner."""
    from nbgrader.api import Gradebook

    given = dict.fromkeys(course.learners, 0.0)
    with Gradebook(f"sqlite:///{course.folder}/gradebook.db", "tcplab") as book:
        for submission in book.assignment_submissions(name):
            for grade in (grade for one in submission.notebooks for grade in one.grades):
                if grade.needs_manual_grade:
                    grade.manual_score, grade.needs_manual_grade = BY_HAND, False
                    given[submission.student.id] += BY_HAND
        book.db.commit()
    return given


def rows(path: Path, key: str) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row[key]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", SETS)
def test_set_gets_the_expected_marks_through_the_exchange(course: Course, name: str) -> None:
    reports = course.folder / "reports" / name
    hand_out(course, name)
    check_hand_out(course, name)
    expected = work(course, name)
    # Some hand in while the instructor watches, the others later, and one of the first again.
    first = course.learners[: LEARNERS // 2]
    others = [*course.learners[len(first) :], first[0]]
    grade_live(course, name, first)
    hand_in_all(course, name, others)
    course.type("nbgrader", "collect", name, "--update")  # the watch has collected some
    output = course.step(7, name)
    assert re.match(r"\d+ graded in .*, 0 without a grade", output), output
    scores = check_scores(course, name, expected)

    by_hand = mark_by_hand(course, name)
    course.step(7, name)
    marked = {who: round(score + by_hand[who], 2) for who, score in scores.items()}
    check_marks(reports, name, marked)

    course.step(8, name)
    from nbgrader.exchange.default import ExchangeFetchFeedback

    for learner in course.learners:
        course.through_the_exchange(learner, name, ExchangeFetchFeedback)
    check_feedback(course, name, marked)


def test_set_gets_the_expected_marks_through_an_lms(tmp_path: Path) -> None:
    """Follow the guide's LMS column: archives out, Moodle's download in, marks and pages back."""
    name = "small-writes"
    course = set_up(tmp_path, [name])
    course.step(5, name, lms=True)
    for learner in course.learners:
        archive_of = course.folder / "handout" / name / f"{learner}.zip"
        shutil.unpack_archive(archive_of, course.homes / learner)
    check_hand_out(course, name)
    expected = work(course, name)
    download = course.folder / "submissions.zip"
    with zipfile.ZipFile(download, "w") as archive:
        for number, learner in enumerate(course.learners):
            packed = shutil.make_archive(f"{course.homes}/{learner}", "zip", course.homes / learner)
            archive.write(packed, f"Some One_{number}_assignsubmission_file_/{learner}.zip")
    course.step(6, name, lms=True)
    course.step(7, name, lms=True)
    scores = check_scores(course, name, expected)
    by_hand = mark_by_hand(course, name)
    course.step(7, name, lms=True)
    marked = {who: round(score + by_hand[who], 2) for who, score in scores.items()}
    check_marks(course.folder / "reports" / name, name, marked)
    course.step(8, name, lms=True)
    with zipfile.ZipFile(course.folder / "reports" / name / "feedback.zip") as archive:
        for number, learner in enumerate(course.learners):
            page = archive.read(f"Some One_{number}_assignsubmission_file_/{learner}.html").decode()
            assert re.findall(r"\(Score: ([\d.]+) /", page)[0] == str(marked[learner])


def check_hand_out(course: Course, name: str) -> None:
    """Check that no learner has another's captures, or files that only the instructor may have."""
    task = Task(course.folder / "solutions" / name / "task.py", name)
    for learner in course.learners:
        folder = course.homes / learner / name
        own = set(named_in(task.numbers(learner)))
        assert (folder / ARCHIVE_FILE).is_file() == bool(own), learner
        assert not own or {capture.name for capture in captures_in(folder)} == own, learner
        assert not list(folder.rglob("judge.py"))
        assert not (folder / "hidden").exists()


def check_scores(course: Course, name: str, expected: dict[str, Expected]) -> dict[str, float]:
    """Check that each learner has the expected score; return the scores by learner."""
    reports = course.folder / "reports" / name
    grades = rows(reports / "grades.csv", "student")
    assert sorted(grades) == course.learners  # no learner is lost
    given, wrong = {}, {}
    for learner, mark in expected.items():
        given[learner] = float(grades[learner]["score"] or "nan")
        report = json.loads((reports / "records" / f"{learner}.json").read_text())
        notes = " ".join(report["repairs"] + report["flags"])
        as_said = all(one.partition(":")[0] in notes for one in mark.repairs)
        if mark.flags:  # an attack gains nothing, and may spoil other answers of the submission
            as_said &= report["scores"]["q1"] == 0 and given[learner] <= mark.score
            as_said &= any(one in notes for one in mark.flags)
        elif given[learner] != mark.score:
            as_said = False
        if not as_said:
            wrong[learner] = (given[learner], mark, report)
    assert wrong == {}
    return given


def check_marks(reports: Path, name: str, marked: dict[str, float]) -> None:
    """Check that the files for an LMS contain the marks of all learners."""
    moodle = {
        who: float(row[name]) for who, row in rows(reports / "moodle.csv", "username").items()
    }
    assert moodle == marked
    canvas = rows(reports / "canvas.csv", "SIS Login ID")
    canvas.pop("")  # the row with the maximum points
    assert {who: float(row[name]) for who, row in canvas.items()} == marked
    page = (reports / "index.html").read_text()
    assert "0 to be marked by a person" in page


def check_feedback(course: Course, name: str, marked: dict[str, float]) -> None:
    """Check that each learner's newest page shows the mark.

    nbgrader finds no page for a learner who renamed the notebook. Then the page is handed back by
    hand, as docs/grading.md says.
    """
    for learner, mark in marked.items():
        fetched = (course.homes / learner / name / "feedback").glob(f"*/{name}.html")
        by_hand = course.folder / "feedback" / learner / name / f"{name}.html"
        page = max(fetched, default=by_hand).read_text()
        assert float(re.findall(r"\(Score: ([\d.]+) /", page)[0]) == mark, learner
        assert f"&lt;Assignment {name} of {learner}:" in page
