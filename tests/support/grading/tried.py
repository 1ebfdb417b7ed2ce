"""Statements that hold for each problem set: of a few in tests/lab, of all in tests/slow."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading.assignment import Task
from tcplab.grading.drawing import course_key, write_constants
from tcplab.grading.trial import Trial


def solution_gets_full_marks_and_untouched_exercise_nothing(name: str) -> None:
    """Run both trials at the same time. They mostly wait, and must not disturb each other."""
    trial = Trial(ROOT / "solutions" / name)
    with ThreadPoolExecutor(2) as threads:
        reference, untouched = threads.map(trial.run, ("reference", "untouched"))
    assert reference.as_expected, reference
    assert reference.total == sum(trial.points.values())
    assert list(reference.flags) == []
    assert untouched.as_expected, untouched
    assert set(untouched.scores.values()) == {0.0}


def program_of_another_course_fails(name: str, folder: Path) -> None:
    source = folder / "solutions" / name
    shutil.copytree(ROOT / "solutions" / name, source)
    key = course_key(b"another course's", name)
    (source / "course.json").write_text(json.dumps({"key": key, "captures": 48}))
    write_constants(source)
    answers = Task(source / "task.py", name).answers
    programs = [question for question, variables in answers.items() if not variables]
    here = Trial(source).run("reference", questions=programs)
    assert here.total == sum(Trial(source).points[question] for question in programs), here
    for path in each(list((ROOT / "solutions" / name / "hidden").glob("*.c"))):
        shutil.copy(path, source / "hidden")
    assert Trial(source).run("reference", questions=programs).total == 0


def sending_question(name: str) -> str:
    """Return the number of the question below the heading *Send a packet of your own*."""
    notebook = json.loads((ROOT / f"solutions/{name}/{name}.ipynb").read_text())
    texts = ["".join(cell["source"]) for cell in notebook["cells"]]
    (text,) = [text for text in texts if text.startswith("## Send a packet of your own")]
    question: str = re.findall(r"^\*\*(q\d+)\*\*", text, re.M)[0]
    return question


def packet_is_judged_by_the_kernels_answer(name: str) -> None:
    trial = Trial(ROOT / "solutions" / name)
    asked = sending_question(name)
    for student in ("ada", "bob"):
        assert trial.run("reference", student, questions=[asked]).scores == {asked: 1}, student
    wrong = [mistake for mistake, mutant in trial.mutants.items() if asked in mutant.loses]
    assert len(wrong) >= 4  # no packet, a guess, and packets with another effect
    for mistake in wrong:
        assert trial.run(mistake, questions=[asked]).as_expected, mistake
