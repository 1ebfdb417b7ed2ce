"""Test attacks on the marks: what other students' answers, file names and logs are worth.

A student's mark must come from their own work. The attacks use only what a student may know: the
exercise, the numbers and right answers of ten others, and the public course.
"""

import hashlib
import json
import random
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import nbformat
import numpy as np
import pytest
from tests.support.grading.forest import right_share
from tests.support.grading.sets import SHIPPED, captures_in
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.grading.archive import Stored, read_archive, take_out
from tcplab.grading.assignment import Course, Numbers, Task, load_module
from tcplab.grading.captures import calls_of, cause_of
from tcplab.grading.checks import score
from tcplab.grading.drawing import assignments, causes_in_order, course_key, draw
from tcplab.grading.fairness import MORE_THAN_CHANCE, seen_in, share_named
from tcplab.grading.judging import parts_of
from tcplab.grading.submission import Submission

#: The sets with scenes. Each of them has at least 24 captures.
SETS = each(
    path
    for path in assignments(ROOT / "solutions")
    if path.name in SHIPPED and (path / "hidden" / "scenes.py").is_file()
)
IDS = [path.name for path in SETS]
STUDENTS = 1000
KNOWN = 10
#: The cells with the answers about a capture that is printed in the notebook, the same for all.
SAME_FOR_ALL = {("small-writes", "q4-answer"), ("diagnosis", "q5-answer")}
#: Share of the capture and calculation points that the best attack may earn on average.
MOST_EARNED = 0.20
Answers = Mapping[str, Any]


@dataclass
class Assessed:
    """An assignment, its reference answers and its judge."""

    source: Path

    @cached_property
    def task(self) -> Task:
        return Task(self.source / "task.py", self.source.name)

    @cached_property
    def scenes(self) -> ModuleType:
        return load_module(self.source / "hidden" / "scenes.py", f"scenes_{self.source.name}")

    @cached_property
    def judge(self) -> ModuleType:
        path = self.source / "hidden" / "judge.py"
        return load_module(path, f"tcplab_judge_{self.source.name}_attacked")

    @cached_property
    def captures(self) -> list[Stored]:
        return captures_in(self.source)

    @cached_property
    def _notebook(self) -> Any:
        return nbformat.read(self.source / f"{self.source.name}.ipynb", as_version=4)

    @cached_property
    def points(self) -> dict[str, float]:
        """Return the points of all questions that need the student's own numbers or capture.

        Programs and packets are not among them.
        """
        tests, _ = parts_of(self._notebook)
        return {
            name: float(cell.metadata.nbgrader.points)
            for name, cell in tests.items()
            if not all("_packet" in answer for answer in self.task.answers.get(name, []))
            and (self.source.name, f"{name}-answer") not in SAME_FOR_ALL
        }

    @cached_property
    def _cells(self) -> list[tuple[str, bool]]:
        """Return the reference solution's cells, and whether each is about a capture."""
        cells, reads = [], False
        for cell in self._notebook.cells:
            if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
                reads = reads or 'n["capture' in cell.source
                # The question that sends a packet comes later, and reads no capture.
                asked = cell.metadata.nbgrader.grade_id
                sends = asked in ("q8-answer", "q10-answer")
                same = (self.source.name, asked) in SAME_FOR_ALL
                cells.append((cell.source, reads and not sends and not same))
        return cells

    def _run(self, numbers: Mapping[str, Any], *, with_captures: bool) -> dict[str, Any]:
        variables: dict[str, Any] = {"n": numbers}
        for source, reads in self._cells:
            if with_captures or not reads:
                exec(source, variables)
        return {name: variables[name] for name in self.task.names if name in variables}

    @cached_property
    def read(self) -> dict[str, dict[str, Any]]:
        """Return the reference answers for each capture, by its name."""
        numbers = self.task.numbers("ada")
        known = self._run(numbers, with_captures=False)
        by_capture = {}
        with TemporaryDirectory() as folder:
            names = [capture.name for capture in self.captures]
            take_out(self.source, names, Path(folder))
            for name in names:
                path = f"{folder}/{name}"
                paths = {"capture": path, "captures": [path]}
                every = self._run({**numbers, **paths}, with_captures=True)
                by_capture[name] = {key: value for key, value in every.items() if key not in known}
        return by_capture

    def answers(self, student: str) -> dict[str, Any]:
        """Return a student's right answers, without the programs."""
        return self.answers_for(self.task.numbers(student))

    def answers_for(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        answers = self._run(numbers, with_captures=False)
        if "captures" in numbers:
            read = [self.read[name] for name in numbers["captures"]]
            answers |= {name: [one[name][0] for one in read] for name in read[0]}
        else:
            answers |= self.read[numbers["capture"]]
        return answers

    def earned(self, student: str, answers: Answers) -> dict[str, float]:
        """Return the points that these answers earn, by question."""
        given = {name: answers.get(name) for name in self.task.names}
        work = Submission(student, self.task.numbers(student), given, {}, folder=self.source)
        by_question = {}
        for name, points in self.points.items():
            by_question[name] = score(getattr(self.judge, name)(work), points) or 0.0
        return by_question


@lru_cache
def assessed(name: str) -> Assessed:
    return Assessed(ROOT / "solutions" / name)


# ---- captures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IDS)
def test_causes_are_drawn_evenly_and_offered_alphabetically(name: str) -> None:
    own = assessed(name)
    assert len(own.captures) >= 24
    causes = own.scenes.CAUSES
    task = load_module(own.source / "task.py", f"tcplab_task_{name}_attacked")
    offered = next(
        getattr(task, kind) for kind in ("REASONS", "FIXES", "CAUSES") if hasattr(task, kind)
    )
    assert list(causes) == sorted(causes) == list(offered)
    counts = Counter(cause_of(capture) for capture in own.captures)
    assert set(counts) == set(causes)
    assert max(counts.values()) - min(counts.values()) <= 1
    text = "".join(cell.source for cell in own._notebook.cells if cell.cell_type == "markdown")
    places = [text.index(f'"{cause}"') for cause in causes]
    assert places == sorted(places)


@pytest.mark.parametrize("name", IDS)
def test_reference_solution_finds_the_cause_of_every_capture(name: str) -> None:
    own = assessed(name)
    for capture in each(own.captures):
        seen = own.read[capture.name][own.scenes.ANSWER]
        assert (seen[0] if isinstance(seen, list) else seen) == cause_of(capture), capture


def test_nagle_ends_no_pause_with_a_full_segment() -> None:
    """The congestion window can hold a full segment, but Nagle's algorithm never does."""
    for name in ("small-writes", "sendfile"):
        for capture in each(assessed(name).captures):
            data = capture.segments().data("client")
            late = data[int(np.diff(data["time_ns"]).argmax()) + 1]
            assert cause_of(capture) != "held-by-nagle" or late["payload_bytes"] < 1448, capture


@pytest.mark.parametrize("name", IDS)
def test_most_captures_have_different_answers(name: str) -> None:
    own = assessed(name)
    answers = [json.dumps(answer, default=float) for answer in own.read.values()]
    assert len(set(answers)) > 0.65 * len(answers)


# ---- file names, orders, logs --------------------------------------------------------------------

#: Ways to guess a cause from the number in a capture's name and the number of causes.
BY_NAME: Mapping[str, Callable[[int, int], int]] = {
    "in turn": lambda number, causes: number % causes,
    "in turn, backwards": lambda number, causes: -number % causes,
    "in turn, one later": lambda number, causes: (number + 1) % causes,
    "in blocks": lambda number, causes: number * causes // 49,
    "always the first": lambda _number, _causes: 0,
}


@pytest.mark.parametrize("name", IDS)
def test_capture_number_does_not_reveal_the_cause(name: str) -> None:
    """Try a thousand students, each in a course with a different secret."""
    possible = assessed(name).scenes.CAUSES
    right = Counter[str]()
    for student in range(STUDENTS):
        secret = f"of a course {student}".encode()
        causes = causes_in_order(secret, name, possible, 48)
        course = Course(course_key(secret, name), 48)
        (capture,) = Numbers(name, f"student-{student}", course).captures()
        number = int(Path(capture).stem)
        for way, guess in BY_NAME.items():
            right[way] += causes[number - 1] == possible[guess(number, len(possible))]
    chance = 1 / len(possible)
    assert max(right.values()) / STUDENTS < chance + 4 * (chance * (1 - chance) / STUDENTS) ** 0.5


def calls_in(capture: Stored) -> list[str]:
    if capture.log().startswith("#"):
        return [call.name for call in calls_of(capture)]
    return capture.log().split()


#: Features of a log without its capture. A student guesses the most common cause of the known logs
#: that have the same feature.
LOG_FEATURES: Mapping[str, Callable[[Stored], Sequence[float | str]]] = {
    "which calls": lambda capture: sorted(set(calls_in(capture))),
    "the last calls": lambda capture: calls_in(capture)[-7:],
    "how many calls": lambda capture: [len(calls_in(capture))],
    "how many corks": lambda capture: [calls_in(capture).count("cork")],
    "how many bytes": lambda capture: [len(capture.log())],
    "all calls": calls_in,
}


@pytest.mark.parametrize(
    "name", [path.name for path in SETS if "captures/1.log" in read_archive(path)]
)
def test_log_alone_does_not_reveal_the_cause(name: str) -> None:
    """Try a thousand students, each of whom knows the logs and the causes of ten others."""
    own = assessed(name)
    rng = random.Random(name)
    for feature, look in LOG_FEATURES.items():
        seen = {capture: look(capture) for capture in own.captures}
        right = 0
        for _ in range(STUDENTS):
            mine, *others = rng.sample(own.captures, KNOWN + 1)
            alike = [capture for capture in others if seen[capture] == seen[mine]] or others
            guess = Counter(cause_of(capture) for capture in alike).most_common(1)[0][0]
            right += guess == cause_of(mine)
        # A set has only 48 or 96 captures, so by chance the share differs from one over the number
        # of causes.
        assert right / STUDENTS < 1 / len(own.scenes.CAUSES) + 0.12, feature


# ---- what a capture reveals without being read ----


@pytest.mark.parametrize("name", IDS)
def test_counts_and_sizes_reveal_little_about_the_cause(name: str) -> None:
    """Let the rule of `tcplab draw`, and a tree and a forest, name the causes of a sixth."""
    own = assessed(name)
    points, causes = seen_in(own.captures)
    part = np.random.default_rng(0).permutation(len(causes)) % 6
    shares = [
        right_share(
            points[part != one], causes[part != one], points[part == one], causes[part == one]
        )
        for one in range(6)
    ]
    most = 1 / len(own.scenes.CAUSES) + MORE_THAN_CHANCE
    assert max(share_named(points, causes), statistics.mean(shares)) <= most, shares


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", IDS)
def test_captures_of_one_course_do_not_reveal_those_of_another(name: str, tmp_path: Path) -> None:
    """Learn from the public captures, name the causes of a course with another secret, and back."""
    own = assessed(name)
    for path in (ROOT / "solutions").glob("*.py"):  # which several scenes share
        shutil.copy(path, tmp_path)
    source = shutil.copytree(own.source, tmp_path / name)
    (tmp_path / "secret").write_text(hashlib.sha256(b"another").hexdigest())
    for _ in draw(source):
        pass
    ours, theirs = seen_in(own.captures), seen_in(captures_in(source))
    share = statistics.mean([right_share(*ours, *theirs), right_share(*theirs, *ours)])
    assert share <= 1 / len(own.scenes.CAUSES) + MORE_THAN_CHANCE


# ---- the answers of others -----------------------------------------------------------------------


def most_common(values: Sequence[Any]) -> Any:
    """Return the most frequent value, or the median of numbers that all differ."""
    keys = [json.dumps(value, default=float) for value in values]
    word, times = Counter(keys).most_common(1)[0]
    if times == 1 and all(isinstance(value, int | float) for value in values):
        return statistics.median_low(values)
    return values[keys.index(word)]


def distance(one: Any, other: Any) -> float:
    """Return the distance between two numbers, lists or words of an exercise; 0 if equal."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) / (abs(one) + abs(other) + 1e-9)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return sum(map(distance, one, other)) / (len(one) or 1)
    return float(one != other)


def attacks(numbers: Mapping[str, Any]) -> list[str]:
    """Name the attacks: the most common answer, the most similar student, one for each number."""
    return ["most common", "most similar", *numbers]


def copied(
    attack: str,
    numbers: Mapping[str, Any],
    known: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    name: str,
) -> Any:
    """Return the answer `name` that an attack copies from the known students."""
    values = [answers[name] for _, answers in known]
    if attack == "most common":
        return most_common(values)
    keys = numbers if attack == "most similar" else [attack]
    far = [sum(distance(numbers[key], theirs[key]) for key in keys) for theirs, _ in known]
    return values[far.index(min(far))]


#: Students attacked: half of them to find the best attack on each question, half to measure it.
TRIALS = 200


@pytest.mark.parametrize("name", IDS)
def test_copying_from_ten_students_earns_little(name: str) -> None:
    """Take the best attack for each question."""
    own = assessed(name)
    rng = random.Random(name)
    earned: dict[str, dict[str, list[float]]] = {question: {} for question in own.points}
    for trial in range(TRIALS):
        students = [f"student-{trial}-{rng.random()}" for _ in range(KNOWN + 1)]
        victim = students[0]
        numbers = own.task.numbers(victim)
        known = [(own.task.numbers(who), own.answers(who)) for who in students[1:]]
        for attack in attacks(numbers):
            answers = {
                answer: copied(attack, numbers, known, answer)
                for question in own.points
                for answer in own.task.answers[question]
            }
            for question, points in own.earned(victim, answers).items():
                earned[question].setdefault(attack, []).append(points)
    half, best_attacks = TRIALS // 2, {}
    for question, by_attack in earned.items():
        best = max(by_attack, key=lambda attack: sum(by_attack[attack][:half]))
        best_attacks[question] = round(statistics.mean(by_attack[best][half:]), 2), best
    share = sum(points for points, _ in best_attacks.values()) / sum(own.points.values())
    assert share <= MOST_EARNED, best_attacks


@pytest.mark.parametrize("name", IDS)
def test_answers_of_the_public_course_earn_little(name: str) -> None:
    """Hand in the answers that belong to the same id in a course with another secret."""
    own = assessed(name)
    task = Task(own.source / "task.py", name)
    task._course = Course(course_key(b"another course's", name), len(own.captures))
    shares = []
    for number in range(50):
        student = f"student-{number}"
        assert own.earned(student, own.answers(student)) == own.points
        points = own.earned(student, own.answers_for(task.numbers(student)))
        shares.append(sum(points.values()) / sum(own.points.values()))
    assert statistics.mean(shares) <= MOST_EARNED
