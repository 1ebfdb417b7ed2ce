"""Each student's numbers pose every kind of case, and facts for programs are drawn at grading."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.grading.sets import SHIPPED
from tests.support.paths import ROOT

from tcplab.grading.assignment import Task, load_module
from tcplab.grading.fairness import MORE_THAN_CHANCE, share_named
from tcplab.grading.submission import Submission
from tcplab.programs.compile import Built


class RunRequestedError(Exception):
    """Raised instead of a program's first run; holds the run that the judge asked for."""

    def __init__(self, *asked: Any) -> None:
        super().__init__()
        self.asked = tuple(map(str, asked))


class NotRun(Submission):
    """A submission whose programs compile but are not run."""

    def compile(self, name: str, **_flags: Any) -> Built:
        return Built(name, b"\x7fELF", "")

    def run_in_lab(self, built: Built, arguments: Any, **options: Any) -> Any:
        assert built.binary
        peer = [word for word in options["peer"] if "tcplab-received" not in word]
        files: Mapping[str, bytes] = options.get("files") or {}
        raise RunRequestedError(arguments, peer, options["lab"], sorted(files.items()))


def asked(name: str, question: str) -> tuple[str, ...]:
    """Return the run that the judge asks for: ada's arguments, the peer's, network and files."""
    source = ROOT / "solutions" / name
    judge = load_module(source / "hidden" / "judge.py", f"tcplab_judge_{name}_of_a_test")
    numbers = Task(source / "task.py", name).numbers("ada")
    with NotRun("ada", numbers, {}, {}, folder=Path()) as work:
        with pytest.raises(RunRequestedError) as ended:
            getattr(judge, question)(work)
        return ended.value.asked


@pytest.mark.parametrize(
    ("name", "question"),
    [(name, "q7") for name in ("pipes", "tcp-vs-udp", "segments", "buffers", "cork", "sendfile")]
    + [
        ("diagnosis", "q8"),
        ("slow-start", "q7"),
        ("queues", "q7"),
        ("real-programs", "q6"),
        ("real-programs", "q7"),
    ],
)
def test_two_gradings_of_one_student_differ(name: str, question: str) -> None:
    first = asked(name, question)
    assert any(asked(name, question) != first for _ in range(20))


def test_paths_of_segments_are_not_among_the_students_numbers() -> None:
    numbers = Task(ROOT / "solutions" / "segments" / "task.py", "segments").numbers("ada")
    assert not [name for name in numbers if name.endswith("path_mtu_bytes")]


def pieces_of_each_kind(pieces: list[tuple[int, int]]) -> bool:
    """Whether segments come with one missing, one out of order and one twice."""
    came = sorted(set(pieces))
    gaps = sum(first + size != then for (first, size), (then, _) in pairwise(came))
    once = list(dict.fromkeys(pieces))
    return gaps == 1 and len(pieces) == len(once) + 1 and once != came


def kind_of_writes(writes: tuple[int, ...]) -> tuple[int, ...]:
    """Describe each write but the last by whole segments (0, or 1 for more) and a rest (0 or 1)."""
    return tuple(10 * (size >= 1448) + (size % 1448 > 0) for size in writes[:-1])


#: For each set, whether a student's numbers pose every kind of case that its questions ask about.
EVERY_KIND: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "buffers": lambda n: (
        min(n["requests"]) < 1152 < sorted(n["requests"])[1]
        and sorted(n["requests"])[2] < n["rmem_max_bytes"] < max(n["requests"])
    ),
    "cork": lambda n: n["corked_bytes"] > n["held_bytes"] > 0 and n["pieces_bytes"][1] % 1448 > 0,
    "diagnosis": lambda n: pieces_of_each_kind(n["pieces"]) and len(set(n["captures"])) == 3,
    "pipes": lambda n: len(set(map(str, n["chains"]))) == 4,
    "queues": lambda n: {(False, True), (True, True), (True, False)} <= {*pairwise(n["echoes"])},
    "real-programs": lambda n: n["header_bytes"] < 1448 < n["file_bytes"],
    "segments": lambda n: n["narrow_mtu_bytes"] < n["wide_mtu_bytes"] and n["flight_segments"] > 1,
    "sendfile": lambda n: n["page_segments"] > 1 and 0 < n["page_last_bytes"] <= n["page_bytes"],
    "slow-start": lambda n: n["lost_segments"] > 1 and n["lost_first"] + n["lost_segments"] < 8,
    "small-writes": lambda n: (
        {(), (10,), (10, 10), (1,), (10, 1), (11,)} == {*map(kind_of_writes, n["patterns"])}
    ),
    "tcp-vs-udp": lambda n: len({fate for _, fate in n["datagrams"]}) == 2,
    "the-lab": lambda n: n["greeting_bytes"] > len("hello, world"),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_student_gets_a_case_of_every_kind(name: str) -> None:
    """tcplab.grading.rules checks for as many students that no right answer is empty."""
    task = Task(ROOT / "solutions" / name / "task.py", name)
    for student in map("s{}".format, range(2000)):
        numbers = task.numbers(student)
        assert EVERY_KIND[name](numbers), (student, numbers)


def test_a_cause_that_one_feature_reveals_is_named() -> None:
    rng = np.random.default_rng(0)
    causes, features = np.arange(96) % 4, rng.random((96, 9))
    assert share_named(features, causes) < 1 / 4 + MORE_THAN_CHANCE
    features[:, 3] += causes
    assert share_named(features, causes) > 0.9
